"""The client's end of the communication middleware: one stream of an agent, a CLI or a commander to the server.

Comes in: settings, hello, messages to send. Goes out: messages of the server, or an error that says why there is no
connection. Owns one connection.

    async with connect(ConnectionSettings(url, pem), Method.CLI, hello) as server:
        await server.send(ToServer(request=...))
        answer = await server.receive()

[impl->swdd~communication-to-from-agent-middleware~1]
[impl->swdd~agent-default-communication-grpc~1]
"""

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from ankaios.common.config import PemMaterial
from ankaios.common.dataclass import dataclass
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.pb.grpc_api_pb2 import FromServer, Goodbye, ToServer
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.middleware.additions import is_addition, knows_additions
from ankaios.middleware.grpc_call import CallFailed, Status, frame, read_message, request_headers, status_of
from ankaios.middleware.http2 import Link
from ankaios.middleware.keepalive import Keepalive
from ankaios.middleware.methods import Method
from ankaios.middleware.security import SERVER_NAME, client_context
from ankaios.middleware.stream import Broken, Stream
from ankaios.middleware.tls import TlsFailed, TlsLayer

__all__ = [
    "AccessRefused",
    "BadUrl",
    "CannotConnect",
    "ConnectionLost",
    "ConnectionSettings",
    "Method",
    "ServerConnection",
    "VersionRefused",
    "connect",
    "effective_url",
]

_URL = re.compile(r"(https?)://(?:\[([^\]/]+)\]|([^:/?#]+))(?::([0-9]{1,5}))?(?:[/?#].*)?")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_QUEUED_BYTES = 1024 * 1024
_GOODBYE_TIMEOUT = 1.0
_CLOSE_TIMEOUT = 1.0


class BadUrl(Rejected):
    """The server address cannot be understood."""

    def __init__(self, url: str) -> None:
        super().__init__(f"Wrong server address format: '{url}'.")


class CannotConnect(Unavailable):
    """No connection to the server; `reason` says what failed."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"Could not connect to Ankaios server on '{url}'.")
        self.reason = reason


class VersionRefused(Rejected):
    """The server does not speak our protocol version; `text` is what it says."""

    def __init__(self, text: str) -> None:
        super().__init__(f"Ankaios version mismatch: '{text}'.")
        self.text = text


class AccessRefused(Unavailable):
    """The server does not believe who we are: the text is its own."""


class ConnectionLost(Unavailable):
    """The stream to the server broke or ended; the text says how."""


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Where the server is and how to talk to it. A silent server is noticed after interval plus timeout seconds."""

    url: str
    pem: PemMaterial | None = None
    max_message_size: int = 64 * 1024 * 1024
    keepalive_interval: float = 1.1  # a little longer than the server's, so that only one side asks
    keepalive_timeout: float = 1.8
    connect_timeout: float = 5.0


@dataclass(frozen=True, slots=True)
class _Address:
    secure: bool
    host: str
    port: int


def effective_url(url: str, pem: PemMaterial | None) -> str:
    """The URL that is used and shown: without certificates there is no https."""
    return url if pem is not None else url.replace("https:", "http:")


def _parse_url(url: str) -> _Address:
    match = _URL.fullmatch(url)
    if match is None or not 0 <= int(match[4] or 0) <= 65535:
        raise BadUrl(url)
    return _Address(match[1] == "https", match[2] or match[3], int(match[4] or _DEFAULT_PORTS[match[1]]))


class ServerConnection:
    """An open stream. One task may receive while others send."""

    def __init__(self, stream: Stream, method: Method, max_message_size: int) -> None:
        self._stream = stream
        self._knows_additions = knows_additions(stream.headers or {})
        self._method = method
        self._max_message_size = max_message_size

    async def send(self, message: ToServer) -> None:
        """Waits only while more than a megabyte is still on its way. What the server does not know is left out."""
        if not self._knows_additions and is_addition(message):
            return
        try:
            self._stream.write(frame(message.SerializeToString()))
            await self._stream.drain(_MAX_QUEUED_BYTES)
        except Broken as broken:
            raise ConnectionLost(str(broken)) from broken

    async def receive(self) -> FromServer:
        try:
            message = await read_message(self._stream, FromServer, self._max_message_size)
        except (Broken, CallFailed) as failure:
            raise ConnectionLost(str(self._status() or failure)) from failure
        if message is None:
            raise ConnectionLost(str(self._status() or "the server ended the connection"))
        return message

    async def end(self) -> None:
        """Say goodbye and wait a moment for the server to end the stream; an agent just leaves."""
        if self._method is Method.AGENT:
            return
        with suppress(ConnectionLost, TimeoutError):
            async with asyncio.timeout(_GOODBYE_TIMEOUT):
                await self.send(ToServer(goodbye=Goodbye()))
                self._stream.half_close()
                while True:
                    await self.receive()

    def _status(self) -> CallFailed | None:
        return status_of(self._stream.trailers) if self._stream.trailers else None


