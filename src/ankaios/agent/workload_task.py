"""Performs the effects of one workload in order.

Input: commands from the manager, states from the checker. Output: calls of the runtime, reports. A command and all
outcomes of its effects are finished before the next command is taken. The tasks of workloads run concurrently.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ankaios.agent.agent_records import AgentRecords
from ankaios.agent.core.health import HealthResult
from ankaios.agent.core.pending_commands import fold
from ankaios.agent.core.workload_events import (
    AcquireDevices,
    AdoptDevices,
    CancelRetry,
    CheckHealth,
    CloseInterface,
    Command,
    DeleteContainer,
    Deleted,
    DeleteFailed,
    DevicesGranted,
    DevicesMissing,
    Effect,
    Event,
    HealthSeen,
    Identified,
    Identify,
    OpenInterface,
    ReadEnd,
    ReleaseDevices,
    RemoveFiles,
    RemoveFolder,
    Report,
    RetryDue,
    ScheduleRestart,
    ScheduleRetry,
    Signal,
    Start,
    Started,
    StartFailed,
    StartImpossible,
    StartLacksSpace,
    StateSeen,
    StopHealthChecks,
    Unwatch,
    Watch,
    WatchFailed,
)
from ankaios.agent.core.workload_lifecycle import Workload, reduce, retry_limit
from ankaios.agent.core.workload_recovery import outcome_of_error, recover
from ankaios.agent.devices import DeviceProvider
from ankaios.agent.exit_details import read_exit_details
from ankaios.agent.health_checks import HealthChecks
from ankaios.agent.run_folder import RunFolder
from ankaios.agent.server_link import Outbox
from ankaios.agent.workload_files import DiskFull, folder_failure, write_files
from ankaios.agent.workload_interface import WorkloadInterface
from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.execution_state import (
    PENDING_STARTING,
    REMOVED,
    STOPPING_REQUESTED_AT_RUNTIME,
    ExecutionState,
    HealthState,
)
from ankaios.common.supervision import Supervisor, internal_error
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.devices.host import WaitingForDevices
from ankaios.runtimes.connectors import Connectors
from ankaios.runtimes.runtime_connector import Extras, StateChecker

if TYPE_CHECKING:
    from ankaios.agent.health_monitor import HealthMonitor

UNSUPPORTED_RUNTIME = "Unsupported Runtime"
MAX_SIGNALS = 64
# Seconds after which a slow start or stop is reported. A container that ignores SIGTERM usually stops after ten.
SLOW_START = 10.0
SLOW_STOP = 20.0

log = logging.getLogger(__name__)


class SharedServices(Struct, frozen=True):
    """The services that all workload tasks of an agent share. `chance` returns a uniform number from 0 to 1."""

    connectors: Connectors
    folder: RunFolder
    devices: DeviceProvider
    outbox: Outbox
    tasks: Supervisor
    report: Callable[[InstanceName, ExecutionState], None]
    records: AgentRecords
    chance: Callable[[], float]
    health: HealthChecks


class WorkloadTask:
    def __init__(self, spec: WorkloadSpec, first: Command, services: SharedServices) -> None:
        self.workload = Workload(spec)
        self.last_report: tuple[InstanceName, ExecutionState] | None = None
        self.commands: list[Event] = [first]
        self._services = services
        self.interface = WorkloadInterface(services.folder, services.outbox, self.notified, services.tasks)
        self._signals: deque[Signal] = deque(maxlen=MAX_SIGNALS)
        self._wake = asyncio.Event()
        self._checker: StateChecker | None = None
        self._monitor: HealthMonitor | None = None
        self._early_notification: HealthResult | None = None  # received before the health checks began
        self._retry: asyncio.TimerHandle | None = None
        self._grants: tuple[DeviceGrant, ...] = ()

    def command(self, command: Command) -> None:
        self.commands, skipped = fold(self.commands, command, self.workload.name)
        self._wake.set()
        for name in skipped:
            self._services.report(name, REMOVED)

    def signal(self, signal: Signal) -> None:
        self._signals.append(signal)
        self._wake.set()

    async def run(self) -> None:
        """Run until the workload is removed and no command is pending. The FIFOs stay if only the agent ends.

        An internal error is handled like other outcomes, so that it does not end this task.
        """
        try:
            while not self.workload.gone or self.commands:
                await self._handle(await self._next())
        finally:
            self._stop_watching()
            self._cancel_retry()
            await self.interface.close(keep_fifos=True)

    async def _next(self) -> Event:
        """Return commands before signals: signals of a workload that is to be replaced are obsolete."""
        while True:
            if self.commands:
                return self.commands.pop(0)
            if self._signals:
                return self._signals.popleft()
            self._wake.clear()
            await self._wake.wait()

    async def _handle(self, event: Event) -> None:
        events = deque([event])
        while events:
            for effect in self._decide(events.popleft()):
                if outcome := await self._perform_safely(effect):
                    events.append(outcome)

    def _decide(self, event: Event) -> list[Effect]:
        try:
            self.workload, effects = reduce(self.workload, event)
        except Exception as error:
            self.workload, effects = recover(self.workload, event, self._broken("decision", event, error))
        return effects

    async def _perform_safely(self, effect: Effect) -> Event | None:
        try:
            return await self._perform(effect)
        except Exception as error:
            return outcome_of_error(effect, self._broken("step", effect, error))

    def _broken(self, what: str, thing: Event | Effect, error: Exception) -> str:
        return internal_error(f"the {what} {type(thing).__name__} of workload '{self.workload.name.workload}'", error)

    async def _perform(self, effect: Effect) -> Event | None:
        match effect:
            case Report(name, state):
                self._report(name, state)
            case Start(spec, reuse):
                return await self._start(spec, reuse)
            case DeleteContainer(spec, runtime_id):
                return await self._delete(spec, runtime_id)
            case Identify(spec):
                return await self._identify(spec)
            case Watch(spec, runtime_id, turn):
                self._watch(spec, runtime_id, turn)
            case Unwatch():
                self._stop_watching()
            case ReadEnd(spec, runtime_id, state):
                connector = self._services.connectors[spec.runtime]
                details = await read_exit_details(connector, runtime_id, state)
                self._services.records.detail(spec.instance_name, **details)
            case CheckHealth(spec, runtime_id, turn):
                self._check_health(spec, runtime_id, turn)
            case StopHealthChecks():
                self._stop_health_checks()
            case ScheduleRetry(attempt, turn):
                self._signal_later(self._services.chance() * retry_limit(attempt), turn)
            case ScheduleRestart(delay, turn):
                self._signal_later(delay, turn)
            case CancelRetry():
                self._cancel_retry()
            case AcquireDevices(spec):
                return await self._acquire(spec)
            case AdoptDevices(spec):
                await self._services.devices.adopt(spec)
            case ReleaseDevices(name):
                self._grants = ()
                await self._services.devices.release(name)
            case OpenInterface(spec):
                await self.interface.open(spec)
            case CloseInterface():
                await self.interface.close()
            case RemoveFiles(name):
                self._services.folder.remove_files(name)
            case RemoveFolder(name):
                self._services.health.forget(name)
                self._services.folder.remove(name)
        return None

    def _report(self, name: InstanceName, state: ExecutionState) -> None:
        restarts = self.workload.history.restarts if name == self.workload.name else 0
        counted = replace(state, restarts=restarts) if restarts and not state.is_same(REMOVED) else state
        self.last_report = (name, counted)
        self._services.report(name, counted)

    @contextmanager
    def _slow_report(self, seconds: float, spec: WorkloadSpec, state: ExecutionState, done: str) -> Iterator[None]:
        """Report after `seconds` that the runtime has not finished, such as during the download of an image."""
        why = f"The runtime '{spec.runtime}' has not {done} it within {seconds:g} s, waiting for it"
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, self._report, spec.instance_name, state.because(why))
        try:
            yield
        finally:
            timer.cancel()

    async def _start(self, spec: WorkloadSpec, reuse: str | None) -> Event:
        connector = self._services.connectors.get(spec.runtime)
        if connector is None:
            return StartImpossible(UNSUPPORTED_RUNTIME)
        interface = await self.interface.open(spec)
        self._early_notification = None  # of an earlier start
        try:
            files = await self._write_files(spec)
            with self._slow_report(SLOW_START, spec, PENDING_STARTING, "started"):
                environment = self._services.health.environment(spec)
                extras = Extras(interface, files, reuse, self._grants, environment)
                return Started(await connector.create_workload(spec, extras), asyncio.get_running_loop().time())
        except DiskFull as error:
            return StartLacksSpace(str(error))
        except Rejected as error:  # also files that can never be written
            return StartImpossible(str(error))
        except Unavailable as error:
            return StartFailed(str(error))

    async def _write_files(self, spec: WorkloadSpec) -> Mapping[Path, str]:
        """Write in a thread, so that a slow disk does not delay other workloads."""
        if not spec.files:
            return {}
        return await asyncio.to_thread(self._write_files_now, spec)

    def _write_files_now(self, spec: WorkloadSpec) -> Mapping[Path, str]:
        try:
            self._services.folder.make(spec.instance_name)
        except OSError as error:
            raise folder_failure(error) from error
        return write_files(self._services.folder.files(spec.instance_name), spec.files)

    async def _delete(self, spec: WorkloadSpec, runtime_id: str | None) -> Event:
        connector = self._services.connectors.get(spec.runtime)
        if connector is None:
            return Deleted()
        try:
            with self._slow_report(SLOW_STOP, spec, STOPPING_REQUESTED_AT_RUNTIME, "deleted"):
                found = runtime_id or await connector.workload_id(spec.instance_name)
                if found is not None:
                    await connector.delete_workload(found)
        except (Rejected, Unavailable) as error:
            return DeleteFailed(str(error))
        return Deleted()

    async def _identify(self, spec: WorkloadSpec) -> Event:
        connector = self._services.connectors.get(spec.runtime)
        if connector is None:
            return Identified(None)
        try:
            return Identified(await connector.workload_id(spec.instance_name))
        except (Rejected, Unavailable) as error:
            log.warning("cannot resume '%s': %s", spec.instance_name, error)
            return WatchFailed(str(error))

    def _watch(self, spec: WorkloadSpec, runtime_id: str, turn: int) -> None:
        def sink(state: ExecutionState) -> None:
            self.signal(StateSeen(turn, state, asyncio.get_running_loop().time()))

        self._stop_watching()
        self._checker = self._services.connectors[spec.runtime].start_checker(spec, runtime_id, sink)

    def _check_health(self, spec: WorkloadSpec, runtime_id: str, turn: int) -> None:
        def sink(health: HealthState) -> None:
            self.signal(HealthSeen(turn, health, asyncio.get_running_loop().time()))

        self._stop_health_checks()
        connector = self._services.connectors[spec.runtime]
        self._monitor = self._services.health.start(spec, runtime_id, connector, sink)
        if self._early_notification is not None:
            self.notified(self._early_notification)
            self._early_notification = None

    def _stop_health_checks(self) -> None:
        if self._monitor is not None:
            self._monitor.stop()
            self._monitor = None

    def notified(self, result: HealthResult) -> None:
        """Handle a health notification from the control interface."""
        if self._monitor is None:
            self._early_notification = result
        else:
            self._monitor.notified(result)

    def _stop_watching(self) -> None:
        self._stop_health_checks()
        if self._checker is not None:
            self._checker.stop()
            self._checker = None

    def _signal_later(self, delay: float, turn: int) -> None:
        records = self._services.records
        records.detail(self.workload.name, next_ms=records.now_ms() + int(delay * 1000))
        self._retry = asyncio.get_running_loop().call_later(delay, self.signal, RetryDue(turn))

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    async def _acquire(self, spec: WorkloadSpec) -> Event:
        answer = await self._services.devices.acquire(spec)
        if isinstance(answer, WaitingForDevices):
            return DevicesMissing(answer.reason)
        self._grants = answer
        return DevicesGranted()
