"""The running server: receives messages through a channel, lets `AnkaiosServer` decide, and performs the effects.

Owns the channel, the middleware, the server and the tasks of mutating hooks. Messages are handled one at a time. A
message that takes long is handled in a worker thread; meanwhile requests that only read the state are answered from a
snapshot, and all other messages wait. Hooks are other processes, and while they run other messages are served.
"""

import asyncio
import gc
import logging
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from ankaios import __version__
from ankaios.common.config import INSECURE_WARNING, PEM_WINS_WARNING, PemMaterial, require_security
from ankaios.common.errors import StartupFailed
from ankaios.common.listening_socket import bind_socket
from ankaios.common.messages import FromAgent, FromClient, Respond, ToServerMessage
from ankaios.common.metrics import metrics_of
from ankaios.common.pb.ank_base_pb2 import Response, ServerInfo, ServersResponse
from ankaios.common.pb.grpc_api_pb2 import UpdateWorkload
from ankaios.common.service_manager import READY, STOPPING, dump_traceback_on_abort, notify, send_watchdog_pings
from ankaios.common.state_manipulation import Form
from ankaios.common.supervision import Supervisor, Work, internal_error
from ankaios.middleware.server import Limits, MiddlewareServer, cannot_listen
from ankaios.server.certificate_reloader import CertificateReloader
from ankaios.server.commit_queue import CommitQueue, UnfinishedDecisions
from ankaios.server.core.ankaios_server import AnkaiosServer
from ankaios.server.core.long_messages import only_reads, request_in
from ankaios.server.core.replies import (
    Decision,
    DropAgent,
    Effect,
    HooksFinished,
    NextChange,
    RunHooks,
    SecondPassed,
    ServerMessage,
    refuse,
)
from ankaios.server.core.sender_queues import Sender
from ankaios.server.core.state_update import update_message
from ankaios.server.core.state_view import StateSnapshot
from ankaios.server.core.update_rejected import UpdateRejected
from ankaios.server.fair_channel import FairChannel, sender_of
from ankaios.server.metrics import ServerMetrics, StorageFacts
from ankaios.server.mutating_hooks import MutatingHook, run_hooks
from ankaios.server.settings import Address, ServerSettings
from ankaios.server.startup_state_loader import load_startup_state
from ankaios.storage.record_writer import RecordWriter
from ankaios.storage.state_store import StateChange, StateStore

_log = logging.getLogger(__name__)

# Seconds for which messages are handled before connections are served again.
_TURN_SECONDS = 0.005
# Seconds after which a worker thread interrupts its work if the event loop has something to do.
_SWITCH_SECONDS = 0.001


async def serve(settings: ServerSettings, listener: socket.socket | None = None) -> None:
    """Run until a signal ends it. Raises `StartupFailed` if it cannot begin.

    Connections of a listener wait until the server is ready.
    """
    stopped = _stop_event()
    sys.setswitchinterval(_SWITCH_SECONDS)
    if settings.storage.location is not None:
        from ankaios.server.durable_serving import serve_durably  # not needed by a server without a store

        await serve_durably(settings, stopped, listener)
        return
    startup = load_startup_state(settings.startup_manifest) if settings.startup_manifest else None
    shell = new_shell(settings, security(settings))
    # [impl->swdd~server-starts-without-startup-config~1]
    if startup is not None and not await finished_before(stopped, shell.load(startup)):
        return
    await shell.listen(settings, listener)
    await shell.run_until(stopped)


def new_shell(settings: ServerSettings, pem: PemMaterial | None) -> "ServerShell":
    limits = Limits(max_message_size=settings.max_message_size)
    return ServerShell(pem, settings.hooks, limits, requires_roles=settings.requires_roles)


