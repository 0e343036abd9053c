"""Mutual TLS with real certificates over real sockets: which connections are accepted, and the errors of the others."""

import asyncio
import ssl
from pathlib import Path

import pytest

from ankaios.common.certificate_roles import AGENT_ROLE, COMMANDER_ROLE
from ankaios.common.config import BadPemFile, Pem, PemMaterial
from ankaios.common.messages import AgentGone, ClientGone, ClientIdentity, FromAgent, FromClient
from ankaios.common.pb.grpc_api_pb2 import CommanderHello, ToServer
from ankaios.grpc.tls import client_context, server_context
from ankaios.middleware.client import connect
from ankaios.middleware.connecting import AccessRefused, CannotConnect, ConnectionLost, ConnectionSettings
from ankaios.middleware.methods import Method
from ankaios.middleware.server import Limits
from tests.integration.middleware.support import (
    Running,
    a_commander_hello,
    a_request,
    answering,
    assert_served,
    received,
    running_server,
)
from tests.support.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server_pem(authority: Authority) -> PemMaterial:
    return authority.server()


async def refusal(running: Running, pem: PemMaterial | None, agent: str = "agent_A") -> str:
    with pytest.raises(CannotConnect) as failure:
        async with running.agent(agent, pem):
            pass
    assert str(failure.value) == f"Could not connect to Ankaios server on '{running.url}'."
    return failure.value.reason


@pytest.mark.parametrize("algorithm", ["ed25519", "rsa", "ecdsa"])
async def test_agent_and_cli_exchange_messages_with_the_server(tmp_path: Path, algorithm: str) -> None:
    authority = Authority(tmp_path, algorithm)
    async with (
        running_server(authority.server()) as running,
        running.agent("agent_A", authority.agent("agent_A")),
        running.client(pem=authority.cli()) as cli,
    ):
        assert isinstance(await running.next(), FromAgent)
        await cli.send(a_request())
        assert isinstance(await running.next(), FromClient)


async def test_both_sides_agree_on_http2(authority: Authority, server_pem: PemMaterial) -> None:
    async with running_server(server_pem) as running:
        context = client_context(authority.cli())
        _, writer = await asyncio.open_connection(
            "127.0.0.1", running.server.port, ssl=context, server_hostname="ank-server"
        )
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        writer.close()


async def test_a_large_message_passes_through_tls(authority: Authority, server_pem: PemMaterial) -> None:
    async with running_server(server_pem) as running, running.client(pem=authority.cli()) as cli:
        request = a_request("x" * 5_000_000)
        await cli.send(request)
        message = await running.next()
        assert isinstance(message, FromClient)
        assert message.request.requestId.endswith("x" * 5_000_000)


async def test_a_request_has_the_user_and_the_name_of_the_certificate(
    authority: Authority, server_pem: PemMaterial
) -> None:
    hello = ToServer(commanderHello=CommanderHello(protocolVersion="1.0.1", user="alice"))
    named = authority.issue("operator", san="DNS:ank-cli", usage="clientAuth")
    async with running_server(server_pem) as running:
        for pem, certificate in ((named, "ank-cli"), (authority.cli(), "cli")):
            async with running.client(hello=hello, pem=pem) as cli:
                await cli.send(a_request())
                message = await running.next()
                assert isinstance(message, FromClient)
                assert message.sender == ClientIdentity("alice", certificate)
            assert isinstance(await running.next(), ClientGone)


async def test_the_server_is_identified_by_its_certificate_and_not_by_its_host(authority: Authority) -> None:
    """It is reached as 127.0.0.1, which its certificate does not mention."""
    async with running_server(authority.server("ank-server")) as running, running.client(pem=authority.cli()):
        pass


async def test_a_server_with_another_name_is_not_trusted(authority: Authority) -> None:
    async with running_server(authority.server("localhost")) as running:
        reason = await refusal(running, authority.cli())
        assert "is not trusted, checked with" in reason
        assert "ank-server" in reason
        assert str(authority.certificate) in reason


async def test_a_server_of_another_authority_is_not_trusted(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path)
    async with running_server(other.server()) as running:
        reason = await refusal(running, authority.agent("agent_A"))
        assert "the certificate of the server is not trusted" in reason


async def test_a_server_whose_certificate_has_expired_is_not_trusted(authority: Authority) -> None:
    async with running_server(authority.server(days="-1")) as running:
        assert "certificate has expired" in await refusal(running, authority.agent("agent_A"))


