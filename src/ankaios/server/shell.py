"""The running server: messages come in through a channel, `AnkaiosServer` decides, effects go out to the middleware.

Owns the channel, the middleware, the server and the tasks of mutating hooks. Everything is done by one thread, one
message at a time; hooks are other processes, and while they run other messages are served.
"""

import asyncio
import gc
import logging
import signal
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from time import monotonic
from typing import Any

from ankaios import __version__
from ankaios.common.channels import ToServerChannel
from ankaios.common.config import INSECURE_WARNING, PEM_WINS_WARNING, PemMaterial, require_security
from ankaios.common.errors import StartupFailed
from ankaios.common.messages import FromAgent
from ankaios.common.metrics import metrics_of
from ankaios.common.pb.grpc_api_pb2 import UpdateWorkload
from ankaios.common.service_manager import READY, STOPPING, dump_traceback_on_abort, notify, send_watchdog_pings
from ankaios.common.supervision import Supervisor, internal_error
from ankaios.middleware.server import Limits, MiddlewareServer
from ankaios.server.core.ankaios_server import AnkaiosServer
from ankaios.server.core.replies import (
    DropAgent,
    Effect,
    HooksFinished,
    NextUpdate,
    RunHooks,
    SecondPassed,
    ServerMessage,
)
from ankaios.server.core.state_update import PreparedUpdate, update_message
from ankaios.server.core.update_rejected import UpdateRejected
from ankaios.server.metrics import ServerMetrics
from ankaios.server.mutating_hooks import MutatingHook, run_hooks
from ankaios.server.settings import ServerSettings
from ankaios.server.startup_state_loader import Form, load_startup_state

_log = logging.getLogger(__name__)

# Messages that may wait for the server; senders wait when there are more.
_CHANNEL_CAPACITY = 4096
# So many messages are handled before connections get their turn again.
_MESSAGES_PER_TURN = 16


async def serve(settings: ServerSettings) -> None:
    """Run until asked to end. Raises `StartupFailed` if it cannot begin."""
    stopped = _asked_to_end()
    startup = load_startup_state(settings.startup_manifest) if settings.startup_manifest else None
    pem = security(settings)
    shell = ServerShell(pem, settings.hooks, Limits(max_message_size=settings.max_message_size))
    # [impl->swdd~server-starts-without-startup-config~1]
    if startup is not None and not await _unless(stopped, shell.load(startup)):
        return
    await shell.listen(settings)
    await shell.run_until(stopped)


def _asked_to_end() -> asyncio.Event:
    """Set by a signal; waited for from the beginning, so that nobody is killed who is just getting ready."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    return asked


async def _unless(stopped: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work, or leave it as soon as the end is asked for; tells whether it was done."""
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


