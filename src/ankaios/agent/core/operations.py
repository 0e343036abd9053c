"""Operations on one workload, which planner, scheduler and manager exchange."""

from msgspec import Struct

from ankaios.common.execution_state import ExecutionState
from ankaios.common.workload import DeletedWorkload, InstanceName, WorkloadSpec


class _StartOperation(Struct, frozen=True):
    spec: WorkloadSpec

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def instance(self) -> InstanceName:
        return self.spec.instance_name


class CreateOperation(_StartOperation, frozen=True):
    """Start the workload. `reuse` is the runtime id of a finished container to restart."""

    reuse: str | None = None


class UpdateOperation(_StartOperation, frozen=True):
    """Delete the old instance when its delete conditions hold, and start the new one when its dependencies hold."""

    deleted: DeletedWorkload

    @property
    def starts_new_first(self) -> bool:
        """Two instances can exist at the same time only if they have different names."""
        wanted = self.spec.update_strategy.start_new_first
        return wanted and self.spec.instance_name != self.deleted.instance_name


class DeleteBeforeUpdate(Struct, frozen=True):
    """The delete part of an update whose create part still waits."""

    instance: InstanceName

    @property
    def name(self) -> str:
        return self.instance.workload


class DeleteOperation(Struct, frozen=True):
    deleted: DeletedWorkload

    @property
    def name(self) -> str:
        return self.deleted.instance_name.workload

    @property
    def instance(self) -> InstanceName:
        return self.deleted.instance_name


Operation = CreateOperation | UpdateOperation | DeleteBeforeUpdate | DeleteOperation
StateReport = tuple[InstanceName, ExecutionState]
