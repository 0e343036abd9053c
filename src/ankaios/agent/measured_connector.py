"""A runtime connector whose calls are counted and timed. Used only if metrics are enabled."""

from collections.abc import AsyncIterator, Awaitable, Sequence
from time import monotonic
from typing import TypeVar

from ankaios.agent.metrics import AgentMetrics
from ankaios.common.execution_state import ExecutionState
from ankaios.common.health import ExecCheck
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.runtime_connector import (
    CheckTarget,
    CommandResult,
    Existing,
    Extras,
    LogOptions,
    RuntimeConnector,
    StateChecker,
    StateSink,
    WorkloadId,
)

T = TypeVar("T")
_ENDED = ("Succeeded", "Failed")


class MeasuredConnector:
    def __init__(self, connector: RuntimeConnector, metrics: AgentMetrics) -> None:
        self.name = connector.name
        self._connector = connector
        self._metrics = metrics

    async def _measured(self, call: str, work: Awaitable[T]) -> T:
        began, result = monotonic(), "failed"
        try:
            value = await work
            result = "ok"
        finally:
            self._metrics.runtime_call(self.name, call, result, monotonic() - began)
        return value

    async def existing_workloads(self, agent: str) -> list[Existing]:
        return await self._measured("list", self._connector.existing_workloads(agent))

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> WorkloadId:
        return await self._measured("create", self._connector.create_workload(spec, extras))

    async def workload_id(self, name: InstanceName) -> WorkloadId | None:
        return await self._measured("find", self._connector.workload_id(name))

    def start_checker(self, spec: WorkloadSpec, workload: WorkloadId, sink: StateSink) -> StateChecker:
        def measured_sink(state: ExecutionState) -> None:
            if state.state in _ENDED:
                self._metrics.exit_seen(spec.instance_name)
            sink(state)

        return self._connector.start_checker(spec, workload, measured_sink)

    async def delete_workload(self, workload: WorkloadId) -> None:
        await self._measured("delete", self._connector.delete_workload(workload))

    async def check_target(self, workload: WorkloadId, container: str | None = None) -> CheckTarget:
        return await self._connector.check_target(workload, container)

    async def run_check(
        self, workload: WorkloadId, command: Sequence[str], limit: float, container: str | None = None
    ) -> CommandResult:
        return await self._measured("check", self._connector.run_check(workload, command, limit, container))

    async def image_check(self, workload: WorkloadId) -> ExecCheck | None:
        return await self._connector.image_check(workload)

    def processes(self, workload: WorkloadId) -> list[int]:
        return self._connector.processes(workload)

    def logs(self, workload: WorkloadId, options: LogOptions) -> AsyncIterator[bytes]:
        return self._connector.logs(workload, options)

    async def was_out_of_memory(self, workload: WorkloadId) -> bool:
        return await self._measured("inspect", self._connector.was_out_of_memory(workload))

    async def close(self) -> None:
        await self._connector.close()
