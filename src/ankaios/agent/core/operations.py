"""What the server's lists come down to for one workload: the words that planner, scheduler and manager share."""

from ankaios.common.dataclass import dataclass
from ankaios.common.execution_state import ExecutionState
from ankaios.common.workload import DeletedWorkload, InstanceName, WorkloadSpec


@dataclass(frozen=True, slots=True)
class Create:
    """Start it. `reuse` is the runtime id of a finished one that is to be started again."""

    spec: WorkloadSpec
    reuse: str | None = None

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class Update:
    """Replace the deleted instance, once its delete conditions hold, by the new one, once its dependencies hold."""

    spec: WorkloadSpec
    deleted: DeletedWorkload

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class Vacate:
    """The delete part of an update whose create part still waits."""

    instance: InstanceName

    @property
    def name(self) -> str:
        return self.instance.workload


@dataclass(frozen=True, slots=True)
class Delete:
    deleted: DeletedWorkload

    @property
    def name(self) -> str:
        return self.deleted.instance_name.workload


Operation = Create | Update | Vacate | Delete
StateReport = tuple[InstanceName, ExecutionState]
