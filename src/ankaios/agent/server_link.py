"""Connects to the server, and reconnects after a failure.

Input: messages to the server. Output: messages of the server, and the begin and end of sessions, into a channel. The
module owns the connection and the queue of outgoing messages. Workloads are not affected by a missing connection.

[impl->swdd~agent-shall-use-interfaces-to-server~1]
[impl->swdd~communication-to-from-agent-middleware~1]
[impl->swdd~agent-default-communication-grpc~1]
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from ankaios.agent.core.outgoing_queue import OutgoingMessage, OutgoingQueue
from ankaios.agent.observer import AgentObserver
from ankaios.common.channels import Channel
from ankaios.common.config import BadPemFile, PemMaterial, read_pem_again
from ankaios.common.errors import StartupFailed, Unavailable
from ankaios.common.growing_delay import growing_delay
from ankaios.common.pb.ank_base_pb2 import LogsCancelRequest, Request, Tags
from ankaios.common.pb.grpc_api_pb2 import AgentHello, FromServer, ToServer
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.common.workload import InstanceName
from ankaios.middleware.client import ServerConnection, connect
from ankaios.middleware.connecting import CannotConnect, ConnectionSettings, VersionRefused
from ankaios.middleware.methods import Method
from ankaios.middleware.server_targets import ServerTargets, server_urls

FIRST_RECONNECT_PAUSE, RECONNECT_PAUSE = 0.02, 1.0
# The keep-alive of the middleware closes a connection whose peer is silent for longer, so older messages are delivered.
DELIVERED_AFTER = 5.0
FOLLOW_TIMEOUT = 2.0
MAX_FINAL_STATES = 1024
_LOAD = "load"
MANY_FAILURES = 10  # the pause has its full length from this number on
SHORT_SESSION = 10.0  # seconds; shorter sessions that end for the same reason are logged once

log = logging.getLogger(__name__)


class OutdatedServer(Unavailable):
    """The server leads with an older term than one that was connected before."""


class Connected(Struct, frozen=True):
    """The server has accepted the hello; the states of other agents' workloads follow."""


class Disconnected(Struct, frozen=True):
    pass


LinkEvent = Connected | Disconnected | FromServer
LinkChannel = Channel[LinkEvent]
LINK_CAPACITY = 256


def agent_hello(name: str, tags: Mapping[str, str], runtimes: Iterable[str], *, devices: bool) -> ToServer:
    """[impl->swdd~agent-sends-hello~1]"""
    hello = AgentHello(
        agentName=name,
        protocolVersion=PROTOCOL_VERSION,
        tags=Tags(tags=tags),
        devices=devices,
        runtimes=sorted(runtimes),
        records=True,
        usage=True,
        keepsUnlisted=True,
        dependencyStatesOnly=True,
    )
    return ToServer(agentHello=hello)


def reconnect_pause(failures: int) -> float:
    """Return the seconds until the next attempt: short after few failures, because the server may be starting.

    >>> [reconnect_pause(failures) for failures in (1, 2, 6, 7, 1000)]
    [0.02, 0.04, 0.64, 1.0, 1.0]
    """
    return growing_delay(failures, FIRST_RECONNECT_PAUSE, RECONNECT_PAUSE)


def _present_certificates(pem: PemMaterial | None) -> PemMaterial | None:
    """Read the certificates again, which can be replaced at run time. Invalid new files are ignored."""
    try:
        return read_pem_again(pem) if pem is not None else None
    except BadPemFile as fault:
        log.warning("the certificates were not loaded again, the old ones stay in use: %s", fault.reason)
        return pem


class Outbox:
    """An `OutgoingQueue` that one sender can wait for."""

    def __init__(self, observer: AgentObserver | None = None) -> None:
        self.observer = observer or AgentObserver()
        self._queue = OutgoingQueue()
        self._filled = asyncio.Event()
        self._final_states: dict[InstanceName, tuple[float, OutgoingMessage]] = {}

    def put_state(self, name: InstanceName, message: ToServer, *, is_last: bool = False) -> None:
        """Queue a state. A final state is sent again if the connection breaks before it was certainly delivered.

        All other states are reported again after each hello.
        """
        item = OutgoingMessage(message, subject=name)
        self._put(item)
        self._final_states.pop(name, None)
        if is_last:
            now = asyncio.get_running_loop().time()
            self._drop_delivered(now)
            self._final_states[name] = (now, item)

    def _drop_delivered(self, now: float) -> None:
        """Drop the final states that are certainly delivered, and the oldest if there are too many."""
        while self._final_states:
            oldest, (when, _) = next(iter(self._final_states.items()))
            if now - when < DELIVERED_AFTER and len(self._final_states) < MAX_FINAL_STATES:
                break
            del self._final_states[oldest]

    def put_load(self, message: ToServer) -> None:
        self._put(OutgoingMessage(message, subject=_LOAD))

    def put(self, message: ToServer, left: Callable[[], None] | None = None) -> None:
        self._put(OutgoingMessage(message, left=left))

    def put_transient(self, message: ToServer, left: Callable[[], None] | None = None) -> None:
        """Queue a message that is valid only for the current connection, such as log lines."""
        self._put(OutgoingMessage(message, is_transient=True, left=left))

    def _put(self, item: OutgoingMessage) -> None:
        self.observer.sent(item.message)
        self._queue.put(item)
        self._filled.set()

    def cancel_logs(self, request_id: str) -> None:
        """Cancel a log request of a workload, because its entries are not read."""
        self.put(ToServer(request=Request(requestId=request_id, logsCancelRequest=LogsCancelRequest())))

    def go_online(self) -> None:
        self.observer.connected(True)
        self._queue.go_online()

    def go_offline(self) -> None:
        self.observer.connected(False)
        self._queue.go_offline()
        self._drop_delivered(asyncio.get_running_loop().time())
        for _, item in self._final_states.values():
            self._queue.put_back(item)

    async def take(self) -> ToServer:
        while (message := self._queue.take()) is None:
            self._filled.clear()
            await self._filled.wait()
        return message


