"""A runtime in memory for tests, which can be scripted to be slow, to fail, to hang or to report wrong states.

Input: workloads. Output: states that the test sets. All calls are recorded in `calls`, in order.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from msgspec import Struct, field

from ankaios.common.execution_state import FAILED_LOST, RUNNING_OK, ExecutionState
from ankaios.common.health import ExecCheck
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.runtime_connector import (
    CheckTarget,
    CommandResult,
    Existing,
    Extras,
    LogOptions,
    RuntimeFailed,
    StateChecker,
    StateSink,
    Unsupported,
    WorkloadId,
)


class FakeWorkload(Struct):
    """A workload of the fake runtime. Readers of logs receive `output` in these pieces."""

    id: WorkloadId
    instance_name: InstanceName
    spec: WorkloadSpec | None = None
    extras: Extras = field(default_factory=Extras)
    state: ExecutionState = RUNNING_OK
    output: list[bytes] = field(default_factory=list)
    starts: int = 1


class FakeChecker:
    def __init__(self, runtime: "FakeRuntime", workload: WorkloadId, sink: StateSink) -> None:
        self._runtime = runtime
        self.workload = workload
        self._sink: StateSink | None = sink
        self._reported: ExecutionState | None = None
        self._first = asyncio.get_running_loop().call_soon(self.report)

    def report(self, state: ExecutionState | None = None) -> None:
        """Report the given or the current state if it differs from the last reported one."""
        state = state or self._runtime.state_of(self.workload)
        if self._sink is not None and state != self._reported:
            self._reported = state
            self._sink(state)

    def stop(self) -> None:
        self._sink = None
        self._first.cancel()
        with suppress(ValueError):
            self._runtime.checkers.remove(self)


class FakeRuntime:
    """Calls are scripted by name (`create`, `delete`, `existing`, `id`).

    `fail_next` queues errors, `hold` blocks calls until `release`, and calls in `fail_always` fail until the entry is
    removed.
    """

    def __init__(self, name: str = "fake") -> None:
        self.name = name
        self.workloads: dict[WorkloadId, FakeWorkload] = {}
        self.checkers: list[FakeChecker] = []
        self.calls: list[tuple[str, str]] = []
        self.fail_always: dict[str, Exception] = {}
        self.has_logs = True
        self.target = CheckTarget(0, 0)
        self.check_results: list[CommandResult] = []
        self.image_healthcheck: ExecCheck | None = None

        self.pids: dict[WorkloadId, list[int]] = {}
        self.closed = False
        self._fail_next: dict[str, list[Exception]] = {}
        self._gates: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Event()
        self._number = 0

    # -- for the test

    def fail_next(self, call: str, *errors: Exception) -> None:
        self._fail_next.setdefault(call, []).extend(errors)

    def hold(self, call: str) -> None:
        """Block the next calls with this name until `release`."""
        self._gates.setdefault(call, asyncio.Event())

    def release(self, call: str) -> None:
        if gate := self._gates.pop(call, None):
            gate.set()

    def add_existing(
        self, instance: InstanceName, state: ExecutionState = RUNNING_OK, spec: WorkloadSpec | None = None
    ) -> FakeWorkload:
        """Add a workload that an earlier agent process started."""
        workload = FakeWorkload(self._new_id(), instance, spec, state=state)
        self.workloads[workload.id] = workload
        return workload

    def named(self, workload_name: str) -> FakeWorkload:
        """Return the newest workload with this name."""
        return [each for each in self.workloads.values() if each.instance_name.workload == workload_name][-1]

    def set_state(self, workload: WorkloadId, state: ExecutionState) -> None:
        self.workloads[workload].state = state
        self._report(workload)

    def vanish(self, workload: WorkloadId) -> None:
        """Remove the workload as if a user had removed it with the tools of the runtime."""
        self.workloads.pop(workload, None)
        self._report(workload)

    def report_wrong_state(self, workload: WorkloadId, state: ExecutionState) -> None:
        """Let the checkers report this state although it is wrong."""
        for checker in list(self.checkers):
            if checker.workload == workload:
                checker.report(state)

    def print(self, workload: WorkloadId, piece: bytes) -> None:
        self.workloads[workload].output.append(piece)
        self._wake()

    def state_of(self, workload: WorkloadId) -> ExecutionState:
        found = self.workloads.get(workload)
        return found.state if found else FAILED_LOST

    def _report(self, workload: WorkloadId) -> None:
        for checker in list(self.checkers):
            if checker.workload == workload:
                checker.report()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # -- for the agent

    async def existing_workloads(self, agent: str) -> list[Existing]:
        await self._script("existing", agent)
        return [
            Existing(each.instance_name, each.state, each.id)
            for each in self.workloads.values()
            if each.instance_name.agent == agent
        ]

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> WorkloadId:
        try:
            await self._script("create", str(spec.instance_name))
        except RuntimeFailed:
            if extras.reuse:  # a failed start removes the workload, as with containers
                self.vanish(extras.reuse)
            raise
        if extras.reuse:
            return self._start_again(extras.reuse)
        workload = FakeWorkload(self._new_id(), spec.instance_name, spec, extras)
        self.workloads[workload.id] = workload
        return workload.id

    def _start_again(self, workload: WorkloadId) -> WorkloadId:
        if workload not in self.workloads:
            raise RuntimeFailed(f"cannot start '{workload}': no such workload")
        found = self.workloads[workload]
        found.state = RUNNING_OK
        found.starts += 1
        return workload

    async def workload_id(self, name: InstanceName) -> WorkloadId | None:
        await self._script("id", str(name))
        return next((each.id for each in self.workloads.values() if each.instance_name == name), None)

    def start_checker(self, spec: WorkloadSpec, workload: WorkloadId, sink: StateSink) -> StateChecker:
        self.calls.append(("check", workload))
        checker = FakeChecker(self, workload, sink)
        self.checkers.append(checker)
        return checker

    async def delete_workload(self, workload: WorkloadId) -> None:
        await self._script("delete", workload)
        self.workloads.pop(workload, None)
        self._wake()

    async def check_target(self, workload: WorkloadId, container: str | None = None) -> CheckTarget:
        await self._script("target", container or workload)
        return self.target

    async def run_check(
        self, workload: WorkloadId, command: Sequence[str], limit: float, container: str | None = None
    ) -> CommandResult:
        await self._script("run_check", " ".join(command))
        return self.check_results.pop(0) if self.check_results else CommandResult(0)

    async def image_check(self, workload: WorkloadId) -> ExecCheck | None:
        await self._script("image_check", workload)
        return self.image_healthcheck

    def processes(self, workload: WorkloadId) -> list[int]:
        return list(self.pids.get(workload, ()))

    async def logs(self, workload: WorkloadId, options: LogOptions) -> AsyncIterator[bytes]:
        self.calls.append(("logs", workload))
        if not self.has_logs:
            raise Unsupported("The fake runtime has no logs")
        given = 0
        while found := self.workloads.get(workload):
            changed = self._changed
            for piece in found.output[given:]:
                given += 1
                yield piece
            if not options.follow or found.state != RUNNING_OK:
                return
            await changed.wait()

    async def was_out_of_memory(self, workload: WorkloadId) -> bool:
        """The runtime does not report out-of-memory kills."""
        del workload
        return False

    async def close(self) -> None:
        self.closed = True
        for checker in list(self.checkers):
            checker.stop()

    async def _script(self, call: str, about: str) -> None:
        self.calls.append((call, about))
        if gate := self._gates.get(call):
            await gate.wait()
        if errors := self._fail_next.get(call):
            raise errors.pop(0)
        if error := self.fail_always.get(call):
            raise error

    def _new_id(self) -> WorkloadId:
        self._number += 1
        return f"fake-{self._number}"
