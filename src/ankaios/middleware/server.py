"""The server's end of the communication middleware: gRPC streams on one side, channels on the other.

Comes in: connections of agents, CLIs and commanders; messages of the server (`dispatch`). Goes out: `FromAgent`,
`FromClient`, `AgentGone` and `ClientGone` into the to-server channel; frames to the connections. Owns the listening
socket, all connections and their tasks.

What the server may rely on:
- Messages of one connection arrive in the order they were sent.
- Every `FromAgent` hello is followed by exactly one `AgentGone`, whatever ended the stream (goodbye, half-close, reset,
  silence, cut). A newer hello of the same name ends the older stream, and the `AgentGone` of the older stream is
  delivered before the newer hello: no news of an old stream can be taken for one of the new.
- Every CLI or commander that was let in leaves exactly one `ClientGone`.
- `dispatch` never waits. A receiver that does not read is cut when too much waits for it; the others do not notice.

[impl->swdd~communication-to-from-server-middleware~1]
[impl->swdd~server-default-communication-grpc~1]
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4
from weakref import WeakValueDictionary

from msgspec import Struct, field

from ankaios.common.channels import ChannelClosed, ToServerChannel
from ankaios.common.config import PemMaterial
from ankaios.common.errors import StartupFailed
from ankaios.common.messages import AgentGone, ClientGone, FromAgent, FromServerMessage, ToServerMessage
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer
from ankaios.middleware.additions import ADDITIONS_HEADER
from ankaios.middleware.grpc_call import (
    RESPONSE_HEADERS,
    CallFailed,
    Status,
    final_headers,
    frame,
    method_of,
    read_message,
)
from ankaios.middleware.hello import check_agent_hello, check_commander_hello, check_peer
from ankaios.middleware.http2 import Link
from ankaios.middleware.keepalive import Keepalive
from ankaios.middleware.methods import CONNECTION_PREFIXES, Method
from ankaios.middleware.routing import (
    Answer,
    Deliver,
    Goodbye,
    Ignore,
    Incoming,
    SenderTables,
    interpret_agent_message,
    interpret_client_message,
)
from ankaios.middleware.security import PeerCertificates, server_context
from ankaios.middleware.stream import Broken, Stream
from ankaios.middleware.tls import TlsLayer

log = logging.getLogger(__name__)

_MIB = 1024 * 1024
_MAX_HELLO_SIZE = _MIB
_ADMISSION_HEADERS = [*RESPONSE_HEADERS, ADDITIONS_HEADER]
_MAX_COMPLAINTS = 10  # per connection: nobody may fill the log


class Limits(Struct, frozen=True):
    """What one connection may cost. A single message may always be queued, however large."""

    max_message_size: int = 64 * _MIB
    max_queued_messages: int = 16_384
    max_queued_bytes: int = 64 * _MIB
    setup_timeout: float = 5.0
    hello_timeout: float = 10.0
    keepalive: Keepalive = field(default_factory=Keepalive)


class MiddlewareServer:
    """Serves `ConnectAgent`, `ConnectCli` and `ConnectCommand`; with PEM material only over mutual TLS."""

    def __init__(self, to_server: ToServerChannel, pem: PemMaterial | None, limits: Limits | None = None) -> None:
        self._to_server = to_server
        self._limits = limits or Limits()
        self._tls_context = server_context(pem) if pem is not None else None
        self._tables: SenderTables[Stream] = SenderTables()
        self._agent_streams: dict[str, Stream] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._links: set[Link] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._closing = False

    @property
    def port(self) -> int:
        """The port listened on, also if any free one was asked for."""
        assert self._listener is not None, "not started"
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def start(self, host: str, port: int) -> None:
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                self._new_link, host, port, backlog=socket.SOMAXCONN
            )
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise StartupFailed("server error", f"cannot listen on '{host}:{port}': {why}") from error

    async def close(self) -> None:
        """Stop listening and cut everybody off; nothing is delivered any more once this returns."""
        self._closing = True
        if self._listener is not None:
            self._listener.close()
        for link in tuple(self._links):
            link.close()
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls)

    # Messages of the server

    def dispatch(self, message: FromServerMessage) -> None:
        deliveries, undelivered = self._tables.deliveries(message)
        if undelivered:
            log.warning("Dropped a message: %s.", undelivered)
        for stream, payload in deliveries:
            self._send(stream, payload)

    def drop_agent(self, agent: str, why: str) -> None:
        """It connects again, with a hello."""
        stream = self._agent_streams.get(agent)
        if stream is not None and stream.broken is None:
            log.warning("The connection of agent '%s' from %s is ended: %s.", agent, stream.link.peer_address, why)
            stream.cut(final_headers(Status.INTERNAL, why, headers_sent=True), why)

    def _send(self, stream: Stream, payload: bytes) -> None:
        limits = self._limits
        if stream.queued_count >= limits.max_queued_messages or (
            stream.queued_count and stream.queued_bytes + len(payload) > limits.max_queued_bytes
        ):
            log.warning(
                "Cut the connection of %s: it does not read, %d messages (%d bytes) wait for it.",
                stream.link.peer_address,
                stream.queued_count,
                stream.queued_bytes,
            )
            stream.link.abort("too many messages wait for the peer")
            return
        with suppress(Broken):  # its task is about to tell that it is gone
            stream.write(frame(payload))

    # Connections

    def _new_link(self) -> Link:
        tls = TlsLayer(self._tls_context) if self._tls_context is not None else None
        return Link(
            self._limits.keepalive,
            self._limits.setup_timeout,
            tls=tls,
            accept=self._accept,
            on_made=self._link_made,
            on_end=self._link_ended,
        )

    def _link_made(self, link: Link) -> None:
        if self._closing:
            link.abort("the server is stopping")
        elif link.reason is None:
            self._links.add(link)

    def _link_ended(self, link: Link) -> None:
        self._links.discard(link)
        refused = link.tls is not None and not link.tls.established
        level = logging.WARNING if refused else logging.DEBUG
        log.log(level, "Connection of %s ended: %s.", link.peer_address, link.reason)

    def _accept(self, stream: Stream) -> None:
        call = asyncio.create_task(self._serve(stream), name=f"call {stream.id} of {stream.link.peer_address}")
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _serve(self, stream: Stream) -> None:
        """One call from its headers to its status."""
        status, text = Status.OK, ""
        try:
            method = method_of(stream.headers or {})
            if isinstance(method, Method):
                await self._converse(stream, method)
            else:
                stream.finish(method)
        except CallFailed as failure:
            status, text = failure.status, failure.text
            log.warning("Refused a call of %s: %.1000s", stream.link.peer_address, failure)
        except Broken as broken:
            log.debug("A call of %s broke: %s.", stream.link.peer_address, broken)
        except ChannelClosed:
            status, text = Status.UNAVAILABLE, "the server is stopping"
        except Exception:
            status, text = Status.INTERNAL, "internal error of the server"
            log.exception("A call of %s failed.", stream.link.peer_address)
        stream.finish(final_headers(status, text, headers_sent=stream.headers_sent))
        if stream.broken is not None:
            stream.link.forget(stream)

    async def _converse(self, stream: Stream, method: Method) -> None:
        tls = stream.link.tls
        peer = tls.peer_certificates() if tls is not None else None
        check_peer(method, peer)
        try:
            async with asyncio.timeout(self._limits.hello_timeout):
                hello = await read_message(stream, ToServer, min(_MAX_HELLO_SIZE, self._limits.max_message_size))
        except TimeoutError:
            raise CallFailed(Status.DEADLINE_EXCEEDED, "No hello in time.") from None
        if method is Method.AGENT:
            await self._serve_agent(stream, hello, peer)
        else:
            await self._serve_client(stream, method, hello)

    async def _serve_agent(self, stream: Stream, hello: ToServer | None, peer: PeerCertificates | None) -> None:
        agent = check_agent_hello(hello, peer)
        assert hello is not None
        stream.send_headers(_ADMISSION_HEADERS)
        self._replace_older(agent, stream)
        turn = self._turns.setdefault(agent, asyncio.Lock())
        try:
            async with turn:  # the older stream of this name ends first, with its AgentGone
                if stream.broken is None:  # it may have been replaced, too
                    await self._serve_greeted_agent(stream, agent, hello)
        finally:
            if self._agent_streams.get(agent) is stream:
                del self._agent_streams[agent]

    async def _serve_greeted_agent(self, stream: Stream, agent: str, hello: ToServer) -> None:
        log.info("Agent '%s' has connected from %s.", agent, stream.link.peer_address)
        self._tables.add_agent(agent, stream)
        try:
            await self._to_server.send(FromAgent(agent, hello))
            await self._read(stream, agent, lambda message: interpret_agent_message(agent, message))
        finally:
            why = stream.link.reason or stream.broken or "it ended its stream"
            log.info("Agent '%s' has disconnected: %s.", agent, why)
            self._tables.remove_agent(agent)
            await self._tell(AgentGone(agent))

    def _replace_older(self, agent: str, stream: Stream) -> None:
        older = self._agent_streams.get(agent)
        self._agent_streams[agent] = stream
        if older is not None and older.broken is None:
            text = f"replaced by a newer connection of agent '{agent}'"
            log.warning("The connection of agent '%s' from %s is %s.", agent, older.link.peer_address, text)
            older.cut(final_headers(Status.ABORTED, text, headers_sent=True), text)

    async def _serve_client(self, stream: Stream, method: Method, hello: ToServer | None) -> None:
        check_commander_hello(hello)
        stream.send_headers(_ADMISSION_HEADERS)
        connection = f"{CONNECTION_PREFIXES[method]}{uuid4()}"
        self._tables.add_client(connection, method, stream)
        try:
            await self._read(stream, connection, lambda message: interpret_client_message(connection, message))
        finally:
            self._tables.remove_client(connection)
            await self._tell(ClientGone(connection))

    async def _read(self, stream: Stream, sender: str, interpret: Callable[[ToServer], Incoming]) -> None:
        """Until the sender says goodbye or ends its side of the stream."""
        complaints = 0
        while (message := await read_message(stream, ToServer, self._limits.max_message_size)) is not None:
            match interpret(message):
                case Deliver(delivered):
                    await self._to_server.send(delivered)
                case Answer(response):
                    self._send(stream, FromServer(response=response).SerializeToString())
                case Ignore(reason):
                    complaints += 1
                    if complaints <= _MAX_COMPLAINTS:
                        log.warning("Ignored from '%s': %s.", sender, reason)
                case Goodbye():
                    return

    async def _tell(self, message: ToServerMessage) -> None:
        """An ending must not be lost, except that nobody waits for it while everything is closed."""
        with suppress(ChannelClosed):
            if self._closing:
                self._to_server.try_send(message)
            else:
                await self._to_server.send(message)
