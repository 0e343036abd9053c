"""A simulated runtime: containers of a node that outlive its agent, and a connector that is slow, fails or hangs.

Input: calls of an agent, faults. Output: containers, and their states. `NodeContainers` owns the containers of a node;
each start of the agent makes a new `SimulatedRuntime` for them, as the agent makes a new connector for podman.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from random import Random

from msgspec import Struct, field

from ankaios.common.execution_state import (
    FAILED_EXEC_FAILED,
    FAILED_LOST,
    RUNNING_OK,
    SUCCEEDED_OK,
    ExecutionState,
)
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
    WorkloadId,
)

RUNTIME_NAME = "simulated"

# What can happen to a container: the agent deletes it, or something else removes it.
STARTED, ENDED, REMOVED, DELETED = "started", "ended", "removed", "deleted"


class SimulatedContainer(Struct):
    id: WorkloadId
    instance_name: InstanceName
    runtime: str
    state: ExecutionState = RUNNING_OK
    output: list[bytes] = field(default_factory=list)
    control_interface: Path | None = None


class RuntimeFaults(Struct):
    """How the runtime of a node behaves; changed while it runs. Rates are from 0 to 1."""

    shortest_call: float = 0.02
    longest_call: float = 0.2
    failure_rate: float = 0.0
    wrong_state_rate: float = 0.0
    hangs_until: float = 0.0


class NodeContainers:
    """The containers of one node. `changed` is called with a container and what happened to it."""

    def __init__(self, node: str, random: Random, changed: Callable[[SimulatedContainer, str], None]) -> None:
        self.node = node
        self.faults = RuntimeFaults()
        self.containers: dict[WorkloadId, SimulatedContainer] = {}
        self.random = random
        self.calls = 0
        self._changed = changed
        self._number = 0
        self._checkers: list[SimulatedChecker] = []

    def create(self, name: InstanceName, runtime: str, control_interface: Path | None = None) -> WorkloadId:
        self._number += 1
        container = SimulatedContainer(
            f"{self.node}-{self._number}", name, runtime, control_interface=control_interface
        )
        self.containers[container.id] = container
        self._changed(container, STARTED)
        return container.id

    def start_again(self, workload: WorkloadId) -> WorkloadId:
        if (container := self.containers.get(workload)) is None:
            raise RuntimeFailed(f"cannot start '{workload}': no such container")
        container.state = RUNNING_OK
        self._changed(container, STARTED)
        return workload

    def end(self, workload: WorkloadId, state: ExecutionState = FAILED_EXEC_FAILED) -> None:
        container = self.containers[workload]
        container.state = state
        self._changed(container, ENDED)
        self._notify(workload)

    def remove(self, workload: WorkloadId, what: str = REMOVED) -> None:
        if (container := self.containers.pop(workload, None)) is not None:
            self._changed(container, what)
            self._notify(workload)

    def agent_ended(self) -> None:
        """Its observation of containers ends with it."""
        self._checkers.clear()

    def power_off(self) -> None:
        """The containers stay on the disk, but none of them runs."""
        for container in self.containers.values():
            if container.state == RUNNING_OK:
                container.state = FAILED_EXEC_FAILED
                self._changed(container, ENDED)

    def state_of(self, workload: WorkloadId) -> ExecutionState:
        found = self.containers.get(workload)
        return found.state if found else FAILED_LOST

    def running(self) -> list[SimulatedContainer]:
        return [container for container in self.containers.values() if container.state == RUNNING_OK]

    def observed(self) -> list[WorkloadId]:
        """The containers that the agent observes, once for each observer."""
        return [checker.workload for checker in self._checkers]

    def watch(self, checker: SimulatedChecker) -> None:
        self._checkers.append(checker)

    def unwatch(self, checker: SimulatedChecker) -> None:
        if checker in self._checkers:
            self._checkers.remove(checker)

    def _notify(self, workload: WorkloadId) -> None:
        for checker in list(self._checkers):
            if checker.workload == workload:
                checker.look_soon()


class SimulatedChecker:
    """Reports each new state after a short delay, sometimes a wrong one first."""

    def __init__(self, containers: NodeContainers, workload: WorkloadId, sink: StateSink) -> None:
        self._containers = containers
        self.workload = workload
        self._sink: StateSink | None = sink
        self._reported: ExecutionState | None = None
        self._loop = asyncio.get_running_loop()
        containers.watch(self)
        self._loop.call_soon(self._look)

    def look_soon(self) -> None:
        self._loop.call_later(self._containers.random.uniform(0.001, 0.05), self._look)

    def _look(self) -> None:
        if self._sink is None:
            return
        state = self._containers.state_of(self.workload)
        if self._containers.random.random() < self._containers.faults.wrong_state_rate:
            state = self._containers.random.choice((FAILED_LOST, SUCCEEDED_OK, FAILED_EXEC_FAILED))
            self.look_soon()
        if state != self._reported:
            self._reported = state
            self._sink(state)

    def stop(self) -> None:
        self._sink = None
        self._containers.unwatch(self)


class SimulatedRuntime:
    """The connector that an agent uses, under the name of any runtime."""

    def __init__(self, containers: NodeContainers, name: str = RUNTIME_NAME) -> None:
        self.name = name
        self._containers = containers

    def _own(self) -> list[SimulatedContainer]:
        return [each for each in self._containers.containers.values() if each.runtime == self.name]

    async def existing_workloads(self, agent: str) -> list[Existing]:
        await self._call("list the containers")
        has_ids = self._containers.random.random() < 0.5  # podman-kube lists without ids
        return [
            Existing(each.instance_name, each.state, each.id if has_ids else None)
            for each in self._own()
            if each.instance_name.agent == agent
        ]

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> WorkloadId:
        await self._call(f"start '{spec.instance_name}'")
        if extras.reuse:
            return self._containers.start_again(extras.reuse)
        created = self._containers.create(spec.instance_name, self.name, extras.control_interface)
        await self._call(f"confirm the start of '{spec.instance_name}'", can_fail=False)
        return created

    async def workload_id(self, name: InstanceName) -> WorkloadId | None:
        await self._call(f"find '{name}'")
        return next((each.id for each in self._own() if each.instance_name == name), None)

    def start_checker(self, spec: WorkloadSpec, workload: WorkloadId, sink: StateSink) -> StateChecker:
        return SimulatedChecker(self._containers, workload, sink)

    async def delete_workload(self, workload: WorkloadId) -> None:
        await self._call(f"delete '{workload}'")
        self._containers.remove(workload, DELETED)
        await self._call(f"confirm the end of '{workload}'", can_fail=False)

    async def check_target(self, workload: WorkloadId, container: str | None = None) -> CheckTarget:
        raise RuntimeFailed("simulated containers have no processes")

    async def run_check(
        self, workload: WorkloadId, command: Sequence[str], limit: float, container: str | None = None
    ) -> CommandResult:
        """Commands succeed as long as the runtime answers."""
        await self._call(f"run a check in '{workload}'")
        return CommandResult(0)

    async def image_check(self, workload: WorkloadId) -> ExecCheck | None:
        return None

    def processes(self, workload: WorkloadId) -> list[int]:
        return []  # simulated containers use neither processors nor memory

    async def logs(self, workload: WorkloadId, options: LogOptions) -> AsyncIterator[bytes]:
        await self._call(f"read the logs of '{workload}'")
        if (container := self._containers.containers.get(workload)) is None:
            raise RuntimeFailed(f"cannot read the logs of '{workload}': no such container")
        for piece in container.output:
            yield piece

    async def was_out_of_memory(self, workload: WorkloadId) -> bool:
        del workload
        return False

    async def close(self) -> None:
        return None

    async def _call(self, what: str, *, can_fail: bool = True) -> None:
        """Each call takes time, may hang, and may fail before it has done anything."""
        random, faults = self._containers.random, self._containers.faults
        self._containers.calls += 1
        await asyncio.sleep(random.uniform(faults.shortest_call, faults.longest_call))
        loop = asyncio.get_running_loop()
        while loop.time() < faults.hangs_until:  # noqa: ASYNC110 - it may be prolonged
            await asyncio.sleep(faults.hangs_until - loop.time())
        if can_fail and random.random() < faults.failure_rate:
            raise RuntimeFailed(f"cannot {what}: simulated failure")
