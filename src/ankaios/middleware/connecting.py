"""What every client of a server shares: where the server is, how a call begins, and what can be wrong with it.

Comes in: a URL and settings, the status of a refused call, a failure of TLS. Goes out: an address, request headers, and
the errors whose texts people know. Owns nothing, waits for nothing: agents come here through asyncio, `ank` without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ankaios.common.errors import Fatal, Rejected, Unavailable
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.middleware.grpc_call import CallFailed, Status, request_headers

if TYPE_CHECKING:
    from ankaios.common.config import PemMaterial
    from ankaios.middleware.http2_engine.events import Headers
    from ankaios.middleware.methods import Method
    from ankaios.middleware.tls import TlsFailed

_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_PORT = 65535
_MAX_LABEL = 63  # bytes between two dots of a host name
_NO_TLS = ("wrong version number", "record layer failure", "packet length too long")


class BadUrl(Rejected):
    """The server address cannot be understood."""

    def __init__(self, url: str) -> None:
        super().__init__(f"Wrong server address format: '{url}'.")


class CannotConnect(Unavailable):
    """No connection to the server; `reason` says what failed."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"Could not connect to Ankaios server on '{url}'.")
        self.reason = reason


class VersionRefused(Rejected, Fatal):
    """The server does not speak our protocol version; `text` is what it says."""

    def __init__(self, text: str) -> None:
        super().__init__(f"Ankaios version mismatch: '{text}'.")
        self.text = text


class AccessRefused(Unavailable):
    """The server does not believe who we are: the text is its own."""


class ConnectionLost(Unavailable):
    """The stream to the server broke or ended; the text says how."""


class ConnectionSettings(Struct, frozen=True):
    """Where the server is and how to talk to it. A silent server is noticed after interval plus timeout seconds."""

    url: str
    pem: PemMaterial | None = None
    max_message_size: int = 64 * 1024 * 1024
    keepalive_interval: float = 1.1  # a little longer than the server's, so that only one side asks
    keepalive_timeout: float = 1.8
    connect_timeout: float = 5.0

    @property
    def shown_url(self) -> str:
        return effective_url(self.url, self.pem)


class Address(Struct, frozen=True):
    """`secure` means TLS, which an http URL never asks for, even if there are certificates."""

    secure: bool
    host: str
    port: int


def effective_url(url: str, pem: PemMaterial | None) -> str:
    """The URL that is used and shown: without certificates there is no https."""
    return url if pem is not None else url.replace("https:", "http:")


def address_of(url: str) -> Address:
    """Takes the URL apart without `re` and `urllib`, for which every `ank` would have to wait."""
    scheme, separator, rest = url.partition("://")
    if scheme not in _DEFAULT_PORTS or not separator or not url.isprintable():
        raise BadUrl(url)
    authority = _before_any(rest, "/?#")
    if authority.startswith("["):
        host, bracket, port = authority[1:].partition("]")
        is_sound = bool(bracket) and (not port or port.startswith(":"))
        port = port[1:]
    else:
        host, _, port = authority.partition(":")
        is_sound = True
    if not is_sound or not _is_host_name(host) or authority.endswith(":") or not _is_port(port):
        raise BadUrl(url)
    return Address(scheme == "https", host, int(port or _DEFAULT_PORTS[scheme]))


def _before_any(text: str, ends: str) -> str:
    for end in ends:
        text = text.partition(end)[0]
    return text


def _is_host_name(host: str) -> bool:
    """Whether it can be looked up at all: it has a form in ASCII, and every label of it the right length."""
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return False
    return all(0 < len(label) <= _MAX_LABEL for label in name.removesuffix(".").split("."))


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= _MAX_PORT)


def call_headers(address: Address, method: Method) -> Headers:
    host = f"[{address.host}]" if ":" in address.host else address.host
    scheme = "https" if address.secure else "http"
    return request_headers(method, scheme, f"{host}:{address.port}", f"ankaios/{PROTOCOL_VERSION}")


def refusal(failure: CallFailed, url: str) -> CannotConnect | VersionRefused | AccessRefused:
    """What it means that the server ended the call before it let us in."""
    if failure.status == Status.FAILED_PRECONDITION:
        return VersionRefused(failure.text)
    if failure.status == Status.UNAUTHENTICATED:
        return AccessRefused(failure.text)
    return CannotConnect(url, f"the server refused the call: {failure}")


def explain_break(reason: str, pem: PemMaterial | None, tls_failure: TlsFailed | None, *, peer_has_spoken: bool) -> str:
    """Why there is no connection, with what to look at. `pem` is None without TLS."""
    if tls_failure is not None and pem is not None:
        return _explain_tls_failure(tls_failure, pem)
    if pem is None and not peer_has_spoken:
        return f"{reason}; if the server uses TLS, certificate files and an https address are needed"
    return reason


def _explain_tls_failure(failure: TlsFailed, pem: PemMaterial) -> str:
    """Name the file to look at."""
    if failure.from_peer:
        return f"the server refused our certificate '{pem.crt.origin}': {failure.reason}"
    if failure.reason in _NO_TLS:
        return "the server does not speak TLS"
    return f"the certificate of the server is not trusted, checked with '{pem.ca.origin}': {failure.reason}"