class ServerLink:
    def __init__(self, settings: ConnectionSettings, hello: ToServer, outbox: Outbox, inbox: LinkChannel) -> None:
        self._settings = settings
        self._hello = hello
        self._outbox = outbox
        self._inbox = inbox
        self._warned = ""
        self._failures = 0
        self._targets = ServerTargets(server_urls(settings.shown_url))
        self._term = 0
        self._was_accepted = False
        self.attempted = asyncio.Event()
        """The first hello was sent, or the first attempt to connect failed."""

    async def run(self) -> None:
        """Run without end. If a server rejects the protocol version, `StartupFailed` is raised."""
        next_url = self._targets.first
        while True:
            began = asyncio.get_running_loop().time()
            try:
                settings = self._settings_for(next_url)
                async with connect(settings, Method.AGENT, self._hello, self.attempted.set) as connection:
                    self._targets.connected()
                    await self._session(connection)
            except VersionRefused as refusal:
                raise StartupFailed("Ankaios version mismatch", refusal.text) from refusal
            except Unavailable as error:
                self.attempted.set()
                self._warn(error)
                target = self._targets.after(error, 0.0)
            self._failures += 1
            # With several servers, the next one is tried immediately, unless a server ended an accepted session early.
            is_loop = self._was_accepted and asyncio.get_running_loop().time() - began < RECONNECT_PAUSE
            pause = reconnect_pause(self._failures) if target is None or is_loop else target.pause
            next_url = self._targets.first if target is None else target.url
            self._was_accepted = False
            await asyncio.sleep(pause)

    def _settings_for(self, url: str) -> ConnectionSettings:
        """With several servers, one that does not respond must not delay the connection to the others."""
        self._settings = self._settings._replace(pem=_present_certificates(self._settings.pem))
        if not self._targets.can_follow:
            return self._settings
        return self._settings._replace(url=url, connect_timeout=min(self._settings.connect_timeout, FOLLOW_TIMEOUT))

    async def _session(self, connection: ServerConnection) -> None:
        began = asyncio.get_running_loop().time()
        self._was_accepted = True
        log.log(logging.DEBUG if self._warned else logging.INFO, "connected to the server")
        await self._inbox.send(Connected())
        self._outbox.go_online()
        try:
            await self._converse(connection)
        except Exception:  # also an internal error ends the session
            lasted = asyncio.get_running_loop().time() - began
            if lasted > SHORT_SESSION:
                self._warned = ""
            # A server that accepts the agent and ends the session immediately is tried once a second.
            self._failures = 0 if lasted > RECONNECT_PAUSE else MANY_FAILURES
            self._outbox.go_offline()
            # Not when the agent ends: the channel is not read any more, and a full channel would block the end.
            await self._inbox.send(Disconnected())
            raise

    async def _converse(self, connection: ServerConnection) -> None:
        """Send and receive until one direction fails.

        Not a task group: if a task fails while the group is cancelled, the group does not raise the cancellation.
        """
        directions = (
            asyncio.create_task(self._send(connection), name="messages to the server"),
            asyncio.create_task(self._receive(connection), name="messages from the server"),
        )
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.wait(directions)
        for direction in directions:
            if not direction.cancelled():
                direction.result()

    async def _send(self, connection: ServerConnection) -> None:
        while True:
            await connection.send(await self._outbox.take())

    async def _receive(self, connection: ServerConnection) -> None:
        while True:
            message = await connection.receive()
            self._outbox.observer.received(message)
            self._check_term(message)
            await self._inbox.send(message)

    def _check_term(self, message: FromServer) -> None:
        """Reject a server with an older term: another server has become the leader since."""
        term = message.serverHello.term if message.HasField("serverHello") else 0
        if term and term < self._term:
            raise OutdatedServer(f"the server has the term {term}, but a later leader has the term {self._term}")
        self._term = max(self._term, term)

    def _warn(self, error: BaseException) -> None:
        """Log each reason once, so that a long outage of the server does not fill the log."""
        reason = f"{error} {error.reason}" if isinstance(error, CannotConnect) else str(error)
        if reason != self._warned:
            log.warning("no connection to the server, retrying: %s", reason)
            self._warned = reason
