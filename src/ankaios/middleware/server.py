"""The server's end of the communication: gRPC streams on one side, channels on the other.

Input: connections of agents, CLIs and commanders; messages of the server (`dispatch`). Output: `FromAgent`,
`FromClient`, `AgentGone` and `ClientGone` in the to-server channel; messages to the connections. Owns the gRPC server
and the sender tables.

Guarantees:
- Messages of one connection arrive in the order they were sent.
- Every `FromAgent` hello is followed by exactly one `AgentGone`, whatever ended the stream. A hello with the name of a
  connected agent is rejected, unless that agent does not respond any more: then its stream ends, and its `AgentGone` is
  delivered before the newer hello.
- Every CLI or commander whose hello was accepted causes exactly one `ClientGone`.
- `dispatch` never waits. A receiver that does not read is disconnected when too much is queued for it; the others are
  not affected.

[impl->swdd~communication-to-from-server-middleware~1]
[impl->swdd~server-default-communication-grpc~1]
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from uuid import uuid4
from weakref import WeakValueDictionary

from msgspec import Struct, field

from ankaios.common.certificate_roles import AGENT_ROLE, COMMANDER_ROLE
from ankaios.common.channels import ChannelClosed, ToServerChannel
from ankaios.common.config import PemMaterial
from ankaios.common.errors import StartupFailed
from ankaios.common.listening_socket import bind_socket
from ankaios.common.log_limiter import LimitedLog
from ankaios.common.messages import AgentGone, ClientGone, FromAgent, FromServerMessage, ToServerMessage
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.served_connection import SharedBudgets
from ankaios.grpc.server import GrpcServer, own_connection_limits
from ankaios.grpc.server_call import ServerCall
from ankaios.grpc.wire_format import MIB, CallFailed, Status, length_prefixed
from ankaios.middleware.hello import (
    check_agent_certificates,
    check_agent_hello,
    check_commander_hello,
    check_role,
    client_identity,
)
from ankaios.middleware.methods import ADDITIONS_HEADER, CONNECTION_PREFIXES, Method
from ankaios.middleware.routing import (
    Deliver,
    Disconnect,
    Ignore,
    Incoming,
    RejectRequest,
    SenderTables,
    interpret_agent_message,
    interpret_client_message,
)
from ankaios.middleware.traffic import AGENT, CLIENT, ServerTraffic

log = logging.getLogger(__name__)

_MAX_HELLO_SIZE = MIB
_MAX_WARNINGS = 10  # per connection, so that no client can fill the log


class Limits(Struct, frozen=True):
    """What one connection may cost. A single message may always be queued, however large."""

    max_message_size: int = 64 * MIB
    max_queued_messages: int = 16_384
    max_queued_bytes: int = 64 * MIB
    setup_timeout: float = 5.0
    hello_timeout: float = 10.0
    keepalive: Keepalive = field(default_factory=Keepalive)


class MiddlewareServer:
    """Serves `ConnectAgent`, `ConnectCli` and `ConnectCommand`; with PEM material only over mutual TLS."""

    def __init__(
        self,
        to_server: ToServerChannel,
        pem: PemMaterial | None,
        limits: Limits | None = None,
        *,
        requires_roles: bool = False,
    ) -> None:
        """`requires_roles`: certificates without a role are rejected."""
        self._to_server = to_server
        self._requires_roles = requires_roles
        self._limits = limits or Limits()
        self._connection_limits = own_connection_limits()
        self._tables: SenderTables[ServerCall] = SenderTables()
        self._agent_calls: dict[str, ServerCall] = {}
        self._drop_log = LimitedLog(log, "messages were dropped")
        self._closed_text: str | None = None
        self._calls: set[ServerCall] = set()
        self._no_calls = asyncio.Event()
        self._no_calls.set()
        self.traffic = ServerTraffic(
            lambda peer: (self._agent_calls if peer == AGENT else self._tables.clients).values()
        )
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._grpc = GrpcServer(
            {
                Method.AGENT.value: self._serve_agent,
                Method.CLI.value: lambda call: self._serve_client(call, Method.CLI),
                Method.COMMAND.value: lambda call: self._serve_client(call, Method.COMMAND),
            },
            tls=_tls_context(pem) if pem is not None else None,
            keepalive=self._limits.keepalive,
            setup_timeout=self._limits.setup_timeout,
            limits=self._connection_limits,
            budgets=SharedBudgets(self._limits.max_message_size),
        )

    @property
    def port(self) -> int:
        return self._grpc.port

    async def start(self, host: str, port: int) -> None:
        try:
            self.listen_on(bind_socket(host, port))
        except OSError as error:
            raise cannot_listen(f"{host}:{port}", error) from error

    def listen_on(self, sock: socket.socket) -> None:
        """Serve the connections of a listening socket."""
        self._grpc.listen_on(sock)

    def replace_certificates(self, pem: PemMaterial, *, ends_connections: bool) -> None:
        """Use these certificates for new connections; peers of ended ones have to show theirs again."""
        self._grpc.replace_tls(_tls_context(pem))
        if ends_connections:
            self._grpc.end_connections("the server has new certificates or a new revocation list")

    async def close(self) -> None:
        """Stop listening and close all connections; nothing is delivered after this returns."""
        await self._grpc.close()

    def refuse_calls(self, text: str | None) -> None:
        """Reject calls with this text and end the accepted ones; None: accept calls."""
        self._closed_text = text
        if text is not None:
            for call in list(self._calls):
                if call.broken is None:
                    _end_now(call, Status.UNAVAILABLE, text)

    async def calls_ended(self) -> None:
        """Wait until all accepted calls have delivered their end."""
        await self._no_calls.wait()

    def _add_call(self, call: ServerCall) -> None:
        self._calls.add(call)
        self._no_calls.clear()

    def _discard_call(self, call: ServerCall) -> None:
        self._calls.discard(call)
        if not self._calls:
            self._no_calls.set()

    def _check_open(self) -> None:
        if self._closed_text is not None:
            raise CallFailed(Status.UNAVAILABLE, self._closed_text)

    # Messages of the server

    def dispatch(self, message: FromServerMessage) -> None:
        deliveries, undelivered = self._tables.deliveries(message)
        if undelivered:
            self._drop_log.warning("Dropped a message: %s.", undelivered)
        encoded, data = None, b""
        for call, payload in deliveries:
            if payload is not encoded:  # receivers of a broadcast share it
                encoded, data = payload, length_prefixed(payload)
            self._send(call, data)

    def drop_agent(self, agent: str, reason: str) -> None:
        """End the connection of an agent; it connects again, with a hello."""
        call = self._agent_calls.get(agent)
        if call is not None and call.broken is None:
            log.warning("The connection of agent '%s' from %s is ended: %s.", agent, call.peer_address, reason)
            _end_now(call, Status.INTERNAL, reason)

    def _send(self, call: ServerCall, data: bytes) -> None:
        if call.broken is not None:
            return  # its handler is about to report the end
        if call.queued_count and self._is_overloaded(call, len(data)):
            log.warning(
                "Disconnected %s: it does not read, %d messages (%d bytes) are queued for it.",
                call.peer_address,
                call.queued_count,
                call.queued_bytes,
            )
            call.connection.abort("too many messages are queued for the peer")
        else:
            call.write(data)
            self.traffic.sent(AGENT if call.metadata[":path"] == Method.AGENT.value else CLIENT, len(data))

    def _is_overloaded(self, call: ServerCall, size: int) -> bool:
        limits = self._limits
        return call.queued_count >= limits.max_queued_messages or call.queued_bytes + size > limits.max_queued_bytes

    # Calls

    async def _serve_agent(self, call: ServerCall) -> None:
        peer = call.peer_certificates
        check_agent_certificates(peer)
        check_role(AGENT_ROLE, peer, is_required=self._requires_roles)
        hello = await self._receive_hello(call)
        agent = check_agent_hello(hello, peer)
        assert hello is not None
        self._check_open()
        await self._take_name(agent, call)
        self._check_open()
        call.accept([ADDITIONS_HEADER])
        turn = self._turns.setdefault(agent, asyncio.Lock())
        try:
            async with turn:  # the older stream of this name ends first, with its AgentGone
                if call.broken is None:  # this one may have been replaced, too
                    self._check_open()
                    await self._serve_accepted_agent(call, agent, hello)
        finally:
            if self._agent_calls.get(agent) is call:
                del self._agent_calls[agent]

    async def _serve_accepted_agent(self, call: ServerCall, agent: str, hello: ToServer) -> None:
        log.info("Agent '%s' has connected from %s.", agent, call.peer_address)
        self._grpc.remember_agent(call)
        self._add_call(call)
        self._tables.add_agent(agent, call, all_states=not hello.agentHello.dependencyStatesOnly)
        try:
            await self._deliver(FromAgent(agent, hello))
            await self._read(call, AGENT, agent, lambda message: interpret_agent_message(agent, message))
        finally:
            reason = call.connection.reason or call.broken or "it ended its stream"
            log.info("Agent '%s' has disconnected: %s.", agent, reason)
            self._tables.remove_agent(agent)
            await self._deliver_end(AgentGone(agent))
            self._discard_call(call)

    async def _take_name(self, agent: str, call: ServerCall) -> None:
        """Reject a second agent of the same name. One that was cut off may still seem to be connected, so it is asked.

        The calls are compared again after the answer, because several new ones may wait for it.
        """
        while (older := self._agent_calls.get(agent)) is not None and older.broken is None:
            if await older.connection.responds(self._limits.keepalive.timeout):
                raise self._name_in_use(agent, older, call)
            if self._agent_calls.get(agent) is older:
                text = f"replaced by a newer connection of agent '{agent}'"
                log.warning("The connection of agent '%s' from %s is %s.", agent, older.peer_address, text)
                _end_now(older, Status.ABORTED, text)
        self._agent_calls[agent] = call

    def _name_in_use(self, agent: str, older: ServerCall, newer: ServerCall) -> CallFailed:
        """Without ports, because an agent logs a reason again only if it is another one."""
        hosts = (
            f"the one at {older.connection.peer_host} is connected, the one at {newer.connection.peer_host} is rejected"
        )
        return CallFailed(Status.ALREADY_EXISTS, f"Two agents have the name '{agent}': {hosts}")

    async def _serve_client(self, call: ServerCall, method: Method) -> None:
        check_role(COMMANDER_ROLE, call.peer_certificates, is_required=self._requires_roles)
        user = check_commander_hello(await self._receive_hello(call))
        self._check_open()
        if (count := len(self._tables.clients)) >= self._connection_limits.clients:
            text = f"too many command connections: {count} are open, the rest is kept for agents"
            raise CallFailed(Status.RESOURCE_EXHAUSTED, text)
        call.accept([ADDITIONS_HEADER])
        connection = f"{CONNECTION_PREFIXES[method]}{uuid4()}"
        sender = client_identity(user, call.peer_certificates)
        self._add_call(call)
        self._tables.add_client(connection, method, call)
        try:
            interpret = partial(interpret_client_message, connection, sender=sender)
            await self._read(call, CLIENT, connection, interpret)
        finally:
            self._tables.remove_client(connection)
            await self._deliver_end(ClientGone(connection))
            self._discard_call(call)

    async def _receive_hello(self, call: ServerCall) -> ToServer | None:
        try:
            async with asyncio.timeout(self._limits.hello_timeout):
                return await call.receive(ToServer, min(_MAX_HELLO_SIZE, self._limits.max_message_size))
        except TimeoutError:
            raise CallFailed(Status.DEADLINE_EXCEEDED, "No hello in time.") from None

    async def _read(self, call: ServerCall, peer: str, sender: str, interpret: Callable[[ToServer], Incoming]) -> None:
        """Process messages until the sender sends a goodbye or ends its side of the stream."""
        warnings, counted_bytes = 0, 0
        while (message := await call.receive(ToServer, self._limits.max_message_size)) is not None:
            self.traffic.received(peer, call.received_bytes - counted_bytes)
            counted_bytes = call.received_bytes
            match interpret(message):
                case Deliver(delivered):
                    await self._deliver(delivered)
                case RejectRequest(response):
                    self._send(call, length_prefixed(FromServer(response=response).SerializeToString()))
                case Ignore(reason):
                    warnings += 1
                    if warnings <= _MAX_WARNINGS:
                        log.warning("Ignored from '%s': %s.", sender, reason)
                case Disconnect():
                    return

    async def _deliver(self, message: ToServerMessage) -> None:
        try:
            await self._to_server.send(message)
        except ChannelClosed:
            raise CallFailed(Status.UNAVAILABLE, "the server is stopping") from None

    async def _deliver_end(self, message: ToServerMessage) -> None:
        """An end must not be lost, but while everything is closed it must not wait either."""
        with suppress(ChannelClosed):
            if self._grpc.is_closing:
                self._to_server.try_send(message)
            else:
                await self._to_server.send(message)


def _tls_context(pem: PemMaterial) -> ssl.SSLContext:
    from ankaios.grpc.tls import server_context  # not needed without TLS

    return server_context(pem)


def cannot_listen(address: str, error: OSError) -> StartupFailed:
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    return StartupFailed("server error", f"cannot listen on '{address}': {reason}")


def _end_now(call: ServerCall, status: Status, text: str) -> None:
    """End the call with a status, or without one if queued data is before it."""
    call.finish_with(status, text)
    call.connection.flush()
    call.reset(text)