def _stop_event() -> asyncio.Event:
    """Set by a signal. The handlers are installed first, so that a signal during the start ends it in order."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped


async def finished_before(stopped: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work, or cancel it when the server has to stop. Returns whether the work was finished."""
    doing = asyncio.create_task(work, name="startup state")
    asked = asyncio.create_task(stopped.wait(), name="signals during the start")
    try:
        await asyncio.wait((doing, asked), return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
        doing.cancel()
        await asyncio.wait((doing, asked))
    if doing.cancelled():
        _log.info("Ankaios server ends before it was ready.")
        return False
    doing.result()
    return True


def security(settings: ServerSettings) -> PemMaterial | None:
    """[impl->swdd~server-establishes-insecure-communication-based-on-provided-insecure-cli-argument~1]
    [impl->swdd~server-provides-file-paths-to-communication-middleware~1]
    """
    pem = require_security(settings.pem, settings.insecure)
    if settings.insecure:
        _log.warning(INSECURE_WARNING if pem is None else PEM_WINS_WARNING)
    return pem


async def take_startup_state(
    server: AnkaiosServer, startup: Form, hooks: Sequence[MutatingHook], now: float, *, as_update: bool = False
) -> StateChange | None:
    """Begin with this state, or add it to the state; raises `StartupFailed`. Returns the change to store."""
    try:
        prepared = server.prepare_start(startup, as_update=as_update)
        shown = hooks and prepared.changes
        hooked = await run_hooks(hooks, update_message(prepared.changes)) if shown else None
        return server.finish_start(prepared, hooked, now)
    except UpdateRejected as fault:
        raise StartupFailed("server error", fault.reason) from fault


class ServerShell:
    """A shell is open while it has a server; before and after, requests are rejected.

    [impl->swdd~server-uses-async-channels~1]
    """

    def __init__(
        self,
        pem: PemMaterial | None,
        hooks: Sequence[MutatingHook],
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
        *,
        requires_roles: bool = False,
    ) -> None:
        self.to_server = FairChannel()
        self.middleware = MiddlewareServer(self.to_server, pem, limits, requires_roles=requires_roles)
        self._certificates = CertificateReloader(pem, self.middleware)
        self.metrics = ServerMetrics()
        self.commits = CommitQueue(self._perform, self.metrics)
        # The state in memory differs from the stored one, because of an internal error.
        self.diverged = asyncio.Event()
        self._hooks = hooks
        self._clock = clock
        self._tasks: Supervisor | None = None
        self._closed_text = ""
        self.records: RecordWriter | None = None
        self._may_command: Callable[[], bool] = lambda: True
        self._deciding = asyncio.Lock()  # one decision at a time
        self._reading = asyncio.Lock()  # one long response at a time
        self._snapshot: StateSnapshot | None = None  # the state before a decision that is being made in a thread
        self.servers: Callable[[], list[ServerInfo]] = self._only_server
        server = AnkaiosServer(has_hooks=bool(hooks))
        self._server: AnkaiosServer | None = server
        self.metrics.observe(server)
        self.metrics.observe_storage(self._memory_facts)
        self.metrics.inbox.read = lambda: {(): len(self.to_server)}
        self.metrics.waiting_decisions.read = lambda: {(): self.commits.waiting_count}

    # --- without a store ---

    def _only_server(self) -> list[ServerInfo]:
        revision = self._server.revision if self._server is not None else 0
        name = f"{socket.gethostname()}:{self.middleware.port}"
        return [ServerInfo(name=name, leader=True, version=__version__, storage="memory:", revision=revision)]

    def _memory_facts(self) -> StorageFacts:
        return StorageFacts("memory", self._server.revision if self._server is not None else 0)

    async def load(self, startup: Form) -> None:
        """Begin with this state; raises `StartupFailed` if it is invalid."""
        assert self._server is not None
        await take_startup_state(self._server, startup, self._hooks, self._clock())

    # --- with a store ---

    @property
    def is_open(self) -> bool:
        return self._server is not None

    def open(self, server: AnkaiosServer, store: StateStore, may_command: Callable[[], bool]) -> None:
        """Serve with this state; `commits.run` has to run. Nothing leaves while `may_command` returns False."""
        self._server, self._may_command = server, may_command
        self.metrics.observe(server)
        self.diverged.clear()
        self.commits.open(store)
        self.records = RecordWriter(store)
        self.middleware.refuse_calls(None)

    def close(self, text: str) -> UnfinishedDecisions:
        """Reject requests with this text from now on."""
        self._server, self._closed_text = None, text
        self.metrics.observe(None)
        self.records = None
        self._may_command = lambda: True
        return self.commits.close()

    def stop_storing(self) -> None:
        """Serve with the same state, but store no more changes: the storage need not be led any more."""
        self._may_command = lambda: True
        self.commits.close()

    # --- running ---

    async def listen(self, settings: ServerSettings, listener: socket.socket | None = None) -> None:
        self.middleware.listen_on(listener or _bound(settings.address))
        if settings.metrics is not None:
            await self._serve_metrics(settings.metrics)
        # These objects stay until the end, so the garbage collector does not have to examine them again.
        gc.collect()
        gc.freeze()
        _log.info("Ankaios server %s is ready on port %d.", __version__, self.middleware.port)
        dump_traceback_on_abort()
        notify(READY)

    async def _serve_metrics(self, address: str) -> None:
        from ankaios.common.metrics_endpoint import start_metrics  # loads prometheus_client

        self.metrics.tasks.read = lambda: {(): len(asyncio.all_tasks())}
        await start_metrics(address, [*metrics_of(self.metrics), *metrics_of(self.middleware.traffic)])

    async def run_until(self, stopped: asyncio.Event, leading: Work | None = None) -> None:
        """`leading` keeps the shell open if there is a store."""
        async with Supervisor() as tasks:
            running = [
                tasks.keep_running("the server", self.run),
                tasks.keep_running("the watchdog", send_watchdog_pings),
                tasks.keep_running("the certificates", self._certificates.run),
            ]
            if leading is not None:
                running.append(tasks.keep_running("the leading with the stored state", leading))
            await stopped.wait()
            _log.info("Ankaios server ends.")
            notify(STOPPING)
            for task in running:
                task.cancel()
            await self.middleware.close()

    async def run(self) -> None:
        """Handle messages until cancelled."""
        async with Supervisor() as tasks:
            self._tasks = tasks
            seconds = tasks.keep_running("the tick of each second", self._count_seconds)
            turn_began = time.monotonic()
            async for message in self.to_server:
                began = time.monotonic()
                await self._handle(message)
                now = time.monotonic()
                self.to_server.charge(message, now - began)
                if now - turn_began > _TURN_SECONDS:
                    await asyncio.sleep(0)
                    turn_began = time.monotonic()
                await self.commits.room()
            seconds.cancel()

    async def _count_seconds(self) -> None:
        while True:
            await asyncio.sleep(1)
            await self._decide_all(SecondPassed())

    async def _handle(self, message: ServerMessage) -> None:
        if self._snapshot is not None and only_reads(message):
            self._answer_read(message)
            return
        if (refusal := self._refusal(message) or self._servers_response(message)) is not None:
            self._perform([refusal])
            return
        if self._starts_reading(message):
            return
        await self._decide_all(message)

    async def _decide_all(self, message: ServerMessage) -> None:
        """Decide about the message and the changes that follow from it, one after the other."""
        pending = deque([message])
        async with self._deciding:
            while pending and (server := self._server) is not None:
                decision = await self._decide_and_submit(server, pending.popleft())
                pending += [effect for effect in decision.effects if isinstance(effect, NextChange)]

    async def _decide_and_submit(self, server: AnkaiosServer, message: ServerMessage) -> Decision:
        self.metrics.handling(message)
        if server.takes_long(message):
            return await self._decide_long(server, message)
        decision = self._decide(server, message)
        self._submit(server, decision)
        return decision

    def _submit(self, server: AnkaiosServer, decision: Decision) -> None:
        self._note_divergence(server)
        self.commits.submit(decision)
        self._store_records(decision)

    def _store_records(self, decision: Decision) -> None:
        """Records of workloads are stored in the background: nothing waits for them."""
        if self.records is not None:
            for name, value in decision.records.items():
                self.records.put(name, value)

    def _note_divergence(self, server: AnkaiosServer) -> None:
        if server.has_unstored_changes:
            self.diverged.set()

    # --- long messages ---

    async def _decide_long(self, server: AnkaiosServer, message: ServerMessage) -> Decision:
        """Only the thread uses the server meanwhile. Its effects are sent in parts, for the same reason."""
        assert self._tasks is not None, "messages are handled while the shell runs"
        self._snapshot = server.snapshot()
        with self.to_server.only(only_reads, held=_sender(message)):
            reading = self._tasks.run_once("the requests that only read", self._answer_reads)
            try:
                decision = await asyncio.to_thread(self._decide, server, message)
                self._snapshot = None
                if self._server is server:
                    self._note_divergence(server)
                    await self.commits.submit_long(decision)
                    self._store_records(decision)
            finally:
                self._snapshot = None
                reading.cancel()
        return decision

    async def _answer_reads(self) -> None:
        async for message in self.to_server:
            began = time.monotonic()
            self._answer_read(message)
            self.to_server.charge(message, time.monotonic() - began)
            await asyncio.sleep(0)
            await self.commits.room()

    def _answer_read(self, message: ToServerMessage) -> None:
        server, request = self._server, request_in(message)
        assert request is not None, "only requests are received"
        if (refusal := self._refusal(message) or self._servers_response(message)) is not None:
            self._perform([refusal])
        elif server is not None and not self._starts_reading(message):
            snapshot = self._snapshot
            self._submit(server, Decision([snapshot.response(request)]) if snapshot else self._decide(server, message))

    def _starts_reading(self, message: ServerMessage) -> bool:
        """Whether a response is now made in a thread. Until then further messages of the requester wait."""
        if self._server is None or not only_reads(message) or not self._server.takes_long(message):
            return False
        assert self._tasks is not None, "messages are handled while the shell runs"
        self.to_server.hold(sender_of(message))
        self._tasks.run_once("a long response", lambda: self._read_long(message))
        return True

    async def _read_long(self, message: ToServerMessage) -> None:
        request = request_in(message)
        assert request is not None, "only requests are read"
        try:
            async with self._reading:
                if self._server is not None:
                    snapshot = self._snapshot or self._server.snapshot()
                    self.commits.submit(Decision([await asyncio.to_thread(snapshot.response, request)]))
                elif (refusal := self._refusal(message)) is not None:
                    self._perform([refusal])
        finally:
            self.to_server.release(sender_of(message))

    def _refusal(self, message: ServerMessage) -> Respond | None:
        """Why a request is not handled now: the shell is closed, or nothing can be stored."""
        request = request_in(message)
        if request is None:
            return None
        if self._server is None:
            return refuse(request.requestId, f"cannot accept the request: {self._closed_text}")
        if self.commits.problem is not None and request.WhichOneof("RequestContent") in _CHANGING_REQUESTS:
            return refuse(request.requestId, f"Update rejected: 'the state cannot be stored: {self.commits.problem}'")
        return None

    def _servers_response(self, message: ServerMessage) -> Respond | None:
        """Answered by the shell, because it owns the facts about servers and storage."""
        if not isinstance(message, FromClient) or not message.request.HasField("serversRequest"):
            return None
        response = Response(
            requestId=message.request.requestId, serversResponse=ServersResponse(servers=self.servers())
        )
        return Respond(response)

    def _decide(self, server: AnkaiosServer, message: ServerMessage) -> Decision:
        """An internal error loses this one message; a request is answered with the reason."""
        kind = _kind(message)
        try:
            return server.decide(message, self._clock())
        except Exception as error:
            self.metrics.internal_errors.add()
            why = internal_error(f"the handling of a {kind}", error)
        try:
            return Decision(server.recover(message, why))
        except Exception as error:
            internal_error(f"the recovery from a {kind}", error)
            return Decision([])

    def _perform(self, effects: Iterable[Effect]) -> None:
        if not self._may_command():
            return  # the leadership is over; `StateLeader` closes the shell
        for effect in effects:
            try:
                self._perform_one(effect)
            except Exception as error:
                internal_error(f"the sending of a {type(effect).__name__}", error)

    def _perform_one(self, effect: Effect) -> None:
        self.metrics.performing(effect)
        match effect:
            case RunHooks(update):
                assert self._tasks is not None and self._server is not None
                server = self._server
                self._tasks.run_once("the mutating hooks", lambda: self._run_hooks(server, update))
            case DropAgent(agent, why):
                self.middleware.drop_agent(agent, why)
            case NextChange():
                pass  # it is handled next
            case _:
                self.middleware.dispatch(effect)

    async def _run_hooks(self, server: AnkaiosServer, update: UpdateWorkload) -> None:
        """There is always an outcome: other updates wait for it."""
        began = time.monotonic()
        try:
            finished = HooksFinished(await run_hooks(self._hooks, update))
        except UpdateRejected as fault:
            finished = HooksFinished(fault)
        except Exception as error:
            finished = HooksFinished(UpdateRejected(internal_error("the mutating hooks", error)))
        self.metrics.hooks_ran(finished, time.monotonic() - began)
        if self._server is server:
            await self._handle(finished)


_CHANGING_REQUESTS = ("updateStateRequest", "rollbackRequest")


def _sender(message: ServerMessage) -> Sender | None:
    """None for messages of the server itself."""
    return None if isinstance(message, HooksFinished | NextChange | SecondPassed) else sender_of(message)


def _bound(address: Address) -> socket.socket:
    try:
        return bind_socket(address.host, address.port)
    except OSError as error:
        raise cannot_listen(str(address), error) from error


def _kind(message: ServerMessage) -> str:
    content = message.message.WhichOneof("ToServerEnum") if isinstance(message, FromAgent) else None
    return f"{type(message).__name__} '{content}'" if content else type(message).__name__
