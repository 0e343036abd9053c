"""The state machine of one workload.

Input: commands, outcomes of effects, and states of the checker. Output: effects. The task of the workload performs them
in order, and passes each outcome back before it takes the next command. The module owns the state of the task.
"""

from msgspec import Struct
from msgspec.structs import replace

from ankaios.agent.core.health import with_health
from ankaios.agent.core.restart_policy import RestartHistory, needs_restart, plan_restart, with_restart
from ankaios.agent.core.workload_events import (
    AcquireDevices,
    AdoptDevices,
    CancelRetry,
    CheckHealth,
    CloseInterface,
    Command,
    Create,
    Delete,
    DeleteContainer,
    Deleted,
    DeleteFailed,
    DevicesChanged,
    DevicesGranted,
    DevicesMissing,
    Effect,
    Event,
    HealthSeen,
    Identified,
    Identify,
    OpenInterface,
    Outcome,
    ReadEnd,
    ReleaseDevices,
    RemoveFiles,
    RemoveFolder,
    Report,
    Restart,
    Resume,
    RetryDue,
    ScheduleRestart,
    ScheduleRetry,
    Signal,
    Start,
    StartBroken,
    Started,
    StartFailed,
    StartImpossible,
    StartLacksSpace,
    StateSeen,
    StopHealthChecks,
    Unwatch,
    Update,
    Watch,
    WatchFailed,
)
from ankaios.common.execution_state import (
    FAILED_EXEC_FAILED,
    FAILED_LOST,
    FAILED_UNKNOWN,
    PENDING_STARTING,
    PENDING_STARTING_FAILED,
    PENDING_WAITING_TO_START,
    REMOVED,
    RUNNING_OK,
    STARTING,
    STOPPING_DELETE_FAILED,
    STOPPING_REQUESTED_AT_RUNTIME,
    SUCCEEDED_OK,
    TRIGGERED_AT_RUNTIME,
    UNHEALTHY,
    ExecutionState,
    HealthState,
)
from ankaios.common.growing_delay import growing_delay
from ankaios.common.health import OnUnhealthy
from ankaios.common.workload import InstanceName, WorkloadSpec

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 300.0
# From this failure on the pauses stop growing while a deletion fails, a state is unknown, or the disk is full.
LAST_SLOWER_TRY = 5


class BecomeEmpty(Struct, frozen=True):
    """Aim of a delete: the task stays and waits for the successor of the workload."""


class BecomeGone(Struct, frozen=True):
    """Aim of a delete: the workload is removed and the task ends."""


class BecomeAgain(Struct, frozen=True):
    """Aim of a delete: start the same workload in a new container with the same devices. `why` is reported."""

    why: str = ""


class BecomeStopped(Struct, frozen=True):
    """Aim of a delete: the workload has failed for this reason and is not restarted."""

    why: str


class TryAgain(Struct, frozen=True):
    """Aim of a delete: retry the start after a container of an earlier attempt is removed."""


Aim = WorkloadSpec | BecomeEmpty | BecomeGone | BecomeAgain | BecomeStopped | TryAgain


class Workload(Struct, frozen=True):
    """One workload name on this agent.

    `turn` numbers checkers and retries; events with an older number are stale. `aim` is the purpose of a delete that is
    running or will be retried; the workload is not restarted meanwhile. `in_doubt`: the id is unknown, but a container
    may exist; `resuming`: the container is expected to run. `alive_since` is the time when the container was started,
    or first reported as running. `ended` is the state in which the workload ended, or was unhealthy, while it waits for
    its restart. `running` is the running state of the checker, without the health.
    """

    spec: WorkloadSpec
    runtime_id: str | None = None
    attempts: int = 0
    turn: int = 0
    watching: bool = False
    retrying: bool = False
    lacks_devices: bool = False
    in_doubt: bool = False
    resuming: bool = False
    aim: Aim | None = None
    empty: bool = False
    gone: bool = False
    alive_since: float | None = None
    ended: ExecutionState | None = None
    history: RestartHistory = RestartHistory()
    running: ExecutionState | None = None
    health: HealthState | None = None

    @property
    def name(self) -> InstanceName:
        return self.spec.instance_name


Step = tuple[Workload, list[Effect]]


def reduce(w: Workload, event: Event) -> Step:
    """Return the new state of the workload and the effects of one event."""
    match event:
        case Create() | Resume() | Update() | Delete() | Restart():
            return _command(w, event)
        case StateSeen() | RetryDue() | DevicesChanged() | HealthSeen():
            return _signal(w, event)
        case _:
            return _outcome(w, event)


