"""The handle of one workload: its task and its control interface.

Input: updates and deletes of the workload, responses for it. Output: commands to its task, frames to its FIFOs. The
module owns the control interface, which the task opens and closes in the order of its commands.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from ankaios.agent.core.pending_commands import instances_of, target_of
from ankaios.agent.core.workload_events import Command, Delete, DevicesChanged, Restart, Update
from ankaios.agent.workload_task import Interfaces, SharedServices, WorkloadTask
from ankaios.common.execution_state import HEALTHY, ExecutionState
from ankaios.common.pb.ank_base_pb2 import Response
from ankaios.common.supervision import Supervisor
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.runtime_connector import RuntimeConnector

if TYPE_CHECKING:
    from ankaios.agent.control_interface import ControlInterface

log = logging.getLogger(__name__)


class WorkloadObject:
    def __init__(
        self,
        spec: WorkloadSpec,
        first: Command,
        services: SharedServices,
        tasks: Supervisor,
    ) -> None:
        self._services = services
        self._tasks = tasks
        self._interface: ControlInterface | None = None
        self.predecessor: WorkloadObject | None = None
        """The old instance, which runs until this one is ready."""
        self._task = WorkloadTask(spec, first, services, Interfaces(self._open_interface, self._close_interface))

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

    def deliver(self, response: Response) -> bool:
        """Return False if this workload has no control interface.

        [impl->swdd~agent-forward-responses-to-control-interface-pipe~1]
        """
        if self._interface is None:
            return False
        self._interface.deliver(response)
        return True

    def repeat_requests(self, since: str) -> None:
        """Send the subscriptions and followed logs of the workload to the next server."""
        if self._interface is not None:
            self._interface.repeat_requests(since)

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
        """Run until the workload is removed. The FIFOs stay if only the agent ends."""
        try:
            await self._task.run()
        finally:
            if self._interface is not None:
                await self._interface.close(keep_fifos=True)

    async def _open_interface(self, spec: WorkloadSpec) -> Path | None:
        """Return the folder to mount if the workload has access rules."""
        kept = self._interface if self._interface is not None and self._interface.serves(spec) else None
        if kept is not None and kept.is_intact():
            return kept.folder
        if kept is not None:
            log.warning("'%s' replaced FIFOs of its control interface, creating them again", spec.name)
        await self._close_interface()
        if not spec.needs_control_interface:
            return None
        return self._make_interface(spec, clear=kept is not None)

    def _make_interface(self, spec: WorkloadSpec, *, clear: bool) -> Path | None:
        """Return None if it cannot be created. `clear`: remove the old content of the folder first."""
        from ankaios.agent.control_interface import ControlInterface  # loaded late: many agents do not need it

        folder = self._services.folder.control_interface(spec.instance_name)
        try:
            self._services.folder.make(spec.instance_name)
            if clear:
                self._services.folder.remove_control_interface(spec.instance_name)
            self._interface = ControlInterface(spec, folder, self._services.outbox, self._task.notified, self._tasks)
        except OSError as error:
            log.warning("'%s' starts without its control interface: %s", spec.name, error)
            return None
        return folder

    async def _close_interface(self) -> None:
        if self._interface is not None:
            interface, self._interface = self._interface, None
            await interface.close()
