"""Handles an internal error of the agent for one workload.

Input: the workload, the failed effect or event, and the reason. Output: an outcome for the life cycle, or the workload
with a planned retry. Containers that may exist stay recorded, so that none is lost or created twice. The retry performs
a command that failed.
"""

from msgspec.structs import replace

from ankaios.agent.core.workload_events import (
    AcquireDevices,
    CancelRetry,
    Delete,
    DeleteContainer,
    DeleteFailed,
    Effect,
    Event,
    Identified,
    Identify,
    Outcome,
    Report,
    Resume,
    ScheduleRetry,
    Start,
    StartBroken,
    Started,
    StartFailed,
    Update,
    Watch,
    WatchFailed,
)
from ankaios.agent.core.workload_lifecycle import Aim, BecomeEmpty, BecomeGone, Step, Workload
from ankaios.common.execution_state import FAILED_UNKNOWN


def outcome_of_error(effect: Effect, why: str) -> Outcome | None:
    """Return None if the life cycle can continue without this effect."""
    match effect:
        case Start():
            return StartBroken(why)
        case AcquireDevices():
            return StartFailed(why)
        case DeleteContainer():
            return DeleteFailed(why)
        case Identify() | Watch():
            return WatchFailed(why)
        case _:
            return None


def recover(w: Workload, event: Event, why: str) -> Step:
    """Return the workload with a planned retry after `reduce` failed for this event."""
    if w.gone and not isinstance(event, Update):
        return w, []
    known = event.runtime_id if isinstance(event, Resume | Started | Identified) else w.runtime_id
    n = w.attempts + 1
    waiting = replace(
        w,
        runtime_id=known,
        attempts=n,
        retrying=True,
        in_doubt=known is None and not (w.empty or w.gone),
        resuming=w.resuming or isinstance(event, Resume),
        aim=_aim(w, event),
        empty=False,
        gone=False,
    )
    cancel: list[Effect] = [CancelRetry()] if w.retrying else []
    report = Report(w.name, FAILED_UNKNOWN.because(f"Retry {n}: {why}"))
    return waiting, [*cancel, report, ScheduleRetry(n, w.turn)]


def _aim(w: Workload, event: Event) -> Aim | None:
    match event:
        case Update(spec):
            return spec or BecomeEmpty()
        case Delete():
            return BecomeGone()
        case _:
            return w.aim
