"""Shared by both clients of a server: the address, the settings, and the errors of a connection.

Input: a URL and settings, the status of a rejected call, a TLS failure. Output: an address, and errors whose texts are
part of the user interface. Owns nothing and waits for nothing: `client.py` uses it with asyncio, `blocking_client.py`
without.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, NamedTuple

from ankaios.common.errors import Fatal, Rejected, Unavailable
from ankaios.grpc.addresses import TcpAddress
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.wire_format import CallFailed, Status

if TYPE_CHECKING:
    from ankaios.common.config import PemMaterial
    from ankaios.grpc.tls import TlsFailure, TlsSession

SERVER_NAME = "ank-server"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SEPARATORS = set("/?#@:[]")
_MAX_LABEL = 63  # bytes between two dots of a host name
_NO_TLS = ("wrong version number", "record layer failure", "packet length too long")


class BadUrl(Rejected):
    """The server address is not valid."""

    def __init__(self, url: str) -> None:
        super().__init__(f"Wrong server address format: '{url}'.")


class CannotConnect(Unavailable):
    """No connection to the server; `reason` states what failed."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"Could not connect to Ankaios server on '{url}'.")
        self.reason = reason


class NotLeading(CannotConnect):
    """The server is on standby. `leader` is the URL of the leader, empty if there is none at the moment."""

    def __init__(self, url: str, text: str) -> None:
        super().__init__(url, f"the server rejected the call: {text}")
        self.leader = leader_in(text)


_STANDBY_TEXT = "this server is on standby"
_LEADER_TEXT = f"{_STANDBY_TEXT}, the leader is "


def standby_text(leader: str) -> str:
    """The text with which a server on standby rejects calls; `leader` is a URL, empty if no server leads."""
    return f"{_LEADER_TEXT}{leader}" if leader else f"{_STANDBY_TEXT}, no server leads at the moment"


def leader_in(text: str) -> str:
    """The URL of the leader; empty if the text names none, or nothing that is a URL of a server."""
    leader = text.removeprefix(_LEADER_TEXT) if text.startswith(_LEADER_TEXT) else ""
    try:
        address_of(leader)
    except BadUrl:
        return ""
    return leader


class VersionRefused(Rejected, Fatal):
    """The server does not support our protocol version; `text` is the server's."""

    def __init__(self, text: str) -> None:
        super().__init__(f"Ankaios version mismatch: '{text}'.")
        self.text = text


class AccessRefused(Unavailable):
    """The server does not accept our identity; the text is the server's."""


class ConnectionLost(Unavailable):
    """The stream to the server broke or ended; the text states why."""


class ConnectionSettings(NamedTuple):
    """How to connect to the server."""

    url: str
    pem: PemMaterial | None = None
    max_message_size: int = 64 * 1024 * 1024
    keepalive: Keepalive = Keepalive(interval=1.1)  # longer than the server's, so that only one side sends pings
    connect_timeout: float = 5.0

    @property
    def shown_url(self) -> str:
        return effective_url(self.url, self.pem)


def effective_url(url: str, pem: PemMaterial | None) -> str:
    """Return the URL that is used and shown: without certificates there is no https."""
    return url if pem is not None else url.replace("https:", "http:")


def address_of(url: str) -> TcpAddress:
    """An http URL never means TLS, even if there are certificates."""
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0].partition("?")[0].partition("#")[0]
    host, colon, port = authority.rpartition(":") if _has_port(authority) else (authority, "", "")
    is_v6 = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if is_v6 else host
    if scheme not in _DEFAULT_PORTS or not url.isprintable() or not (_is_v6(host) if is_v6 else _is_host_name(host)):
        raise BadUrl(url)
    if colon and not _is_port(port):
        raise BadUrl(url)
    name, percent, zone = host.partition("%")  # the name of a network interface is case-sensitive
    port_number = int(port) if colon else _DEFAULT_PORTS[scheme]
    return TcpAddress(name.lower() + percent + zone, port_number, secure=scheme == "https")


def _has_port(authority: str) -> bool:
    """An IPv6 address contains colons, too, but ends with a bracket."""
    return ":" in authority and not authority.endswith("]")


def _is_port(text: str) -> bool:
    is_number = text.isascii() and text.isdigit() and len(text) <= len("65535")
    return is_number and int(text) <= 65535 and text == str(int(text))


def _is_v6(host: str) -> bool:
    address, _, zone = host.partition("%")
    try:
        socket.inet_pton(socket.AF_INET6, address)
    except (OSError, ValueError):
        return False
    return not set(zone) & _SEPARATORS


def _is_host_name(host: str) -> bool:
    """Check that the name has an ASCII form without separators, and that each of its labels has a valid length."""
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return False
    return not set(name) & _SEPARATORS and all(
        0 < len(label) <= _MAX_LABEL for label in name.removesuffix(".").split(".")
    )


def new_tls_session(pem: PemMaterial) -> TlsSession:
    """The server needs a certificate for the DNS name `ank-server`, independent of the host it runs on."""
    from ankaios.grpc.tls import TlsSession, client_context  # loads `ssl`, which is not needed without TLS

    return TlsSession(client_context(pem), server_name=SERVER_NAME)


def refusal_error(failure: CallFailed, url: str) -> CannotConnect | VersionRefused | AccessRefused:
    """Return what it means that the server ended the call before it accepted the hello."""
    if failure.status is Status.FAILED_PRECONDITION:
        return VersionRefused(failure.text)
    if failure.status is Status.UNAUTHENTICATED:
        return AccessRefused(failure.text)
    if failure.status is Status.UNAVAILABLE and failure.text.startswith(_STANDBY_TEXT):
        return NotLeading(url, failure.text)
    return CannotConnect(url, f"the server rejected the call: {failure}")


def explain_break(reason: str, pem: PemMaterial | None, tls: TlsSession | None, *, settings_received: bool) -> str:
    """Return why there is no connection, with what to check. `tls` is None without TLS."""
    if tls is not None and tls.failure is not None and pem is not None:
        return explain_tls_failure(tls.failure, pem)
    if tls is None and not settings_received:
        return f"{reason}; if the server uses TLS, certificate files and an https address are needed"
    return reason


def explain_tls_failure(failure: TlsFailure, pem: PemMaterial) -> str:
    """Name the file to check."""
    if failure.from_peer:
        return f"the server rejected the certificate '{pem.crt.origin}': {failure.reason}"
    if failure.reason in _NO_TLS:
        return "the server does not use TLS"
    return f"the certificate of the server is not trusted, checked with '{pem.ca.origin}': {failure.reason}"