@asynccontextmanager
async def connect(settings: ConnectionSettings, method: Method, hello: ToServer) -> AsyncIterator[ServerConnection]:
    """Connect and say hello; the body runs once the server has let us in, and its end closes the connection."""
    address = _parse_url(effective_url(settings.url, settings.pem))
    attempt = _Attempt(settings, address)
    try:
        async with asyncio.timeout(settings.connect_timeout):
            stream = await attempt.open(method, hello)
    except TimeoutError as error:
        attempt.drop()
        raise attempt.failed(f"no answer within {settings.connect_timeout:g} s") from error
    except BaseException:
        attempt.drop()
        raise
    try:
        yield ServerConnection(stream, method, settings.max_message_size)
    finally:
        await attempt.close(stream)


class _Attempt:
    """One try to reach the server; afterwards the holder of the connection."""

    def __init__(self, settings: ConnectionSettings, address: _Address) -> None:
        self._settings = settings
        self._address = address
        self._pem = settings.pem if address.secure else None
        self._link: Link | None = None

    async def open(self, method: Method, hello: ToServer) -> Stream:
        link = self._link = await self._connect()
        await link.ready.wait()
        try:
            if link.reason is not None:
                raise Broken(link.reason)
            stream = self._call(link, method, hello)
            headers = await stream.response_headers()
        except Broken as broken:
            raise self.failed(self._explain(link, str(broken))) from broken
        if failure := status_of(headers):
            raise self._refused(failure)
        return stream

    async def _connect(self) -> Link:
        link = self._new_link()
        try:
            await asyncio.get_running_loop().create_connection(lambda: link, self._address.host, self._address.port)
        except socket.gaierror as error:
            raise self.failed(f"cannot find host '{self._address.host}': {error.strerror}") from error
        except OSError as error:
            raise self.failed(os.strerror(error.errno) if error.errno else str(error)) from error
        return link

    def _new_link(self) -> Link:
        settings = self._settings
        tls = TlsLayer(client_context(self._pem), server_name=SERVER_NAME) if self._pem is not None else None
        keepalive = Keepalive(settings.keepalive_interval, settings.keepalive_timeout)
        return Link(keepalive, settings.connect_timeout, tls=tls)

    def _call(self, link: Link, method: Method, hello: ToServer) -> Stream:
        host = f"[{self._address.host}]" if ":" in self._address.host else self._address.host
        scheme = "https" if self._address.secure else "http"
        authority = f"{host}:{self._address.port}"
        stream = link.open(request_headers(method, scheme, authority, f"ankaios/{PROTOCOL_VERSION}"))
        stream.write(frame(hello.SerializeToString()))
        return stream

    def failed(self, reason: str) -> CannotConnect:
        return CannotConnect(effective_url(self._settings.url, self._settings.pem), reason)

    def _refused(self, failure: CallFailed) -> Exception:
        match failure.status:
            case Status.FAILED_PRECONDITION:
                return VersionRefused(failure.text)
            case Status.UNAUTHENTICATED:
                return AccessRefused(failure.text)
            case _:
                return self.failed(f"the server refused the call: {failure}")

    def _explain(self, link: Link, reason: str) -> str:
        if link.tls_failure is not None and self._pem is not None:
            return explain_tls_failure(link.tls_failure, self._pem)
        if self._pem is None and not link.peer_has_spoken:
            return f"{reason}; if the server uses TLS, certificate files and an https address are needed"
        return reason

    def drop(self) -> None:
        if self._link is not None:
            self._link.abort("the connection was given up")

    async def close(self, stream: Stream) -> None:
        """Send what waits, then leave without ceremony: only a broken stream tells every server of an agent's end."""
        with suppress(TimeoutError, Broken):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await stream.drain(0)
        stream.link.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await stream.link.closed.wait()


def explain_tls_failure(failure: TlsFailed, pem: PemMaterial) -> str:
    """Name the file to look at."""
    if failure.from_peer:
        return f"the server refused our certificate '{pem.crt.origin}': {failure.reason}"
    if failure.reason in ("wrong version number", "record layer failure", "packet length too long"):
        return "the server does not speak TLS"
    return f"the certificate of the server is not trusted, checked with '{pem.ca.origin}': {failure.reason}"
