"""The events and effects of a workload.

`workload_lifecycle.reduce` turns events into effects. The task performs effects and returns their outcomes as events.
"""

from msgspec import Struct

from ankaios.common.execution_state import ExecutionState, HealthState
from ankaios.common.workload import InstanceName, WorkloadSpec

# Commands


class Create(Struct, frozen=True):
    """Start the workload, as a first command; with `reuse`, restart this container."""

    reuse: str | None = None


class Resume(Struct, frozen=True):
    """The workload already runs: find it (unless the id is known) and watch it."""

    runtime_id: str | None = None


class Update(Struct, frozen=True):
    """Replace the workload by `spec`; None: only delete it, and wait for its successor."""

    spec: WorkloadSpec | None


class Delete(Struct, frozen=True):
    pass


class Restart(Struct, frozen=True):
    """Start the workload in a new container with new grants, because its devices changed."""


Command = Create | Resume | Update | Delete | Restart


# Signals: events that no command causes


class StateSeen(Struct, frozen=True):
    """`at` is the time of a monotonic clock in seconds."""

    turn: int
    state: ExecutionState
    at: float = 0.0


class RetryDue(Struct, frozen=True):
    """The pause before a retry or a restart is over."""

    turn: int


class DevicesChanged(Struct, frozen=True):
    """Enough devices may be available now."""


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
    """A retry may succeed."""

    why: str


class StartImpossible(Struct, frozen=True):
    why: str


class StartLacksSpace(Struct, frozen=True):
    """The disk is full. A retry succeeds when there is space again."""

    why: str


class StartBroken(Struct, frozen=True):
    """An internal error ended the start: a container with an unknown id may exist."""

    why: str


class WatchFailed(Struct, frozen=True):
    """The container could not be looked up or watched, so its state is unknown."""

    why: str


class Deleted(Struct, frozen=True):
    pass


class DeleteFailed(Struct, frozen=True):
    why: str


class Identified(Struct, frozen=True):
    """`runtime_id` is None if the container does not exist."""

    runtime_id: str | None


class DevicesGranted(Struct, frozen=True):
    pass


class DevicesMissing(Struct, frozen=True):
    why: str


Outcome = (
    Started
    | StartFailed
    | StartImpossible
    | StartLacksSpace
    | StartBroken
    | WatchFailed
    | Deleted
    | DeleteFailed
    | Identified
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
    """The workload was found running: its devices are in use."""

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
    """Start a checker whose states have this `turn`."""

    spec: WorkloadSpec
    runtime_id: str
    turn: int


class Unwatch(Struct, frozen=True):
    """Stop the checker and the health checks."""


class CheckHealth(Struct, frozen=True):
    """Start the health checks, whose results have this `turn`."""

    spec: WorkloadSpec
    runtime_id: str
    turn: int


class StopHealthChecks(Struct, frozen=True):
    """Stop the health checks, because the workload does not run any more."""


class DeleteContainer(Struct, frozen=True):
    """Without an id, the container is looked up by its name first."""

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
    """Restart after exactly this delay, in seconds."""

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