def _command(w: Workload, command: Command) -> Step:
    match command:
        case Create(reuse):
            return _create(w, reuse)
        case Resume(runtime_id):
            return _resume(w, runtime_id)
        case Update(spec):
            return _update(w, spec)
        case Delete():
            return _delete(w)
        case Restart() if w.retrying and w.ended is None:
            again, effects = _try_again(w)
            return again, [CancelRetry(), *effects]
        case Restart():
            return (w, []) if w.runtime_id is None else _vacate(w, w.spec)


def _signal(w: Workload, signal: Signal) -> Step:
    match signal:
        case StateSeen(turn, state, at) if w.watching and turn == w.turn:
            return _seen(w, state, at)
        case HealthSeen(turn, health, at) if w.watching and turn == w.turn and w.running is not None and not w.aim:
            return _health_seen(w, w.running, health, at)
        case RetryDue(turn) if w.retrying and turn == w.turn:
            return _try_again(w)
        case DevicesChanged() if w.lacks_devices:
            return w, [AcquireDevices(w.spec)]
        case _:
            return w, []  # stale: of an earlier container, retry or wait


def _outcome(w: Workload, outcome: Outcome) -> Step:
    match outcome:
        case Started(runtime_id, at):
            return _watch(replace(w, attempts=0, alive_since=at), runtime_id)
        case StartFailed(why):
            n = w.attempts + 1
            return _retry(w, PENDING_STARTING.because(f"Retry {n}: {why}"), n)
        case StartImpossible(why):
            failed = Report(w.name, PENDING_STARTING_FAILED.because(why))
            return replace(w, runtime_id=None), [RemoveFiles(w.name), *_release(w.spec), failed]
        case StartLacksSpace(why):
            # Reported like files that can never be written, but retried, so that it starts when the disk has space.
            return _retry(w, PENDING_STARTING_FAILED.because(why), min(w.attempts + 1, LAST_SLOWER_TRY))
        case StartBroken(why):
            return _retry_in_doubt(w, why)
        case WatchFailed(why):
            return _retry_watch(w, why)
        case Deleted():
            return _deleted(w)
        case DeleteFailed(why):
            return _delete_again(w, why)
        case Identified(found):
            known = replace(w, resuming=False)
            return _not_found(known) if found is None else _watch(replace(known, in_doubt=False), found)
        case DevicesGranted() if w.attempts and not w.lacks_devices:
            return w, [Start(w.spec)]  # the retry is already reported
        case DevicesGranted():
            return _launch(replace(w, lacks_devices=False))
        case DevicesMissing(why):
            waiting = Report(w.name, PENDING_WAITING_TO_START.because(why))
            return replace(w, lacks_devices=True), [waiting]


def _create(w: Workload, reuse: str | None) -> Step:
    """Reuse a container only without devices: its devices may be allocated to other workloads by now."""
    if reuse is None:
        return _begin(w)
    return _vacate(replace(w, runtime_id=reuse), BecomeAgain()) if w.spec.resources else _launch(w, reuse)


def _begin(w: Workload, why: str = "") -> Step:
    """Acquire the devices, or start a workload without devices.

    The instance name becomes part of paths and container names, so a workload with an invalid name is not started.
    """
    if InstanceName.parse(str(w.name)) != w.name:
        why = f"'{w.name}' is not a valid name of a workload instance"
        return w, [Report(w.name, PENDING_STARTING_FAILED.because(why))]
    return (w, [AcquireDevices(w.spec)]) if w.spec.resources else _launch(w, why=why)


def _resume(w: Workload, runtime_id: str | None) -> Step:
    known, effects = _identify(w) if runtime_id is None else _watch(w, runtime_id)
    adopt: list[Effect] = [AdoptDevices(w.spec)] if w.spec.resources else []
    return known, [OpenInterface(w.spec), *adopt, *effects]


def _identify(w: Workload) -> Step:
    return replace(w, retrying=False, in_doubt=True, resuming=True), [Identify(w.spec)]


def _not_found(w: Workload) -> Step:
    """Handle a container that is gone since the agent has listed it as one that is lost later.

    A restart looks for a container of this name once more before it creates one.
    """
    if needs_restart(w.spec.restart_policy, FAILED_LOST):
        return _ended(w, FAILED_LOST, at=0.0)
    return replace(w, in_doubt=False), [Report(w.name, FAILED_LOST), *_release_ended(w.spec, FAILED_LOST)]


