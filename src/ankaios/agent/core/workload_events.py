"""The words of a workload's life: what can happen to it, and what its task can be told to do.

`workload_lifecycle.reduce` turns events into effects; the task performs effects and feeds outcomes back as events.
"""

from msgspec import Struct

from ankaios.common.execution_state import ExecutionState, HealthState
from ankaios.common.workload import InstanceName, WorkloadSpec

# Commands


class Create(Struct, frozen=True):
    """Start the workload, as a first command; with `reuse` start that container of it again."""

    reuse: str | None = None


class Resume(Struct, frozen=True):
    """It runs already: find it (unless the id is known) and watch it."""

    runtime_id: str | None = None


class Update(Struct, frozen=True):
    """Replace it by `spec`, or only make room for what is still to come."""

    spec: WorkloadSpec | None


class Delete(Struct, frozen=True):
    pass


class Restart(Struct, frozen=True):
    """Its devices changed: into a new container with what it is granted then."""


Command = Create | Resume | Update | Delete | Restart


# What happens by itself


class StateSeen(Struct, frozen=True):
    """`at` is a moment of a clock that only goes forward, in seconds."""

    turn: int
    state: ExecutionState
    at: float = 0.0


class RetryDue(Struct, frozen=True):
    """Of a retry or of a restart."""

    turn: int


class DevicesChanged(Struct, frozen=True):
    """There may be enough devices now."""


class HealthSeen(Struct, frozen=True):
    """The health checks of the running workload changed their result. `at`: as in `StateSeen`."""

    turn: int
    health: HealthState
    at: float = 0.0


Signal = StateSeen | RetryDue | DevicesChanged | HealthSeen


# Outcomes of effects


class Started(Struct, frozen=True):
    """`at`: as in `StateSeen`."""

    runtime_id: str
    at: float = 0.0


class StartFailed(Struct, frozen=True):
    """Trying again may help."""

    why: str


class StartImpossible(Struct, frozen=True):
    why: str


class StartHasNoRoom(Struct, frozen=True):
    """On the disk, for its files. Only room helps, which others make."""

    why: str


class StartBroken(Struct, frozen=True):
    """An internal error ended the start: there may be a container whose id is not known."""

    why: str


class WatchBroken(Struct, frozen=True):
    """An internal error kept the checker from its work, so nobody sees what becomes of the container."""

    why: str


class Deleted(Struct, frozen=True):
    pass


class DeleteFailed(Struct, frozen=True):
    why: str


class Identified(Struct, frozen=True):
    """None: there is no such container (any more)."""

    runtime_id: str | None


class NotIdentified(Struct, frozen=True):
    why: str


class DevicesGranted(Struct, frozen=True):
    pass


class DevicesMissing(Struct, frozen=True):
    why: str


Outcome = (
    Started
    | StartFailed
    | StartImpossible
    | StartHasNoRoom
    | StartBroken
    | WatchBroken
    | Deleted
    | DeleteFailed
    | Identified
    | NotIdentified
    | DevicesGranted
    | DevicesMissing
)
Event = Command | Signal | Outcome


# Effects


class Report(Struct, frozen=True):
    name: InstanceName
    state: ExecutionState


class ReadEnd(Struct, frozen=True):
    """Read exit code and last output of a container that has failed, for its record; the container still exists."""

    spec: WorkloadSpec
    runtime_id: str
    state: ExecutionState


class AcquireDevices(Struct, frozen=True):
    spec: WorkloadSpec


class AdoptDevices(Struct, frozen=True):
    """It was found running: what it holds is in use."""

    spec: WorkloadSpec


class ReleaseDevices(Struct, frozen=True):
    name: InstanceName


class Start(Struct, frozen=True):
    """Prepare control interface and files, then create the workload (or start `reuse`)."""

    spec: WorkloadSpec
    reuse: str | None = None


class Identify(Struct, frozen=True):
    spec: WorkloadSpec


class Watch(Struct, frozen=True):
    """Start a checker whose states carry `turn`."""

    spec: WorkloadSpec
    runtime_id: str
    turn: int


class Unwatch(Struct, frozen=True):
    """Also ends its health checks."""


class CheckHealth(Struct, frozen=True):
    """Start its health checks, whose results carry `turn`."""

    spec: WorkloadSpec
    runtime_id: str
    turn: int


class StopHealthChecks(Struct, frozen=True):
    """It does not run any more."""


class DeleteContainer(Struct, frozen=True):
    """Without an id the runtime is asked first whether there is one."""

    spec: WorkloadSpec
    runtime_id: str | None


class CloseInterface(Struct, frozen=True):
    pass


class OpenInterface(Struct, frozen=True):
    spec: WorkloadSpec


class RemoveFiles(Struct, frozen=True):
    name: InstanceName


class RemoveFolder(Struct, frozen=True):
    name: InstanceName


class ScheduleRetry(Struct, frozen=True):
    attempt: int
    turn: int


class ScheduleRestart(Struct, frozen=True):
    """After exactly this delay, in seconds."""

    delay: float
    turn: int


class CancelRetry(Struct, frozen=True):
    pass


Effect = (
    Report
    | ReadEnd
    | AcquireDevices
    | AdoptDevices
    | ReleaseDevices
    | Start
    | Identify
    | Watch
    | Unwatch
    | CheckHealth
    | StopHealthChecks
    | DeleteContainer
    | OpenInterface
    | CloseInterface
    | RemoveFiles
    | RemoveFolder
    | ScheduleRetry
    | ScheduleRestart
    | CancelRetry
)
