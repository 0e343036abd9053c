"""The words of a workload's life: what can happen to it, and what its task can be told to do.

`workload_lifecycle.reduce` turns events into effects; the task performs effects and feeds outcomes back as events.
"""

from ankaios.common.dataclass import dataclass
from ankaios.common.execution_state import ExecutionState
from ankaios.common.workload import InstanceName, WorkloadSpec

# Commands


@dataclass(frozen=True, slots=True)
class Create:
    """Start the workload, as a first command; with `reuse` start that container of it again."""

    reuse: str | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    """It runs already: find it (unless the id is known) and watch it."""

    runtime_id: str | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Replace it by `spec`, or only make room for what is still to come."""

    spec: WorkloadSpec | None


@dataclass(frozen=True, slots=True)
class Delete:
    pass


@dataclass(frozen=True, slots=True)
class Restart:
    """Its devices changed: into a new container with what it is granted then."""


Command = Create | Resume | Update | Delete | Restart


# What happens by itself


@dataclass(frozen=True, slots=True)
class StateSeen:
    turn: int
    state: ExecutionState


@dataclass(frozen=True, slots=True)
class RetryDue:
    turn: int


@dataclass(frozen=True, slots=True)
class DevicesChanged:
    """There may be enough devices now."""


Signal = StateSeen | RetryDue | DevicesChanged


# Outcomes of effects


@dataclass(frozen=True, slots=True)
class Started:
    runtime_id: str


@dataclass(frozen=True, slots=True)
class StartFailed:
    """Trying again may help."""

    why: str


@dataclass(frozen=True, slots=True)
class StartImpossible:
    why: str


@dataclass(frozen=True, slots=True)
class StartHasNoRoom:
    """On the disk, for its files. Only room helps, which others make."""

    why: str


@dataclass(frozen=True, slots=True)
class Deleted:
    pass


@dataclass(frozen=True, slots=True)
class DeleteFailed:
    why: str


@dataclass(frozen=True, slots=True)
class Identified:
    """None: there is no such container (any more)."""

    runtime_id: str | None


@dataclass(frozen=True, slots=True)
class NotIdentified:
    why: str


@dataclass(frozen=True, slots=True)
class DevicesGranted:
    pass


@dataclass(frozen=True, slots=True)
class DevicesMissing:
    why: str


Outcome = (
    Started
    | StartFailed
    | StartImpossible
    | StartHasNoRoom
    | Deleted
    | DeleteFailed
    | Identified
    | NotIdentified
    | DevicesGranted
    | DevicesMissing
)
Event = Command | Signal | Outcome


# Effects


@dataclass(frozen=True, slots=True)
class Report:
    name: InstanceName
    state: ExecutionState


@dataclass(frozen=True, slots=True)
class AcquireDevices:
    spec: WorkloadSpec


@dataclass(frozen=True, slots=True)
class AdoptDevices:
    """It was found running: what it holds is in use."""

    spec: WorkloadSpec


@dataclass(frozen=True, slots=True)
class ReleaseDevices:
    name: InstanceName


@dataclass(frozen=True, slots=True)
class Start:
    """Prepare control interface and files, then create the workload (or start `reuse`)."""

    spec: WorkloadSpec
    reuse: str | None = None


@dataclass(frozen=True, slots=True)
class Identify:
    spec: WorkloadSpec


@dataclass(frozen=True, slots=True)
class Watch:
    """Start a checker whose states carry `turn`."""

    spec: WorkloadSpec
    runtime_id: str
    turn: int


@dataclass(frozen=True, slots=True)
class Unwatch:
    pass


@dataclass(frozen=True, slots=True)
class DeleteContainer:
    spec: WorkloadSpec
    runtime_id: str


@dataclass(frozen=True, slots=True)
class CloseInterface:
    pass


@dataclass(frozen=True, slots=True)
class OpenInterface:
    spec: WorkloadSpec


@dataclass(frozen=True, slots=True)
class RemoveFiles:
    name: InstanceName


@dataclass(frozen=True, slots=True)
class RemoveFolder:
    name: InstanceName


@dataclass(frozen=True, slots=True)
class ScheduleRetry:
    attempt: int
    turn: int


@dataclass(frozen=True, slots=True)
class CancelRetry:
    pass


Effect = (
    Report
    | AcquireDevices
    | AdoptDevices
    | ReleaseDevices
    | Start
    | Identify
    | Watch
    | Unwatch
    | DeleteContainer
    | OpenInterface
    | CloseInterface
    | RemoveFiles
    | RemoveFolder
    | ScheduleRetry
    | CancelRetry
)