def _launch(w: Workload, reuse: str | None = None, why: str = "") -> Step:
    text = f"{TRIGGERED_AT_RUNTIME} It was {why}" if why else TRIGGERED_AT_RUNTIME
    return w, [Report(w.name, PENDING_STARTING.because(text)), Start(w.spec, reuse)]


def _watch(w: Workload, runtime_id: str) -> Step:
    """Start a checker with a new `turn`; states of older checkers are stale."""
    watched = replace(w, runtime_id=runtime_id, turn=w.turn + 1, watching=True, running=None, health=None)
    return watched, [Watch(w.spec, runtime_id, watched.turn)]


def _retry(w: Workload, state: ExecutionState, pause: int) -> Step:
    """Retry a failed create without limit. The workload can be updated or deleted meanwhile.

    Its devices are released during the pauses.
    [impl->swdd~agent-workload-task-update-create-failed-allows-retry~1]
    """
    turn = w.turn + 1
    retrying = replace(w, runtime_id=None, attempts=w.attempts + 1, turn=turn, retrying=True)
    return retrying, [RemoveFiles(w.name), *_release(w.spec), Report(w.name, state), ScheduleRetry(pause, turn)]


def _retry_in_doubt(w: Workload, why: str) -> Step:
    """Retry a start that may have left a container: keep devices and files until no container exists."""
    n, turn = w.attempts + 1, w.turn + 1
    doubtful = replace(w, runtime_id=None, attempts=n, turn=turn, retrying=True, in_doubt=True)
    return doubtful, [Report(w.name, FAILED_UNKNOWN.because(f"Retry {n}: {why}")), ScheduleRetry(n, turn)]


def _retry_watch(w: Workload, why: str) -> Step:
    """Retry to watch a workload whose state is unknown, and change nothing else."""
    n = w.attempts + 1
    unseen = Report(w.name, FAILED_UNKNOWN.because(f"Retry {n}: {why}"))
    return replace(w, attempts=n, retrying=True), [unseen, ScheduleRetry(min(n, LAST_SLOWER_TRY), w.turn)]


def _delete_again(w: Workload, why: str) -> Step:
    """Keep the id and retry the delete until it succeeds or the next command replaces it.

    [impl->swdd~agent-workload-task-update-delete-failed-allows-retry~1]
    [impl->swdd~agent-workload-task-delete-failed-allows-retry~1]
    """
    n = w.attempts + 1
    starts = isinstance(w.aim, TryAgain)
    failed = Report(
        w.name, FAILED_UNKNOWN.because(f"Retry {n}: {why}") if starts else STOPPING_DELETE_FAILED.because(why)
    )
    return replace(w, attempts=n, retrying=True), [failed, ScheduleRetry(min(n, LAST_SLOWER_TRY), w.turn)]


def _try_again(w: Workload) -> Step:
    again = replace(w, retrying=False)
    if w.aim is not None:  # the delete failed
        return again, [DeleteContainer(w.spec, w.runtime_id)]
    if w.ended is not None:
        return _restart(again, w.ended)
    if w.runtime_id is not None:
        return _watch(again, w.runtime_id)
    if w.resuming:
        return _identify(again)
    if w.in_doubt:
        return replace(again, aim=TryAgain()), [DeleteContainer(w.spec, None)]
    return _start_again(again)


def _start_again(w: Workload) -> Step:
    """Start without a report: the retry was reported with the failure."""
    return w, [AcquireDevices(w.spec) if w.spec.resources else Start(w.spec)]


def _seen(w: Workload, state: ExecutionState, at: float) -> Step:
    """Report the state, then restart if the policy requires it. Dependencies are not checked for a restart."""
    w = w if w.aim else replace(w, attempts=0)
    if state.is_same(RUNNING_OK):
        return _runs(w, state, at)
    checks: list[Effect] = [StopHealthChecks()] if w.running is not None and w.spec.health else []
    was_unhealthy = w.ended is not None and w.ended.is_same(RUNNING_OK)
    w = replace(w, running=None, health=None)
    if not w.aim and w.runtime_id is not None and needs_restart(w.spec.restart_policy, state):
        ended, effects = _ended(w, state, at)
        return ended, [*checks, *effects]
    if was_unhealthy:  # it ended before its restart was due
        checks.append(CancelRetry())
        w = replace(w, retrying=False, ended=None)
    return w, [*checks, Report(w.name, state), *_release_ended(w.spec, state), *_read_end(w, state)]


