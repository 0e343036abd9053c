"""Internal errors of a workload: containers stay recorded, and every command is finally performed."""

import pytest

from ankaios.agent.core.workload_events import (
    AcquireDevices,
    CancelRetry,
    CloseInterface,
    Command,
    Create,
    Delete,
    DeleteContainer,
    Deleted,
    DeleteFailed,
    Effect,
    Event,
    Identified,
    Identify,
    OpenInterface,
    ReleaseDevices,
    RemoveFiles,
    RemoveFolder,
    Report,
    Resume,
    RetryDue,
    ScheduleRetry,
    Start,
    StartBroken,
    Started,
    StartFailed,
    StateSeen,
    Unwatch,
    Update,
    Watch,
    WatchFailed,
)
from ankaios.agent.core.workload_lifecycle import BecomeGone, Workload, reduce
from ankaios.agent.core.workload_recovery import outcome_of_error, recover
from ankaios.common.execution_state import FAILED_UNKNOWN, RUNNING_OK
from tests.support.builders import a_workload

WEB, WEB2 = a_workload(config="image: one"), a_workload(config="image: two")
NAME = WEB.instance_name
RUNNING = Workload(WEB, runtime_id="c1", turn=1, watching=True)
BROKEN = Report(NAME, FAILED_UNKNOWN.because("Retry 1: a bug"))


@pytest.mark.parametrize(
    ("effect", "outcome"),
    [
        (Start(WEB), StartBroken("a bug")),
        (AcquireDevices(WEB), StartFailed("a bug")),
        (DeleteContainer(WEB, "c1"), DeleteFailed("a bug")),
        (Identify(WEB), WatchFailed("a bug")),
        (Watch(WEB, "c1", 1), WatchFailed("a bug")),
        (Unwatch(), None),
        (OpenInterface(WEB), None),
        (CloseInterface(), None),
        (ReleaseDevices(NAME), None),
        (RemoveFiles(NAME), None),
        (RemoveFolder(NAME), None),
        (ScheduleRetry(1, 1), None),
        (BROKEN, None),
    ],
)
def test_every_effect_that_is_waited_for_has_an_outcome(effect: Effect, outcome: Event | None) -> None:
    assert outcome_of_error(effect, "a bug") == outcome


@pytest.mark.parametrize(
    ("before", "event", "next_effects"),
    [
        (Workload(WEB), Create(), [DeleteContainer(WEB, None)]),
        (Workload(WEB), Resume("c1"), [Watch(WEB, "c1", 1)]),
        (Workload(WEB), Resume(None), [Identify(WEB)]),
        (Workload(WEB), Started("c1"), [Watch(WEB, "c1", 1)]),
        (Workload(WEB, resuming=True, in_doubt=True), Identified("c1"), [Watch(WEB, "c1", 1)]),
        (RUNNING, StateSeen(1, RUNNING_OK), [Watch(WEB, "c1", 2)]),
        (RUNNING, Delete(), [DeleteContainer(WEB, "c1")]),
        (RUNNING, Update(WEB2), [DeleteContainer(WEB, "c1")]),
        (Workload(WEB, runtime_id="c1", aim=BecomeGone()), Deleted(), [DeleteContainer(WEB, "c1")]),
        (Workload(WEB, empty=True), Update(WEB2), [DeleteContainer(WEB, None)]),
        (Workload(WEB, gone=True), Update(WEB2), [DeleteContainer(WEB, None)]),
    ],
)
def test_a_failed_decision_is_retried(before: Workload, event: Event, next_effects: list[Effect]) -> None:
    w, effects = recover(before, event, "a bug")
    assert effects == [BROKEN, ScheduleRetry(1, before.turn)]
    assert reduce(w, RetryDue(w.turn))[1] == next_effects


@pytest.mark.parametrize("command", [Delete(), Update(WEB2), Update(None)])
def test_a_command_is_performed_with_the_retry(command: Command) -> None:
    expected = reduce(reduce(RUNNING, command)[0], Deleted())
    w, _ = recover(RUNNING, command, "a bug")
    w, _ = reduce(w, RetryDue(w.turn))
    again = reduce(w, Deleted())
    assert (again[0], again[1]) == expected


def test_the_pause_grows_and_an_earlier_one_is_cancelled() -> None:
    w, _ = recover(RUNNING, StateSeen(1, RUNNING_OK), "a bug")
    w, effects = recover(w, RetryDue(1), "a bug")
    again = Report(NAME, FAILED_UNKNOWN.because("Retry 2: a bug"))
    assert effects == [CancelRetry(), again, ScheduleRetry(2, 1)]


def test_nothing_is_retried_for_a_deleted_workload() -> None:
    gone = Workload(WEB, gone=True)
    assert recover(gone, Delete(), "a bug") == (gone, [])
