"""A runtime connector that is loaded at its first call, because most nodes use only one or two runtimes.

Input: a function that makes the connector. Output: all calls are forwarded to it. The module owns the connector. A list
of the workloads of a runtime that was never used is empty without loading the connector.
"""

from collections.abc import AsyncIterator, Callable, Sequence

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


class OnDemand:
    def __init__(
        self, name: str, make: Callable[[], RuntimeConnector], is_unused: Callable[[], bool] = lambda: False
    ) -> None:
        """`is_unused`: there is certainly no workload of this runtime."""
        self.name = name
        self._make = make
        self._is_unused = is_unused
        self._made: RuntimeConnector | None = None

    def load(self) -> RuntimeConnector:
        if self._made is None:
            self._made = self._make()
        return self._made

    async def existing_workloads(self, agent: str) -> list[Existing]:
        if self._made is None and self._is_unused():
            return []
        return await self.load().existing_workloads(agent)

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> WorkloadId:
        return await self.load().create_workload(spec, extras)

    async def workload_id(self, name: InstanceName) -> WorkloadId | None:
        return await self.load().workload_id(name)

    def start_checker(self, name: InstanceName, workload: WorkloadId, sink: StateSink) -> StateChecker:
        return self.load().start_checker(name, workload, sink)

    async def delete_workload(self, workload: WorkloadId) -> None:
        await self.load().delete_workload(workload)

    async def check_target(self, workload: WorkloadId, container: str | None = None) -> CheckTarget:
        return await self.load().check_target(workload, container)

    async def run_check(
        self, workload: WorkloadId, command: Sequence[str], limit: float, container: str | None = None
    ) -> CommandResult:
        return await self.load().run_check(workload, command, limit, container)

    async def image_check(self, workload: WorkloadId) -> ExecCheck | None:
        return await self.load().image_check(workload)

    def processes(self, workload: WorkloadId) -> list[int]:
        return [] if self._made is None else self._made.processes(workload)

    def logs(self, workload: WorkloadId, options: LogOptions) -> AsyncIterator[bytes]:
        return self.load().logs(workload, options)

    async def was_out_of_memory(self, workload: WorkloadId) -> bool:
        return await self.load().was_out_of_memory(workload)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()