def _runs(w: Workload, state: ExecutionState, at: float) -> Step:
    checks: list[Effect] = []
    if w.running is None and w.spec.health and w.runtime_id is not None and not w.aim:
        checks = [CheckHealth(w.spec, w.runtime_id, w.turn)]
        w = replace(w, health=HealthState(STARTING))
    w = replace(w, running=state)
    effects: list[Effect] = [Report(w.name, with_health(state, w.health)), *checks]
    if w.ended is not None and not w.ended.is_same(RUNNING_OK):  # a user has started it meanwhile
        return replace(w, retrying=False, ended=None, alive_since=at), [CancelRetry(), *effects]
    return (replace(w, alive_since=at) if w.alive_since is None else w), effects


def _health_seen(w: Workload, running: ExecutionState, health: HealthState, at: float) -> Step:
    """Report the health, and restart or stop an unhealthy workload as configured."""
    w, state = replace(w, health=health), with_health(running, health)
    action = w.spec.health.on_unhealthy if w.spec.health else OnUnhealthy.NONE
    if health.status != UNHEALTHY or action is OnUnhealthy.NONE:
        if w.ended is None:
            return w, [Report(w.name, state)]
        # It has recovered before its restart was due.
        planned = RestartHistory(w.history.restarts - 1, w.history.short_lives)
        return replace(w, retrying=False, ended=None, history=planned), [CancelRetry(), Report(w.name, state)]
    if action is OnUnhealthy.STOP:
        why = f"unhealthy: {health.text}"
        stopping, effects = _vacate(w, BecomeStopped(why), why)
        return stopping, [Report(w.name, state), *effects]
    return _ended(w, state, at)


def _release_ended(spec: WorkloadSpec, state: ExecutionState) -> list[Effect]:
    """Release the devices of an ended workload. In an unknown state, it may still use them."""
    is_over = state.state in (SUCCEEDED_OK.state, FAILED_LOST.state) and not state.is_same(FAILED_UNKNOWN)
    return _release(spec) if is_over else []


def _ended(w: Workload, state: ExecutionState, at: float) -> Step:
    """Restart now or after a delay. The ended container is kept until then, so that users can inspect it."""
    if w.ended is not None:
        return replace(w, ended=state), [_announce_restart(w, state)]
    lived = 0.0 if w.alive_since is None else at - w.alive_since
    history, delay = plan_restart(w.history, lived)
    ended = replace(w, history=history)
    if delay == 0:
        again, effects = _restart(ended, state)
        return again, [Report(w.name, state), *_read_end(w, state), *effects]
    cancel: list[Effect] = [CancelRetry()] if w.retrying else []
    waiting = replace(ended, ended=state, retrying=True)
    announced = [_announce_restart(waiting, state), ScheduleRestart(delay, w.turn)]
    return waiting, [*cancel, *announced, *_read_end(w, state)]


def _read_end(w: Workload, state: ExecutionState) -> list[Effect]:
    """Read details of a failed workload, unless its container is being deleted."""
    if w.aim or w.runtime_id is None or not state.is_same(FAILED_EXEC_FAILED):
        return []
    return [ReadEnd(w.spec, w.runtime_id, state)]


def _announce_restart(w: Workload, state: ExecutionState) -> Effect:
    return Report(w.name, with_restart(state, w.history))


def _restart(w: Workload, state: ExecutionState) -> Step:
    """Restart the same container after a success, and a new container in all other cases."""
    w = replace(w, ended=None, alive_since=None)
    if state.is_same(RUNNING_OK) and state.health is not None:
        why = f"unhealthy: {state.health.text}"
        return _vacate(w, BecomeAgain(why), why)
    if not state.is_same(SUCCEEDED_OK) or w.runtime_id is None:
        return _vacate(w, BecomeAgain())
    again, effects = _create(replace(w, watching=False), w.runtime_id)
    return again, [Unwatch(), *effects]


def _update(w: Workload, spec: WorkloadSpec | None) -> Step:
    """Replace the workload, or delete it before its successor starts.

    [impl->swdd~agent-workload-task-executes-update~1]
    [impl->swdd~agent-workload-tasks-executes-update~1]
    """
    if not w.gone:
        return _vacate(w, spec or BecomeEmpty())
    return (w, []) if spec is None else _begin(Workload(spec, turn=w.turn))


