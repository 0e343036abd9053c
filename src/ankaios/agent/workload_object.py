"""The handle of one workload.

Input: updates and deletes of the workload. Output: commands to its task, and what is known about the workload. Owns the
task, and the old instance of the workload while the new one starts.
"""

from ankaios.agent.core.pending_commands import instances_of, target_of
from ankaios.agent.core.workload_events import Command, Delete, DevicesChanged, Restart, Update
from ankaios.agent.workload_task import SharedServices, WorkloadTask
from ankaios.common.execution_state import HEALTHY, ExecutionState
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.runtime_connector import RuntimeConnector


class WorkloadObject:
    def __init__(self, spec: WorkloadSpec, first: Command, services: SharedServices) -> None:
        self._services = services
        self.predecessor: WorkloadObject | None = None
        """The old instance, which runs until this one is ready."""
        self._task = WorkloadTask(spec, first, services)
        self.interface = self._task.interface

    @property
    def target(self) -> WorkloadSpec | None:
        """The specification after all pending commands; None after a delete."""
        return target_of(self._task.workload, self._task.commands)

    @property
    def current(self) -> InstanceName:
        return self._task.workload.name

    @property
    def instances(self) -> set[InstanceName]:
        """All instances of which containers may exist, including those of the predecessor."""
        own = {name for name, _ in instances_of(self._task.workload, self._task.commands)}
        return own | self.predecessor.instances if self.predecessor is not None else own

    def owns(self, name: InstanceName, runtime: str | None = None) -> bool:
        """Return whether the task manages containers of this instance, in this or any runtime."""
        if self.predecessor is not None and self.predecessor.owns(name, runtime):
            return True
        instances = instances_of(self._task.workload, self._task.commands)
        return any(name == own and runtime in (None, used) for own, used in instances)

    @property
    def last_state(self) -> ExecutionState | None:
        """The last state that the task reported for the current instance, before transition rules were applied."""
        last = self._task.last_report
        return last[1] if last and last[0] == self.current else None

    def update(self, spec: WorkloadSpec | None) -> None:
        """Replace the workload and, if its access rules or its name change, its FIFOs.

        [impl->swdd~agent-workload-obj-update-command~1]
        """
        self._task.command(Update(spec))

    def delete(self) -> None:
        """Delete the workload and its FIFOs.

        [impl->swdd~agent-workload-obj-delete-command~1]
        """
        self.end_predecessor()
        self._task.command(Delete())

    def end_predecessor(self) -> None:
        """Delete the old instance."""
        if self.predecessor is not None:
            predecessor, self.predecessor = self.predecessor, None
            predecessor.delete()

    def is_ready(self, name: InstanceName, state: ExecutionState) -> bool:
        """Return whether the instance is ready in this state, so that its predecessor can be deleted."""
        if name != self.current or self._task.workload.spec.instance_name != name:
            return False
        if state.state == "Succeeded":
            return True
        needs_health = self._task.workload.spec.health is not None
        healthy = state.health is not None and state.health.status == HEALTHY
        return state.state == "Running" and (healthy or not needs_health)

    def restart(self) -> None:
        self._task.command(Restart())

    @property
    def lacks_devices(self) -> bool:
        return self._task.workload.lacks_devices

    def claim_devices(self) -> None:
        self._task.signal(DevicesChanged())

    def log_source(self) -> tuple[RuntimeConnector, str] | None:
        """Return the connector and the current id; None while no container exists."""
        workload = self._task.workload
        connector = self._services.connectors.get(workload.spec.runtime)
        if connector is None or workload.runtime_id is None:
            return None
        return connector, workload.runtime_id

    def processes(self) -> list[int]:
        """Return the first processes of its containers, as far as known."""
        source = self.log_source()
        return source[0].processes(source[1]) if source is not None else []

    async def run(self) -> None:
        """Run until the workload is removed."""
        await self._task.run()