async def test_a_client_certificate_of_another_authority_is_refused(
    authority: Authority, server_pem: PemMaterial, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = Authority(tmp_path).issue("x", san="DNS:agent_A", usage="clientAuth", ca=authority.certificate)
    async with running_server(server_pem) as running:
        reason = await refusal(running, foreign)
        assert reason == f"the server rejected the certificate '{foreign.crt.origin}': unknown ca"
        assert "TLS failed" in caplog.text


async def test_an_expired_client_certificate_is_refused(authority: Authority, server_pem: PemMaterial) -> None:
    async with running_server(server_pem) as running:
        reason = await refusal(running, authority.agent("agent_A", days="-1"))
        assert "the server rejected the certificate" in reason
        assert "expired" in reason


async def test_a_certificate_made_for_servers_is_no_client_certificate(
    authority: Authority, server_pem: PemMaterial
) -> None:
    async with running_server(server_pem) as running:
        reason = await refusal(running, authority.issue("agent", san="DNS:agent_A", usage="serverAuth"))
        assert "the server rejected the certificate" in reason


async def test_a_client_without_certificate_is_refused(server_pem: PemMaterial) -> None:
    """With raw TLS, because our own client always sends one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    async with running_server(server_pem) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.server.port, ssl=context)
        with pytest.raises(ssl.SSLError, match="certificate required"):
            await reader.read()
        writer.close()


async def test_a_client_without_tls_gets_a_hint(server_pem: PemMaterial) -> None:
    async with running_server(server_pem) as running:
        settings = ConnectionSettings(running.url)
        with pytest.raises(CannotConnect) as failure:
            async with connect(settings, Method.CLI, a_commander_hello()):
                pass
    assert "if the server uses TLS, certificate files and an https address are needed" in failure.value.reason


async def test_a_client_with_tls_notices_a_server_without(authority: Authority) -> None:
    async with running_server() as running:
        running.url = running.url.replace("http:", "https:")
        assert await refusal(running, authority.cli()) == "the server does not use TLS"


async def test_an_http_url_uses_plain_text_even_with_certificates(
    authority: Authority, server_pem: PemMaterial
) -> None:
    async with running_server(server_pem) as running:
        running.url = running.url.replace("https:", "http:")
        await refusal(running, authority.agent("agent_A"))


async def test_the_certificate_of_another_agent_is_rejected(authority: Authority, server_pem: PemMaterial) -> None:
    async with running_server(server_pem) as running:
        with pytest.raises(AccessRefused) as failure:
            async with running.agent("agent_A", authority.agent("agent_B", "agent_C")):
                pass
        assert str(failure.value) == (
            'Agent name \'agent_A\' does not match SAN ["agent_B", "agent_C"] in agent certificates!'
        )
        assert len(running.channel) == 0


@pytest.mark.parametrize("names", [("x", "agent_A"), ("*",)])
async def test_one_of_the_names_or_a_star_covers_an_agent(
    authority: Authority, server_pem: PemMaterial, names: tuple[str, ...]
) -> None:
    async with running_server(server_pem) as running, running.agent("agent_A", authority.agent(*names)):
        assert isinstance(await running.next(), FromAgent)


async def test_a_certificate_with_other_kinds_of_names_covers_every_agent(
    authority: Authority, server_pem: PemMaterial
) -> None:
    pem = authority.issue("agent", san="IP:127.0.0.1", usage="clientAuth")
    async with running_server(server_pem) as running, running.agent("agent_A", pem):
        assert isinstance(await running.next(), FromAgent)


async def test_an_agent_needs_alternative_names_in_its_certificate(
    authority: Authority, server_pem: PemMaterial
) -> None:
    async with running_server(server_pem) as running:
        with pytest.raises(AccessRefused, match="No subject alt names found in agent certificates!"):
            async with running.agent("agent_A", authority.cli()):
                pass


async def test_an_agent_sends_exactly_one_certificate(authority: Authority, server_pem: PemMaterial) -> None:
    pem = authority.issue("agent", san="DNS:agent_A", usage="clientAuth", chain=authority.certificate)
    async with running_server(server_pem) as running:
        with pytest.raises(AccessRefused, match="Ambiguous agent certificates provided!"):
            async with running.agent("agent_A", pem):
                pass
        async with running.client(pem=pem) as cli:  # a CLI may
            await cli.send(a_request())
            assert isinstance(await running.next(), FromClient)


async def test_rejected_clients_do_not_affect_the_others(authority: Authority, server_pem: PemMaterial) -> None:
    async with (
        running_server(server_pem) as running,
        answering(running),
        running.client(pem=authority.cli()) as cli,
    ):
        for _ in range(5):
            await refusal(running, authority.agent("agent_A", days="-1"))
            await assert_served(cli)


def test_invalid_pem_texts_are_rejected_with_the_file_name(authority: Authority) -> None:
    good = authority.agent("agent_A")
    other_key = authority.agent("agent_A").key
    nonsense = Pem("-----BEGIN NONSENSE-----\n", "/etc/x.pem")
    empty = Pem("", "/etc/empty.pem")
    for bad, words in (
        (PemMaterial(nonsense, good.crt, good.key), "cannot use ca_pem '/etc/x.pem': no valid PEM"),
        (PemMaterial(empty, good.crt, good.key), "cannot use ca_pem '/etc/empty.pem': no valid PEM"),
        (PemMaterial(good.ca, nonsense, good.key), "cannot use crt_pem '/etc/x.pem': no valid PEM"),
        (PemMaterial(good.ca, good.crt, nonsense), "cannot use key_pem '/etc/x.pem': no valid PEM"),
        (PemMaterial(good.ca, good.crt, other_key), "the private key does not belong to the certificate"),
    ):
        for context in (server_context, client_context):
            with pytest.raises(BadPemFile) as failure:
                context(bad)
            assert words in failure.value.reason


async def test_a_client_with_unusable_certificates_does_not_try_to_connect(authority: Authority) -> None:
    good = authority.cli()
    broken = PemMaterial(good.ca, good.crt, Pem("", "/etc/key.pem"))
    async with running_server(good) as running:
        with pytest.raises(BadPemFile, match=r"key_pem '/etc/key\.pem'"):
            async with running.client(pem=broken):
                pass
        assert not running.server._grpc._connections


async def test_a_handshake_that_never_ends_is_aborted(server_pem: PemMaterial) -> None:
    async with running_server(server_pem, Limits(setup_timeout=0.2)) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.server.port)
        async with asyncio.timeout(5):
            with pytest.raises(ConnectionResetError):
                assert await reader.read() == b""
                raise ConnectionResetError
        writer.close()


# Roles


@pytest.mark.parametrize("requires_roles", [True, False])
async def test_certificates_with_roles_can_be_used_for_their_role(
    authority: Authority, server_pem: PemMaterial, requires_roles: bool
) -> None:
    async with (
        running_server(server_pem, requires_roles=requires_roles) as running,
        running.agent("agent_A", authority.agent("agent_A", role=AGENT_ROLE)),
        running.client(pem=authority.cli(role=COMMANDER_ROLE)),
    ):
        assert isinstance(await running.next(), FromAgent)


@pytest.mark.parametrize("method", [Method.CLI, Method.COMMAND])
async def test_the_certificate_of_an_agent_cannot_command(
    authority: Authority, server_pem: PemMaterial, method: Method
) -> None:
    async with running_server(server_pem) as running:
        pem = authority.agent("agent_A", role=AGENT_ROLE)
        with pytest.raises(AccessRefused, match="has the role 'ankaios-agent', not 'ankaios-commander'"):
            async with running.client(method, pem=pem):
                pass


async def test_the_certificate_of_a_commander_cannot_be_an_agent(authority: Authority, server_pem: PemMaterial) -> None:
    pem = authority.issue("x", san="DNS:agent_A", usage="clientAuth", role=COMMANDER_ROLE)
    async with running_server(server_pem) as running:
        with pytest.raises(AccessRefused, match="has the role 'ankaios-commander', not 'ankaios-agent'"):
            async with running.agent("agent_A", pem):
                pass


async def test_certificates_without_role_are_rejected_if_roles_are_required(
    authority: Authority, server_pem: PemMaterial
) -> None:
    async with running_server(server_pem, requires_roles=True) as running:
        with pytest.raises(AccessRefused, match="The certificate has no role, 'ankaios-agent' is required"):
            async with running.agent("agent_A", authority.agent("agent_A")):
                pass
        with pytest.raises(AccessRefused, match="The certificate has no role, 'ankaios-commander' is required"):
            async with running.client(pem=authority.cli()):
                pass


# Revocation and reload


def with_revocation_list(pem: PemMaterial, path: Path) -> PemMaterial:
    return pem._replace(crl=Pem(path.read_text(), str(path), is_file=True))


async def test_a_revoked_certificate_is_rejected(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    good, revoked = authority.agent("agent_A"), authority.agent("agent_A")
    material = with_revocation_list(authority.server(), authority.revocation_list(revoked))
    async with running_server(material) as running:
        assert (await refusal(running, revoked)).endswith("certificate revoked")
        async with running.agent("agent_A", good):
            assert isinstance(await running.next(), FromAgent)


async def test_a_file_without_revocation_list_is_reported(authority: Authority, server_pem: PemMaterial) -> None:
    with pytest.raises(BadPemFile, match=r"cannot use crl_pem '.*': no valid PEM .it contains no revocation list"):
        server_context(with_revocation_list(server_pem, authority.certificate))


async def test_a_connected_agent_whose_certificate_is_revoked_loses_its_connection(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    revoked = authority.agent("agent_A")
    material = with_revocation_list(authority.server(), authority.revocation_list())
    async with running_server(material) as running, running.agent("agent_A", revoked) as agent:
        assert isinstance(await running.next(), FromAgent)
        newer = with_revocation_list(material, authority.revocation_list(revoked))
        running.server.replace_certificates(newer, ends_connections=True)
        with pytest.raises(ConnectionLost, match="new certificates or a new revocation list"):
            await received(agent)
        assert await running.next() == AgentGone("agent_A")
        assert (await refusal(running, revoked)).endswith("certificate revoked")