def _delete(w: Workload) -> Step:
    """Delete the workload.

    [impl->swdd~agent-workload-tasks-executes-delete~1]
    """
    if w.gone:
        return w, []
    if w.empty:  # its removal was already reported
        return replace(w, gone=True), [CloseInterface(), RemoveFolder(w.name)]
    return _vacate(w, BecomeGone())


def _vacate(w: Workload, aim: Aim, why: str = "") -> Step:
    """Report that the workload stops, then delete the container if one exists.

    Without a container the workload does not run, so the command continues as after a successful delete.
    [impl->swdd~agent-workload-task-update-broken-allowed~1]
    [impl->swdd~agent-workload-task-delete-broken-allowed~1]
    """
    effects: list[Effect] = [Report(w.name, STOPPING_REQUESTED_AT_RUNTIME.because(why))]
    if w.spec.health:
        effects.append(StopHealthChecks())
    if w.retrying:
        effects.append(CancelRetry())
    if not _keeps_interface(w.spec, aim):
        effects.append(CloseInterface())
    if isinstance(w.aim, WorkloadSpec) and w.aim.instance_name not in (w.name, _instance(aim)):
        effects.append(Report(w.aim.instance_name, REMOVED))  # never started: its predecessor could not be deleted
    stopping = replace(
        w, retrying=False, lacks_devices=False, resuming=False, ended=None, running=None, health=None, aim=aim
    )
    if w.runtime_id is None and not w.in_doubt:
        stopped, more = _deleted(stopping)
        return stopped, effects + more
    return stopping, [*effects, DeleteContainer(w.spec, w.runtime_id)]


def _instance(aim: Aim) -> InstanceName | None:
    return aim.instance_name if isinstance(aim, WorkloadSpec) else None


def _keeps_interface(spec: WorkloadSpec, aim: Aim) -> bool:
    """Return whether the control interface stays open. Changed access rules take effect before the container ends."""
    match aim:
        case WorkloadSpec():
            return (aim.instance_name, aim.access) == (spec.instance_name, spec.access)
        case BecomeAgain() | TryAgain():
            return True
        case BecomeEmpty() | BecomeGone() | BecomeStopped():
            return False


def _deleted(w: Workload) -> Step:
    """Clean up after the delete, report it, and continue with the aim of the delete."""
    unwatch: list[Effect] = [Unwatch()] if w.watching else []
    removed = Report(w.name, REMOVED)
    match w.aim:
        case WorkloadSpec() as spec:
            moved = spec.instance_name != w.name
            tidy: Effect = RemoveFolder(w.name) if moved else RemoveFiles(w.name)
            new, effects = _begin(Workload(spec, turn=w.turn))
            return new, [*unwatch, tidy, *_release(w.spec), removed, *effects]
        case BecomeAgain(why):
            again, effects = _begin(Workload(w.spec, turn=w.turn, history=w.history), why)
            return again, [*unwatch, RemoveFiles(w.name), removed, *effects]
        case BecomeStopped(why):
            stopped = Workload(w.spec, turn=w.turn, history=w.history)
            failed = Report(w.name, FAILED_EXEC_FAILED.because(f"Stopped, {why}"))
            return stopped, [*unwatch, RemoveFiles(w.name), *_release(w.spec), removed, failed]
        case TryAgain():
            sure, effects = _start_again(replace(w, runtime_id=None, watching=False, in_doubt=False, aim=None))
            return sure, [*unwatch, RemoveFiles(w.name), *effects]
        case BecomeEmpty():
            # Also without resources in the spec: that of a container from before a restart does not contain them.
            empty = Workload(w.spec, turn=w.turn, empty=True)
            return empty, [*unwatch, RemoveFiles(w.name), ReleaseDevices(w.name), removed]
        case BecomeGone():
            gone = Workload(w.spec, turn=w.turn, gone=True)
            return gone, [*unwatch, RemoveFolder(w.name), *_release(w.spec), removed]
        case None:
            raise AssertionError("a container was deleted without reason")


def _release(spec: WorkloadSpec) -> list[Effect]:
    return [ReleaseDevices(spec.instance_name)] if spec.resources else []


def retry_limit(attempt: int) -> float:
    """Return the longest pause, in seconds, before the next attempt after failure number `attempt`."""
    return growing_delay(attempt, FIRST_PAUSE, LONGEST_PAUSE)