class ServerShell:
    """[impl->swdd~server-uses-async-channels~1]"""

    def __init__(self, pem: PemMaterial | None, hooks: Sequence[MutatingHook], limits: Limits | None = None) -> None:
        self.to_server: ToServerChannel = ToServerChannel(_CHANNEL_CAPACITY)
        self.middleware = MiddlewareServer(self.to_server, pem, limits)
        self._hooks = hooks
        self._server = AnkaiosServer(has_hooks=bool(hooks))
        self.metrics = ServerMetrics()
        self.metrics.observe(self._server)
        self.metrics.inbox.read = lambda: {(): len(self.to_server)}

    async def load(self, startup: Form) -> None:
        """Begin with this state; whatever is wrong with it is a reason not to begin."""
        try:
            prepared = self._server.prepare_start(startup)
            self._server.finish_start(prepared, await self._show_to_hooks(prepared))
        except UpdateRejected as fault:
            raise StartupFailed("server error", fault.reason) from fault

    async def _show_to_hooks(self, prepared: PreparedUpdate) -> UpdateWorkload | None:
        if not self._hooks or not prepared.changes:
            return None
        return await run_hooks(self._hooks, update_message(prepared.changes))

    async def listen(self, settings: ServerSettings) -> None:
        await self.middleware.start(settings.address.host, settings.address.port)
        if settings.metrics is not None:
            await self._serve_metrics(settings.metrics)
        # What is there now stays: the garbage collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        _log.info("Ankaios server %s is ready on port %d.", __version__, self.middleware.port)
        dump_traceback_on_abort()
        notify(READY)

    async def _serve_metrics(self, address: str) -> None:
        from ankaios.common.metrics_endpoint import start_metrics  # loads prometheus_client

        await start_metrics(address, [*metrics_of(self.metrics), *metrics_of(self.middleware.traffic)])

    async def run_until(self, stopped: asyncio.Event) -> None:
        async with Supervisor() as tasks:
            running = tasks.keep_running("the server", self.run)
            watchdog = tasks.keep_running("the watchdog", send_watchdog_pings)
            await stopped.wait()
            _log.info("Ankaios server ends.")
            notify(STOPPING)
            running.cancel()
            watchdog.cancel()
            await self.middleware.close()

    async def run(self) -> None:
        """Handle messages until cancelled."""
        async with Supervisor() as tasks:
            seconds = tasks.keep_running("the tick of each second", lambda: self._count_seconds(tasks))
            handled = 0
            async for message in self.to_server:
                self._handle(message, tasks)
                handled += 1
                if handled % _MESSAGES_PER_TURN == 0:
                    await asyncio.sleep(0)
            seconds.cancel()

    async def _count_seconds(self, tasks: Supervisor) -> None:
        while True:
            await asyncio.sleep(1)
            self._perform(self._server.handle(SecondPassed()), tasks)

    def _handle(self, message: ServerMessage, tasks: Supervisor) -> None:
        pending = deque([message])
        while pending:
            effects = self._decide(pending.popleft())
            pending += [effect for effect in effects if isinstance(effect, NextUpdate)]
            self._perform(effects, tasks)

    def _decide(self, message: ServerMessage) -> list[Effect]:
        """An internal error loses this one message; a request is answered with the reason."""
        kind = _kind(message)
        self.metrics.handling(message)
        try:
            return self._server.handle(message)
        except Exception as error:
            self.metrics.internal_errors.add()
            why = internal_error(f"the handling of a {kind}", error)
        try:
            return self._server.recover(message, why)
        except Exception as error:
            internal_error(f"the recovery from a {kind}", error)
            return []

    def _perform(self, effects: Iterable[Effect], tasks: Supervisor) -> None:
        for effect in effects:
            try:
                self._perform_one(effect, tasks)
            except Exception as error:
                internal_error(f"the sending of a {type(effect).__name__}", error)

    def _perform_one(self, effect: Effect, tasks: Supervisor) -> None:
        self.metrics.performing(effect)
        match effect:
            case RunHooks(update):
                tasks.run_once("the mutating hooks", lambda: self._run_hooks(update, tasks))
            case DropAgent(agent, why):
                self.middleware.drop_agent(agent, why)
            case NextUpdate():
                pass  # it is handled next
            case _:
                self.middleware.dispatch(effect)

    async def _run_hooks(self, update: UpdateWorkload, tasks: Supervisor) -> None:
        """There is always an outcome: other updates wait for it."""
        began = monotonic()
        try:
            finished = HooksFinished(await run_hooks(self._hooks, update))
        except UpdateRejected as fault:
            finished = HooksFinished(fault)
        except Exception as error:
            finished = HooksFinished(UpdateRejected(internal_error("the mutating hooks", error)))
        self.metrics.hooks_ran(finished, monotonic() - began)
        self._handle(finished, tasks)


def _kind(message: ServerMessage) -> str:
    content = message.message.WhichOneof("ToServerEnum") if isinstance(message, FromAgent) else None
    return f"{type(message).__name__} '{content}'" if content else type(message).__name__
