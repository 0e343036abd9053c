"""The real server behind mutual TLS.

Needs: nothing but the repository.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest

from tests.support.certificates import Authority
from tests.support.wire.peer import Conversation, ServerProcess


class Certificates:
    """Files for the server and credentials for its peers; the grpcio of the peers does not support Ed25519."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder, "ecdsa")
        self.ca = str(self._authority.certificate)
        certificate, key = self._authority.certificate_files("server", san="DNS:ank-server", usage="serverAuth")
        self.crt, self.key = str(certificate), str(key)

    def peer(self, san: str = "") -> grpc.ChannelCredentials:
        certificate, key = self._authority.certificate_files("peer", san=san, usage="clientAuth")
        return grpc.ssl_channel_credentials(Path(self.ca).read_bytes(), key.read_bytes(), certificate.read_bytes())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def server(certificates: Certificates) -> Iterator[ServerProcess]:
    """[stest->swdd~server-supports-pem-file-paths-as-cli-arguments~1]"""
    flags = ("--ca_pem", certificates.ca, "--crt_pem", certificates.crt, "--key_pem", certificates.key)
    with ServerProcess(*flags) as process:
        yield process


def hello(server: ServerProcess, credentials: grpc.ChannelCredentials | None, agent: str = "") -> Conversation:
    peer = server.connect("agent" if agent else "cli", credentials)
    if agent:
        peer.send(agentHello={"agentName": agent, "protocolVersion": "1.0.1"})
    else:
        peer.send(commanderHello={"protocolVersion": "1.0.1"})
    return peer


def test_peers_with_certificates_are_accepted(server: ServerProcess, certificates: Certificates) -> None:
    """[stest->swdd~server-supports-pem-file-paths-as-cli-arguments~1]"""
    with hello(server, certificates.peer()) as cli, hello(server, certificates.peer("DNS:n1"), "n1") as agent:
        assert agent.receive() == {"serverHello": {}}
        answer = cli.answer("r", completeStateRequest={"fieldMask": ["agents"]})
        assert list(answer["completeStateResponse"]["completeState"]["agents"]["agents"]) == ["n1"]


def test_peers_without_certificates_are_rejected(server: ServerProcess, certificates: Certificates) -> None:
    with hello(server, None) as plain_text:
        assert plain_text.failure()[0] == grpc.StatusCode.UNAVAILABLE
    anonymous = grpc.ssl_channel_credentials(Path(certificates.ca).read_bytes())
    with hello(server, anonymous) as peer:
        assert peer.failure()[0] == grpc.StatusCode.UNAVAILABLE


def test_an_agent_cannot_use_the_name_of_another(server: ServerProcess, certificates: Certificates) -> None:
    with hello(server, certificates.peer("DNS:n1"), "n2") as agent:
        assert agent.failure() == (
            grpc.StatusCode.UNAUTHENTICATED,
            "Agent name 'n2' does not match SAN [\"n1\"] in agent certificates!",
        )


def test_pem_files_may_come_from_the_environment_and_override_insecure(certificates: Certificates) -> None:
    """[stest->swdd~server-supports-pem-file-paths-as-cli-arguments~1]"""
    environ = {
        "ANKSERVER_CA_PEM": certificates.ca,
        "ANKSERVER_CRT_PEM": certificates.crt,
        "ANKSERVER_KEY_PEM": certificates.key,
    }
    with ServerProcess("--insecure", environ=environ) as server, hello(server, certificates.peer()) as cli:
        assert "completeStateResponse" in cli.answer("r", completeStateRequest={})
        assert "it is ignored and mTLS is used" in server.log


def test_a_key_that_others_can_read_prevents_the_start(certificates: Certificates) -> None:
    process = ServerProcess("--ca_pem", certificates.ca, "--crt_pem", certificates.crt, "--key_pem", certificates.ca)
    try:
        assert process.run_to_end() == 1
        assert "Failed to load certificate files!: '" in process.log
    finally:
        process.__exit__(None, None, None)


def test_certificates_and_revocation_list_are_loaded_again(tmp_path: Path) -> None:
    """By a change of the files, and by SIGHUP; an invalid file changes nothing."""
    authority = Authority(tmp_path, "ecdsa")
    crt, key = authority.certificate_files("server", san="DNS:ank-server", usage="serverAuth")
    agent = authority.agent("n1")
    credentials = grpc.ssl_channel_credentials(
        authority.certificate.read_bytes(), agent.key.text.encode(), agent.crt.text.encode()
    )
    crl = authority.revocation_list()
    flags = ("--ca_pem", str(authority.certificate), "--crt_pem", str(crt), "--key_pem", str(key))
    with ServerProcess(*flags, "--crl_pem", str(crl)) as server, hello(server, credentials, "n1") as peer:
        assert peer.receive() == {"serverHello": {}}
        assert server.process is not None
        server.process.send_signal(signal.SIGHUP)
        server.wait_for_log("The certificates were loaded again.")
        crl.write_text("nonsense")
        server.wait_for_log("The certificates were not loaded again, the old ones stay in use: cannot use crl_pem")
        assert "completeStateResponse" in peer.answer("web@1", completeStateRequest={"fieldMask": ["agents"]})
        authority.revocation_list(agent)
        server.wait_for_log("The certificates were loaded again. Connected peers have to connect again.")
        assert peer.failure()[0] == grpc.StatusCode.UNAVAILABLE
        with hello(server, credentials, "n1") as again:
            assert again.failure()[0] == grpc.StatusCode.UNAVAILABLE
        server.wait_for_log("certificate revoked")
