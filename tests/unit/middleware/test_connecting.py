"""The address in a URL, and the errors of a connection."""

from contextlib import suppress
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.config import Pem, PemMaterial
from ankaios.grpc.addresses import TcpAddress, UnixAddress
from ankaios.grpc.tls import TlsFailure, TlsSession
from ankaios.grpc.wire_format import CallFailed, Status
from ankaios.middleware.connecting import (
    AccessRefused,
    BadUrl,
    CannotConnect,
    ConnectionSettings,
    VersionRefused,
    address_of,
    explain_break,
    explain_tls_failure,
    refusal_error,
)

PEM = PemMaterial(Pem("", "ca.pem"), Pem("", "crt.pem"), Pem("", "key.pem"))


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:25551", TcpAddress("127.0.0.1", 25551)),
        ("https://server", TcpAddress("server", 443, secure=True)),
        ("http://server.", TcpAddress("server.", 80)),
        ("http://server:0/path?query#part", TcpAddress("server", 0)),
        ("https://server?x", TcpAddress("server", 443, secure=True)),
        ("http://[::1]:1", TcpAddress("::1", 1)),
        ("http://[fe80::1%eth0]/", TcpAddress("fe80::1%eth0", 80)),
        ("http://SERVER.example#x", TcpAddress("server.example", 80)),
        ("http://[FE80::1%Eth0]", TcpAddress("fe80::1%Eth0", 80)),
        ("http://grün.example:65535", TcpAddress("grün.example", 65535)),
    ],
)
def test_a_url_is_scheme_host_and_port(url: str, address: TcpAddress) -> None:
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
        "http://x:65536",
        "http://x:007",
        "http://user@x:1",
        "http://[fe80::1%a@b]",
        "http://[v1.x]",
        "http://\u2100.example",  # would become "a/c" in its ASCII form
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
def test_an_unusable_url_is_reported_as_it_was_given(url: str) -> None:
    with pytest.raises(BadUrl) as failure:
        address_of(url)
    assert str(failure.value) == f"Wrong server address format: '{url}'."


@given(st.text())
def test_any_text_is_a_url_or_rejected(text: str) -> None:
    for url in (text, f"http://{text}", f"https://[{text}]:{text}"):
        with suppress(BadUrl):
            assert address_of(url).host


def test_the_shown_url_has_no_https_without_certificates() -> None:
    assert ConnectionSettings("https://x:1").shown_url == "http://x:1"
    assert ConnectionSettings("https://x:1", PEM).shown_url == "https://x:1"


def test_requests_name_the_server_as_http_requires_it() -> None:
    assert TcpAddress("::1", 5).authority == "[::1]:5"
    assert TcpAddress("server", 5).authority == "server:5"
    assert UnixAddress("/run/x.sock").authority == "localhost"


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (Status.FAILED_PRECONDITION, VersionRefused, "Ankaios version mismatch: 'why'."),
        (Status.UNAUTHENTICATED, AccessRefused, "why"),
        (Status.INTERNAL, CannotConnect, "Could not connect to Ankaios server on 'url'."),
    ],
)
def test_the_status_of_a_rejection_determines_the_type_of_the_error(
    status: Status, kind: type[Exception], expected: str
) -> None:
    fault = refusal_error(CallFailed(status, "why"), "url")
    assert (type(fault), str(fault)) == (kind, expected)
    if isinstance(fault, CannotConnect):
        assert fault.reason == "the server rejected the call: why (INTERNAL)"


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (TlsFailure("unknown ca", from_peer=True), "the server rejected the certificate 'crt.pem': unknown ca"),
        (TlsFailure("wrong version number", from_peer=False), "the server does not use TLS"),
        (
            TlsFailure("expired", from_peer=False),
            "the certificate of the server is not trusted, checked with 'ca.pem': expired",
        ),
    ],
)
def test_a_failure_of_tls_names_the_file_to_check(failure: TlsFailure, expected: str) -> None:
    assert explain_tls_failure(failure, PEM) == expected


def test_a_server_that_sent_no_settings_may_require_tls() -> None:
    hint = "reason; if the server uses TLS, certificate files and an https address are needed"
    assert explain_break("reason", None, None, settings_received=False) == hint
    assert explain_break("reason", None, None, settings_received=True) == "reason"
    assert explain_break("reason", PEM, None, settings_received=False) == hint
    session = cast("TlsSession", SimpleNamespace(failure=None))
    assert explain_break("reason", PEM, session, settings_received=False) == "reason"
