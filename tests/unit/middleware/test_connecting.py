"""Where a URL leads, and what the errors of a connection are called."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.config import Pem, PemMaterial
from ankaios.middleware.connecting import (
    AccessRefused,
    Address,
    BadUrl,
    CannotConnect,
    ConnectionSettings,
    VersionRefused,
    address_of,
    call_headers,
    explain_break,
    refusal,
)
from ankaios.middleware.grpc_call import CallFailed, Status
from ankaios.middleware.methods import Method
from ankaios.middleware.tls import TlsFailed

PEM = PemMaterial(Pem("", "ca.pem"), Pem("", "crt.pem"), Pem("", "key.pem"))


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:25551", Address(False, "127.0.0.1", 25551)),
        ("https://server", Address(True, "server", 443)),
        ("http://server.", Address(False, "server.", 80)),
        ("http://server:0/path?query#part", Address(False, "server", 0)),
        ("https://server?x", Address(True, "server", 443)),
        ("http://[::1]:1", Address(False, "::1", 1)),
        ("http://[fe80::1%eth0]/", Address(False, "fe80::1%eth0", 80)),
        ("http://grün.example:65535", Address(False, "grün.example", 65535)),
    ],
)
def test_a_url_is_scheme_host_and_port(url: str, address: Address) -> None:
    assert address_of(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http",
        "localhost",
        "127.0.0.1:25551",
        "ftp://x",
        "HTTP://x",
        "http://",
        "http:///path",
        "http://:1",
        "http://x:",
        "http://x:y",
        "http://x:-1",
        "http://x:99999",
        "http://x:１２",
        "http://x:1:2",
        "http://[::1",
        "http://[]",
        "http://[ü..]",
        f"http://[{'a' * 64}]",
        "http://[::1]1",
        "http://[::1]:",
        "http://a..b",
        "http://.",
        "http://ü..b",
        f"http://{'x' * 64}.example",
        f"http://{'ü' * 64}.example",
        "http://x\n",
        "http://x\0y",
        "http://x/\x1b[2J",
    ],
)
def test_what_leads_nowhere_is_told_as_it_was_given(url: str) -> None:
    with pytest.raises(BadUrl) as failure:
        address_of(url)
    assert str(failure.value) == f"Wrong server address format: '{url}'."


@given(st.text())
def test_no_text_does_worse_than_to_be_a_bad_url(text: str) -> None:
    for url in (text, f"http://{text}", f"https://[{text}]:{text}"):
        with suppress(BadUrl):
            assert address_of(url).host


def test_the_shown_url_has_no_https_without_certificates() -> None:
    assert ConnectionSettings("https://x:1").shown_url == "http://x:1"
    assert ConnectionSettings("https://x:1", PEM).shown_url == "https://x:1"


def test_a_call_names_method_and_authority() -> None:
    headers = dict(call_headers(Address(True, "::1", 5), Method.CLI))
    assert headers[":scheme"] == "https"
    assert headers[":authority"] == "[::1]:5"
    assert headers[":path"] == "/grpc_api.CliConnection/ConnectCli"


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (Status.FAILED_PRECONDITION, VersionRefused, "Ankaios version mismatch: 'why'."),
        (Status.UNAUTHENTICATED, AccessRefused, "why"),
        (Status.INTERNAL, CannotConnect, "Could not connect to Ankaios server on 'url'."),
    ],
)
def test_the_status_of_a_refusal_says_what_to_do_next(status: int, kind: type[Exception], told: str) -> None:
    fault = refusal(CallFailed(status, "why"), "url")
    assert (type(fault), str(fault)) == (kind, told)
    if isinstance(fault, CannotConnect):
        assert fault.reason == "the server refused the call: why (INTERNAL)"


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (TlsFailed("unknown ca", from_peer=True), "the server refused our certificate 'crt.pem': unknown ca"),
        (TlsFailed("wrong version number", from_peer=False), "the server does not speak TLS"),
        (
            TlsFailed("expired", from_peer=False),
            "the certificate of the server is not trusted, checked with 'ca.pem': expired",
        ),
        (None, "reason"),
    ],
)
def test_a_failure_of_tls_names_the_file_to_look_at(failure: TlsFailed | None, told: str) -> None:
    assert explain_break("reason", PEM, failure, peer_has_spoken=False) == told


def test_a_peer_that_never_spoke_may_want_tls() -> None:
    suspicion = "reason; if the server uses TLS, certificate files and an https address are needed"
    assert explain_break("reason", None, None, peer_has_spoken=False) == suspicion
    assert explain_break("reason", None, None, peer_has_spoken=True) == "reason"
