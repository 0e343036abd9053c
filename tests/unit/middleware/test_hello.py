"""Accepted hellos, and the exact texts of the rejections."""

from collections.abc import Callable

import pytest

from ankaios.common.pb.grpc_api_pb2 import AgentHello, CommanderHello, Goodbye, ToServer
from ankaios.grpc.tls import PeerCertificates
from ankaios.grpc.wire_format import CallFailed, Status
from ankaios.middleware.hello import check_agent_certificates, check_agent_hello, check_commander_hello, client_identity


def an_agent_hello(name: str = "agent_A", version: str = "1.0.1") -> ToServer:
    return ToServer(agentHello=AgentHello(agentName=name, protocolVersion=version))


def a_commander_hello(version: str = "1.0.0") -> ToServer:
    return ToServer(commanderHello=CommanderHello(protocolVersion=version))


def peer(*dns: str, count: int = 1) -> PeerCertificates:
    return PeerCertificates(count, tuple(("DNS", name) for name in dns))


def refusal(failure: pytest.ExceptionInfo[CallFailed]) -> tuple[int, str]:
    return failure.value.status, failure.value.text


def test_an_agent_with_a_supported_version_is_accepted_by_its_name() -> None:
    assert check_agent_hello(an_agent_hello(), None) == "agent_A"
    check_commander_hello(a_commander_hello("1.1.0-pre"))


@pytest.mark.parametrize("message", [None, ToServer()])
def test_an_empty_first_message_is_rejected(message: ToServer | None) -> None:
    checks: list[Callable[[], str]] = [lambda: check_agent_hello(message, None), lambda: check_commander_hello(message)]
    for check in checks:
        with pytest.raises(CallFailed) as failure:
            check()
        assert refusal(failure) == (Status.INVALID_ARGUMENT, "Empty")


def test_another_first_message_is_rejected() -> None:
    for wrong in (a_commander_hello(), ToServer(goodbye=Goodbye())):
        with pytest.raises(CallFailed) as failure:
            check_agent_hello(wrong, None)
        assert refusal(failure) == (Status.INVALID_ARGUMENT, "No AgentHello received.")
    with pytest.raises(CallFailed) as failure:
        check_commander_hello(an_agent_hello())
    assert refusal(failure) == (Status.INVALID_ARGUMENT, "No CommanderHello received.")


@pytest.mark.parametrize("version", ["2.0.0", "0.6.0", "v1.0.0", "1", "", "1.0"])
def test_other_versions_are_rejected(version: str) -> None:
    expected = (
        Status.FAILED_PRECONDITION,
        f"Unsupported protocol version '{version}'. Currently supported '1'",
    )
    with pytest.raises(CallFailed) as failure:
        check_agent_hello(an_agent_hello(version=version), peer("other"))
    assert refusal(failure) == expected
    with pytest.raises(CallFailed) as failure:
        check_commander_hello(a_commander_hello(version))
    assert refusal(failure) == expected


@pytest.mark.parametrize(
    ("count", "text"),
    [(2, "Ambiguous agent certificates provided!"), (1, "No subject alt names found in agent certificates!")],
)
def test_certificate_count_is_checked_before_the_extension(count: int, text: str) -> None:
    with pytest.raises(CallFailed) as failure:
        check_agent_certificates(PeerCertificates(count, None))
    assert refusal(failure) == (Status.UNAUTHENTICATED, text)


def test_certificates_with_names_and_connections_without_tls_are_accepted() -> None:
    check_agent_certificates(PeerCertificates(1, ()))
    check_agent_certificates(None)


@pytest.mark.parametrize("names", [("agent_A",), ("x", "agent_A"), ("*",), ("x", "*"), ()])
def test_names_that_cover_the_agent(names: tuple[str, ...]) -> None:
    assert check_agent_hello(an_agent_hello(), peer(*names)) == "agent_A"


def test_an_agent_name_must_be_covered() -> None:
    with pytest.raises(CallFailed) as failure:
        check_agent_hello(an_agent_hello(), peer("agent_B", "agent_*"))
    assert refusal(failure) == (
        Status.UNAUTHENTICATED,
        'Agent name \'agent_A\' does not match SAN ["agent_B", "agent_*"] in agent certificates!',
    )


def test_only_dns_names_are_compared() -> None:
    addresses = PeerCertificates(1, (("IP Address", "127.0.0.1"),))
    assert check_agent_hello(an_agent_hello(), addresses) == "agent_A"
    mixed = PeerCertificates(1, (("IP Address", "127.0.0.1"), ("DNS", "agent_B")))
    with pytest.raises(CallFailed, match="does not match SAN"):
        check_agent_hello(an_agent_hello(), mixed)


@pytest.mark.parametrize("name", ["", "a@b", "cli-conn-1", "commander-conn", "a b", "ä", "a\nb"])
def test_names_that_would_confuse_request_ids_are_rejected(name: str) -> None:
    with pytest.raises(CallFailed) as failure:
        check_agent_hello(an_agent_hello(name), None)
    assert failure.value.status == Status.INVALID_ARGUMENT
    assert f"Unsupported agent name '{name}'" in failure.value.text


@pytest.mark.parametrize(
    ("user", "certificates", "text"),
    [
        ("alice", None, "alice"),
        ("alice", peer("ank-cli", "other"), "alice (certificate 'ank-cli')"),
        ("alice", PeerCertificates(1, None, (), "ank-operator"), "alice (certificate 'ank-operator')"),
        ("alice", PeerCertificates(1, (("IP Address", "127.0.0.1"),)), "alice"),
        ("", peer("ank-cli"), "unknown (certificate 'ank-cli')"),
        ("", None, "unknown"),
        ("a\nb\x1b[1m" + "x" * 1000, None, "ab[1m" + "x" * 57),
    ],
)
def test_a_client_is_described_by_its_user_and_the_name_of_its_certificate(
    user: str, certificates: PeerCertificates | None, text: str
) -> None:
    assert str(client_identity(user, certificates)) == text
