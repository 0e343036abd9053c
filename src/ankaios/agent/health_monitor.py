"""Performs the health checks of running workloads.

Input: a running workload with its checks, and notifications from it. Output: its health, whenever it changes. The
module owns the timer and the tasks of the checks. Each check of each workload has a separate task and time limit, so
that a check that hangs delays no other check. `core.health` evaluates the results.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from ankaios.agent.core.health import (
    AnyCheck,
    CheckRules,
    HealthResult,
    WorkloadHealth,
    begin_checks,
    check_kind,
    checks_of,
    command_check_result,
    due_checks,
    finish_check,
    health_state,
    next_due,
    start_check,
)
from ankaios.agent.health_probes import BlockingProbe, probe_file, probe_network
from ankaios.agent.namespace_sockets import NamespaceSockets
from ankaios.agent.notify_sockets import NotifySocket
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.execution_state import STARTING, HealthState
from ankaios.common.health import ExecCheck, FileCheck, HttpCheck, NotifyCheck, TcpCheck
from ankaios.common.supervision import Supervisor
from ankaios.common.workload import WorkloadSpec
from ankaios.runtimes.runtime_connector import RuntimeConnector, WorkloadId

HealthSink = Callable[[HealthState], None]
IMAGE_RETRY = 5.0
# After these changes, the newest one is reported once in each period, so that a check whose result changes all the time
# occupies neither the server nor the disk.
IMMEDIATE_REPORTS, REPORT_PERIOD = 20, 1.0
NO_IMAGE_CHECK = "the image has no HEALTHCHECK"


class HealthMonitor:
    """The checks of one running workload, until it is stopped."""

    def __init__(
        self,
        spec: WorkloadSpec,
        workload: WorkloadId,
        connector: RuntimeConnector,
        sockets: NamespaceSockets,
        notify: NotifySocket | None,
        tasks: Supervisor,
        sink: HealthSink,
        checked: Callable[[str, bool], None],
    ) -> None:
        assert spec.health is not None
        self._spec = spec
        self._workload = workload
        self._connector = connector
        self._sockets = sockets
        self._notify = notify
        self._tasks = tasks
        self._sink: HealthSink | None = sink
        self._checked = checked
        self._checks: list[AnyCheck] = checks_of(spec.health)
        self._health = WorkloadHealth()
        self._early_notification: HealthResult | None = None  # received while the checks are prepared
        self._newest = self._reported = HealthState(STARTING)
        self._reports_until = 0.0  # grows by one period with each report
        self._delayed_report: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._running: dict[int, asyncio.Task[None]] = {}
        self._file_probe = BlockingProbe()
        self._clock = asyncio.get_running_loop().time
        name = f"the preparation of the health checks of '{spec.name}'"
        self._preparation = tasks.run_once(name, self._prepare, self._not_prepared)

    def stop(self) -> None:
        """Stop the checks; the sink is not called any more."""
        self._sink = None
        self._preparation.cancel()
        for timer in (self._timer, self._delayed_report):
            if timer is not None:
                timer.cancel()
        for task in self._running.values():
            task.cancel()
        if self._notify is not None:
            self._notify.detach()

    def notified(self, result: HealthResult) -> None:
        """A notification finishes the notify check before it is due."""
        if not self._health.checks:
            self._early_notification = result
        for number, check in enumerate(self._checks[: len(self._health.checks)]):
            if isinstance(check, NotifyCheck):
                self._finish(number, result)

    # --- beginning ----------------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        assert self._spec.health is not None
        if self._spec.health.image:
            await self._add_image_check()
        self._health = begin_checks(map(CheckRules.of, self._checks), self._clock())
        if self._notify is not None:
            self._notify.attach(await self._connector.check_target(self._workload), self.notified)
        if self._early_notification is not None:
            self.notified(self._early_notification)
        self._schedule()

    async def _add_image_check(self) -> None:
        while True:
            try:
                check = await self._connector.image_check(self._workload)
                break
            except Rejected as error:
                self._report(HealthState(STARTING, str(error)))
                return
            except Unavailable as error:
                self._report(HealthState(STARTING, str(error)))
                await asyncio.sleep(IMAGE_RETRY)
        if check is not None:
            self._checks.append(check)
        elif not self._checks:
            self._report(HealthState(STARTING, NO_IMAGE_CHECK))

    def _not_prepared(self, why: str) -> None:
        self._report(HealthState(STARTING, why))

    # --- checking -----------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = next_due(self._health)
        if due is not None and self._sink is not None:
            self._timer = asyncio.get_running_loop().call_at(due, self._start_due)

    def _start_due(self) -> None:
        for number in due_checks(self._health, self._clock() + 0.001):  # timers can fire slightly early
            check = self._checks[number]
            rules = self._health.checks[number].rules
            if isinstance(check, NotifyCheck):
                self._finish(number, HealthResult(f"no notification for {rules.interval:g} s"))
                continue
            self._health = start_check(self._health, number)
            self._running[number] = self._tasks.run_once(
                f"the {rules.label} of workload '{self._spec.name}'",
                partial(self._run, number, check, rules.timeout),
                partial(self._broken, number),
            )
        self._schedule()

    async def _run(self, number: int, check: AnyCheck, limit: float) -> None:
        try:
            result = await self._probe(check, limit)
        except (Rejected, Unavailable) as error:
            result = HealthResult(str(error))
        self._finish(number, result)

    async def _probe(self, check: AnyCheck, limit: float) -> HealthResult:
        match check:
            case ExecCheck(command=command, container=container):
                if not command:
                    return HealthResult("it has no command")
                done = await self._connector.run_check(self._workload, command, limit, container)
                return command_check_result(done.exit_code, done.output, limit)
            case HttpCheck() | TcpCheck():
                target = await self._connector.check_target(self._workload)
                return await probe_network(self._sockets, target, check, limit)
            case FileCheck(container=container):
                target = await self._connector.check_target(self._workload, container)
                return await self._file_probe.run(lambda: probe_file(target, check), limit)
            case NotifyCheck():
                raise AssertionError("notify checks are not performed")

    def _broken(self, number: int, why: str) -> None:
        self._finish(number, HealthResult(why))

    def _finish(self, number: int, result: HealthResult) -> None:
        self._running.pop(number, None)
        self._checked(check_kind(self._checks[number]), result.succeeded)
        self._health = finish_check(self._health, number, result, self._clock())
        self._report(health_state(self._health))
        self._schedule()

    def _report(self, health: HealthState) -> None:
        self._newest = health
        if self._delayed_report is None:
            self._report_newest()

    def _report_newest(self) -> None:
        self._delayed_report = None
        if self._sink is None or self._newest == self._reported:
            return
        now = self._clock()
        until = max(self._reports_until, now) + REPORT_PERIOD
        delay = until - now - IMMEDIATE_REPORTS * REPORT_PERIOD
        if delay > 0:
            self._delayed_report = asyncio.get_running_loop().call_later(delay, self._report_newest)
            return
        self._reports_until = until
        self._reported = self._newest
        self._sink(self._newest)
