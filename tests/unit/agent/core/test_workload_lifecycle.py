"""The effects of each event on one workload, and invariants for any order of events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ankaios.agent.core.restart_policy import RestartHistory
from ankaios.agent.core.workload_events import (
    AcquireDevices,
    CancelRetry,
    CloseInterface,
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
    Identified,
    Identify,
    OpenInterface,
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
from ankaios.agent.core.workload_lifecycle import (
    Workload,
    reduce,
    retry_limit,
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
    STOPPING_DELETE_FAILED,
    STOPPING_REQUESTED_AT_RUNTIME,
    SUCCEEDED_OK,
    TRIGGERED_AT_RUNTIME,
    ExecutionState,
    exited,
)
from ankaios.common.workload import (
    ControlInterfaceAccess,
    InstanceName,
    LogRule,
    ResourceRequest,
    RestartPolicy,
    WorkloadSpec,
)
from tests.support.builders import a_workload
from tests.support.examples import examples

WEB = a_workload(config="image: one")
WEB2 = a_workload(config="image: two")
NAME, NAME2 = WEB.instance_name, WEB2.instance_name
STARTING = PENDING_STARTING.because(TRIGGERED_AT_RUNTIME)
RUNNING = Workload(WEB, runtime_id="c1", turn=1, watching=True)
CAMERA = replace(WEB, resources=(ResourceRequest("camera", 1),))


def test_create_reports_that_it_starts_and_starts() -> None:
    _, effects = reduce(Workload(WEB), Create())
    assert effects == [Report(NAME, STARTING), Start(WEB)]


def test_create_starts_a_finished_container_again() -> None:
    _, effects = reduce(Workload(WEB), Create(reuse="c0"))
    assert effects == [Report(NAME, STARTING), Start(WEB, "c0")]


@pytest.mark.parametrize("name", [InstanceName("/etc/", "", "A"), InstanceName("web", "../x", "A")])
def test_a_workload_with_a_path_as_its_name_is_not_started(name: InstanceName) -> None:
    bad = replace(WEB, instance_name=name)
    refused = Report(name, PENDING_STARTING_FAILED.because(f"'{name}' is not a valid name of a workload instance"))
    assert reduce(Workload(bad), Create())[1] == [refused]
    w, _ = reduce(RUNNING, Update(bad))
    assert reduce(w, Deleted())[1][-1] == refused


def test_a_started_workload_is_watched() -> None:
    """[utest->swdd~podman-workload-stores-container-id~1]"""
    w, effects = reduce(Workload(WEB), Started("c1"))
    assert (w.runtime_id, effects) == ("c1", [Watch(WEB, "c1", 1)])


def test_a_failed_create_is_retried_after_a_pause() -> None:
    """[utest->swdd~agent-workload-task-update-create-failed-allows-retry~1]"""
    w, effects = reduce(Workload(WEB), StartFailed("no image"))
    assert effects == [
        RemoveFiles(NAME),
        Report(NAME, PENDING_STARTING.because("Retry 1: no image")),
        ScheduleRetry(1, 1),
    ]
    w, effects = reduce(w, RetryDue(1))
    assert effects == [Start(WEB)]
    w, effects = reduce(w, StartFailed("no image"))
    assert effects[1:] == [Report(NAME, PENDING_STARTING.because("Retry 2: no image")), ScheduleRetry(2, 2)]
    assert reduce(w, RetryDue(1)) == (w, [])


def test_a_container_that_could_not_be_started_again_is_replaced_by_a_new_one() -> None:
    w, _ = reduce(Workload(WEB), Create(reuse="c0"))
    w, _ = reduce(w, StartFailed("gone"))
    _, effects = reduce(w, RetryDue(w.turn))
    assert effects == [Start(WEB, None)]


def test_a_success_ends_the_counting_of_failures() -> None:
    w, _ = reduce(Workload(WEB, attempts=3), Started("c1"))
    assert w.attempts == 0


def test_an_impossible_start_is_not_retried() -> None:
    """Pending and not failed as the text says: as in the original's code, see docs/differences.md.

    [utest->swdd~podman-workload-update-workload-state-on-start-failure~1]
    """
    w, effects = reduce(Workload(WEB), StartImpossible("bad config"))
    assert effects == [RemoveFiles(NAME), Report(NAME, PENDING_STARTING_FAILED.because("bad config"))]
    assert reduce(w, RetryDue(w.turn)) == (w, [])


def test_a_start_with_a_full_disk_is_retried_soon_and_without_limit() -> None:
    w = Workload(CAMERA)
    for _ in range(20):
        w, effects = reduce(w, StartLacksSpace("full"))
        retry = effects.pop()
        assert effects == [
            RemoveFiles(NAME),
            ReleaseDevices(NAME),
            Report(NAME, PENDING_STARTING_FAILED.because("full")),
        ]
        assert isinstance(retry, ScheduleRetry)
        assert retry_limit(retry.attempt) <= 10
        w, effects = reduce(w, RetryDue(retry.turn))
        assert effects == [AcquireDevices(CAMERA)]
    assert reduce(w, DevicesGranted())[1] == [Start(CAMERA)]


def test_resume_watches_and_reports_nothing() -> None:
    """[utest->swdd~agent-resume-workload~1]"""
    w, effects = reduce(Workload(WEB), Resume("c1"))
    assert (w.runtime_id, effects) == ("c1", [OpenInterface(WEB), Watch(WEB, "c1", 1)])


def test_resume_without_id_requests_the_id() -> None:
    w, effects = reduce(Workload(WEB), Resume())
    assert effects == [OpenInterface(WEB), Identify(WEB)]
    assert reduce(w, Identified("c1"))[1] == [Watch(WEB, "c1", 1)]
    assert reduce(w, Identified(None))[1] == [Report(NAME, FAILED_LOST)]


def test_a_container_that_is_missing_at_resume_releases_its_devices() -> None:
    w, _ = reduce(Workload(CAMERA), Resume())
    w, effects = reduce(w, Identified(None))
    assert effects == [Report(NAME, FAILED_LOST), ReleaseDevices(NAME)]
    assert not w.in_doubt


def test_a_container_that_is_missing_at_resume_is_created_again_with_policy_always() -> None:
    always = replace(WEB, restart_policy=RestartPolicy.ALWAYS)
    w, _ = reduce(Workload(always), Resume())
    w, effects = reduce(w, Identified(None))
    requested = Report(NAME, STOPPING_REQUESTED_AT_RUNTIME)
    assert effects == [Report(NAME, FAILED_LOST), requested, DeleteContainer(always, None)]
    _, effects = reduce(w, Deleted())
    assert effects[-2:] == [Report(NAME, STARTING), Start(always)]


def test_a_failed_search_for_the_container_is_retried_and_the_container_is_deleted() -> None:
    w, _ = reduce(Workload(WEB), Resume())
    w, effects = reduce(w, WatchFailed("podman broken"))
    broken = Report(NAME, FAILED_UNKNOWN.because("Retry 1: podman broken"))
    assert effects == [broken, ScheduleRetry(1, w.turn)]
    assert reduce(w, RetryDue(w.turn))[1] == [Identify(WEB)]
    assert DeleteContainer(WEB, None) in reduce(w, Delete())[1]
    w, effects = reduce(w, Update(WEB2))
    assert effects[-1] == DeleteContainer(WEB, None)
    _, effects = reduce(w, Deleted())
    assert effects[-1] == Start(WEB2)


def test_a_start_ended_by_an_internal_error_is_retried_after_its_container_is_deleted() -> None:
    w, effects = reduce(Workload(CAMERA), StartBroken("a bug"))
    assert effects == [Report(NAME, FAILED_UNKNOWN.because("Retry 1: a bug")), ScheduleRetry(1, 1)]
    w, effects = reduce(w, RetryDue(1))
    assert effects == [DeleteContainer(CAMERA, None)]
    failed, effects = reduce(w, DeleteFailed("busy"))
    assert effects == [Report(NAME, FAILED_UNKNOWN.because("Retry 2: busy")), ScheduleRetry(2, 1)]
    assert reduce(failed, RetryDue(1))[1] == [DeleteContainer(CAMERA, None)]
    w, effects = reduce(w, Deleted())
    assert effects == [RemoveFiles(NAME), AcquireDevices(CAMERA)]
    w, effects = reduce(w, DevicesGranted())
    assert effects == [Start(CAMERA)]
    w, effects = reduce(w, StartBroken("a bug"))
    assert effects == [Report(NAME, FAILED_UNKNOWN.because("Retry 2: a bug")), ScheduleRetry(2, 2)]


@pytest.mark.parametrize("command", [Delete(), Update(WEB2), Update(None)])
def test_a_command_deletes_the_container_of_an_interrupted_start(command: Delete | Update) -> None:
    w, _ = reduce(Workload(WEB), StartBroken("a bug"))
    w, effects = reduce(w, command)
    assert CancelRetry() in effects
    assert effects[-1] == DeleteContainer(WEB, None)
    w, effects = reduce(w, Deleted())
    assert Report(NAME, REMOVED) in effects
    assert not w.in_doubt


def test_a_failed_watch_is_retried_and_does_not_change_the_container() -> None:
    w, effects = reduce(RUNNING, WatchFailed("a bug"))
    assert effects == [Report(NAME, FAILED_UNKNOWN.because("Retry 1: a bug")), ScheduleRetry(1, 1)]
    w, effects = reduce(w, RetryDue(1))
    assert effects == [Watch(WEB, "c1", 2)]
    w, _ = reduce(w, StateSeen(2, RUNNING_OK))
    assert w.attempts == 0


def test_update_deletes_the_old_and_creates_the_new() -> None:
    """[utest->swdd~agent-workload-task-executes-update~1]
    [utest->swdd~agent-workload-tasks-executes-update~1]
    """
    w, effects = reduce(RUNNING, Update(WEB2))
    assert effects == [
        Report(NAME, STOPPING_REQUESTED_AT_RUNTIME),
        CloseInterface(),
        DeleteContainer(WEB, "c1"),
    ]
    w, effects = reduce(w, Deleted())
    assert effects == [
        Unwatch(),
        RemoveFolder(NAME),
        Report(NAME, REMOVED),
        Report(NAME2, STARTING),
        Start(WEB2),
    ]
    w, effects = reduce(w, Started("c2"))
    assert (w.runtime_id, effects) == ("c2", [Watch(WEB2, "c2", 2)])


def test_update_without_container_creates_immediately() -> None:
    """[utest->swdd~agent-workload-task-update-broken-allowed~1]"""
    _, effects = reduce(Workload(WEB), Update(WEB2))
    assert effects[0] == Report(NAME, STOPPING_REQUESTED_AT_RUNTIME)
    assert effects[-3:] == [Report(NAME, REMOVED), Report(NAME2, STARTING), Start(WEB2)]
    assert not any(isinstance(effect, DeleteContainer | StopHealthChecks) for effect in effects)


def test_update_with_unchanged_id_keeps_the_folder_and_unchanged_rights_keep_the_interface() -> None:
    tagged = replace(WEB, tags={"a": "b"})
    w, effects = reduce(RUNNING, Update(tagged))
    assert CloseInterface() not in effects
    _, effects = reduce(w, Deleted())
    assert RemoveFiles(NAME) in effects
    assert RemoveFolder(NAME) not in effects


def test_update_with_changed_rights_closes_the_interface_before_the_container_is_deleted() -> None:
    trusted = replace(WEB, access=ControlInterfaceAccess((LogRule(("*",)),)))
    _, effects = reduce(RUNNING, Update(trusted))
    assert effects.index(CloseInterface()) < effects.index(DeleteContainer(WEB, "c1"))


def test_update_whose_delete_fails_keeps_the_old_one_and_is_retried() -> None:
    """[utest->swdd~agent-workload-task-update-delete-failed-allows-retry~1]"""
    w, _ = reduce(RUNNING, Update(WEB2))
    w, effects = reduce(w, DeleteFailed("busy"))
    assert effects == [Report(NAME, STOPPING_DELETE_FAILED.because("busy")), ScheduleRetry(1, 1)]
    assert (w.spec, w.runtime_id) == (WEB, "c1")
    assert reduce(w, StateSeen(1, RUNNING_OK))[1] == [Report(NAME, RUNNING_OK)]
    assert DeleteContainer(WEB, "c1") in reduce(w, Update(WEB2))[1]
    w, effects = reduce(w, RetryDue(1))
    assert effects == [DeleteContainer(WEB, "c1")]
    w, effects = reduce(w, DeleteFailed("still busy"))
    assert effects == [Report(NAME, STOPPING_DELETE_FAILED.because("still busy")), ScheduleRetry(2, 1)]
    w, _ = reduce(w, RetryDue(1))
    w, effects = reduce(w, Deleted())
    assert [effect for effect in effects if isinstance(effect, Report)] == [
        Report(NAME, REMOVED),
        Report(NAME2, STARTING),
    ]
    assert w.spec == WEB2


def test_a_successor_that_was_never_created_is_reported_as_removed() -> None:
    w, _ = reduce(RUNNING, Update(WEB2))
    waiting, _ = reduce(w, DeleteFailed("busy"))
    removed = Report(NAME2, REMOVED)
    assert removed in reduce(waiting, Delete())[1]
    assert removed in reduce(waiting, Update(WEB))[1]
    assert removed not in reduce(waiting, Update(WEB2))[1]
    assert CancelRetry() in reduce(waiting, Delete())[1]


def test_a_restart_whose_delete_fails_is_retried() -> None:
    always = replace(RUNNING, spec=replace(WEB, restart_policy=RestartPolicy.ALWAYS))
    w, _ = reduce(always, StateSeen(1, exited(1)))
    w, _ = reduce(w, DeleteFailed("busy"))
    assert reduce(w, StateSeen(1, exited(2)))[1] == [Report(NAME, exited(2))]
    w, effects = reduce(w, RetryDue(1))
    assert effects == [DeleteContainer(always.spec, "c1")]
    assert reduce(w, Deleted())[1][-1] == Start(always.spec)


def test_the_pause_before_the_retry_of_a_delete_stays_short() -> None:
    """Its successor waits for the deletion."""
    w, _ = reduce(RUNNING, Delete())
    pauses = []
    for _ in range(20):
        w, effects = reduce(w, DeleteFailed("busy"))
        retry = effects[-1]
        assert isinstance(retry, ScheduleRetry)
        pauses.append(retry_limit(retry.attempt))
        w, _ = reduce(w, RetryDue(retry.turn))
    assert pauses[:5] == [0.5, 1, 2, 4, 8]
    assert max(pauses) == 8


def test_an_update_without_a_successor_stops_the_workload_and_is_reported_again_with_the_successor() -> None:
    w, _ = reduce(RUNNING, Update(None))
    w, effects = reduce(w, Deleted())
    assert effects == [Unwatch(), RemoveFiles(NAME), ReleaseDevices(NAME), Report(NAME, REMOVED)]
    assert w.empty
    _, effects = reduce(w, Update(WEB2))
    assert [effect for effect in effects if isinstance(effect, Report)] == [
        Report(NAME, STOPPING_REQUESTED_AT_RUNTIME),
        Report(NAME, REMOVED),
        Report(NAME2, STARTING),
    ]


def test_delete_removes_everything() -> None:
    """[utest->swdd~agent-workload-tasks-executes-delete~1]
    [utest->swdd~podman-workload-stops-container~1]
    [utest->swdd~podman-workload-deletes-container~1]
    """
    w, effects = reduce(RUNNING, Delete())
    assert effects == [
        Report(NAME, STOPPING_REQUESTED_AT_RUNTIME),
        CloseInterface(),
        DeleteContainer(WEB, "c1"),
    ]
    w, effects = reduce(w, Deleted())
    assert effects == [Unwatch(), RemoveFolder(NAME), Report(NAME, REMOVED)]
    assert w.gone


def test_delete_without_container_is_done_immediately() -> None:
    """[utest->swdd~agent-workload-task-delete-broken-allowed~1]"""
    w, effects = reduce(Workload(WEB), Delete())
    assert w.gone
    assert effects == [
        Report(NAME, STOPPING_REQUESTED_AT_RUNTIME),
        CloseInterface(),
        RemoveFolder(NAME),
        Report(NAME, REMOVED),
    ]


def test_delete_that_fails_is_retried_and_restarts_nothing_meanwhile() -> None:
    """[utest->swdd~agent-workload-task-delete-failed-allows-retry~1]"""
    always = replace(RUNNING, spec=replace(WEB, restart_policy=RestartPolicy.ALWAYS))
    w, _ = reduce(always, Delete())
    w, effects = reduce(w, DeleteFailed("busy"))
    assert effects == [Report(NAME, STOPPING_DELETE_FAILED.because("busy")), ScheduleRetry(1, 1)]
    assert reduce(w, StateSeen(1, exited(1)))[1] == [Report(NAME, exited(1))]
    assert DeleteContainer(always.spec, "c1") in reduce(w, Delete())[1]
    w, effects = reduce(w, RetryDue(1))
    assert effects == [DeleteContainer(always.spec, "c1")]
    assert reduce(w, Deleted())[1][-1] == Report(NAME, REMOVED)


def test_delete_after_a_completed_removal_reports_nothing_twice() -> None:
    w, effects = reduce(Workload(WEB, empty=True), Delete())
    assert w.gone
    assert effects == [CloseInterface(), RemoveFolder(NAME)]
    assert reduce(w, Delete()) == (w, [])
    assert reduce(w, Update(None)) == (w, [])


def test_a_workload_that_is_added_after_its_delete_starts() -> None:
    gone = Workload(WEB, gone=True, turn=4)
    w, effects = reduce(gone, Update(WEB2))
    assert effects == [Report(NAME2, STARTING), Start(WEB2)]
    assert (w.turn, w.gone) == (4, False)


def test_a_finished_container_with_devices_is_not_started_again_but_replaced() -> None:
    """It still has the devices of its first start, which may be allocated to others by now."""
    w, effects = reduce(Workload(CAMERA), Create(reuse="c0"))
    assert effects == [Report(NAME, STOPPING_REQUESTED_AT_RUNTIME), DeleteContainer(CAMERA, "c0")]
    failed, _ = reduce(w, DeleteFailed("busy"))
    assert DeleteContainer(CAMERA, "c0") in reduce(failed, Delete())[1]
    w, effects = reduce(w, Deleted())
    assert effects[-1] == AcquireDevices(CAMERA)
    assert reduce(w, DevicesGranted())[1] == [Report(NAME, STARTING), Start(CAMERA)]


def test_a_success_with_devices_restarts_in_a_new_container() -> None:
    w = replace(RUNNING, spec=replace(CAMERA, restart_policy=RestartPolicy.ALWAYS))
    w, effects = reduce(w, StateSeen(1, SUCCEEDED_OK))
    assert effects == [
        Report(NAME, SUCCEEDED_OK),
        Unwatch(),
        Report(NAME, STOPPING_REQUESTED_AT_RUNTIME),
        DeleteContainer(w.spec, "c1"),
    ]
    w, effects = reduce(w, Deleted())
    assert effects == [RemoveFiles(NAME), Report(NAME, REMOVED), AcquireDevices(w.spec)]
    assert reduce(w, DevicesGranted())[1] == [Report(NAME, STARTING), Start(w.spec)]


def test_between_retries_other_workloads_may_use_the_devices() -> None:
    w, effects = reduce(Workload(CAMERA), StartFailed("no such command"))
    again = Report(NAME, PENDING_STARTING.because("Retry 1: no such command"))
    assert effects == [RemoveFiles(NAME), ReleaseDevices(NAME), again, ScheduleRetry(1, 1)]
    w, effects = reduce(w, RetryDue(1))
    assert effects == [AcquireDevices(CAMERA)]
    assert reduce(w, DevicesGranted())[1] == [Start(CAMERA)]
    w, effects = reduce(w, DevicesMissing("taken"))
    assert effects == [Report(NAME, PENDING_WAITING_TO_START.because("taken"))]
    w, _ = reduce(w, DevicesChanged())
    w, effects = reduce(w, DevicesGranted())
    assert effects == [Report(NAME, STARTING), Start(CAMERA)]
    assert reduce(w, StartFailed("no such command"))[0].attempts == 2


def test_a_restart_ends_the_pause_before_a_retry() -> None:
    w, _ = reduce(Workload(CAMERA), StartFailed("no such device"))
    w, effects = reduce(w, Restart())
    assert effects == [CancelRetry(), AcquireDevices(CAMERA)]
    assert reduce(w, RetryDue(1)) == (w, [])


@pytest.mark.parametrize("command", [Update(WEB2), Delete()])
def test_commands_cancel_a_pending_retry(command: Update | Delete) -> None:
    w, _ = reduce(Workload(WEB), StartFailed("no image"))
    w, effects = reduce(w, command)
    assert CancelRetry() in effects
    assert reduce(w, RetryDue(1)) == (w, [])


def test_states_of_an_earlier_checker_are_discarded() -> None:
    w, _ = reduce(RUNNING, Update(WEB))
    w, _ = reduce(w, Deleted())
    assert reduce(w, StateSeen(1, exited(137))) == (w, [])
    w, _ = reduce(w, Started("c2"))
    assert reduce(w, StateSeen(1, exited(137))) == (w, [])
    assert reduce(w, StateSeen(2, RUNNING_OK))[1] == [Report(NAME, RUNNING_OK)]


def test_a_failure_restarts_in_a_new_container_with_the_same_devices_and_interface() -> None:
    w = replace(RUNNING, spec=replace(CAMERA, restart_policy=RestartPolicy.ON_FAILURE))
    w, effects = reduce(w, StateSeen(1, exited(3)))
    assert effects == [
        Report(NAME, exited(3)),
        ReadEnd(w.spec, "c1", exited(3)),
        Report(NAME, STOPPING_REQUESTED_AT_RUNTIME),
        DeleteContainer(w.spec, "c1"),
    ]
    w, effects = reduce(w, Deleted())
    assert effects == [Unwatch(), RemoveFiles(NAME), Report(NAME, REMOVED), AcquireDevices(w.spec)]
    w, effects = reduce(w, DevicesGranted())
    assert effects == [Report(NAME, STARTING), Start(w.spec)]


@pytest.mark.parametrize(
    ("state", "releases"),
    [(SUCCEEDED_OK, True), (exited(3), True), (FAILED_LOST, True), (FAILED_UNKNOWN, False), (RUNNING_OK, False)],
)
def test_an_ended_workload_releases_its_devices_immediately(state: ExecutionState, releases: bool) -> None:
    w = replace(RUNNING, spec=CAMERA)
    _, effects = reduce(w, StateSeen(1, state))
    effects = [effect for effect in effects if not isinstance(effect, ReadEnd)]
    assert effects == [Report(NAME, state), *([ReleaseDevices(NAME)] if releases else [])]


def test_a_success_restarts_the_same_container() -> None:
    w = replace(RUNNING, spec=replace(WEB, restart_policy=RestartPolicy.ALWAYS))
    w, effects = reduce(w, StateSeen(1, SUCCEEDED_OK))
    assert effects == [Report(NAME, SUCCEEDED_OK), Unwatch(), Report(NAME, STARTING), Start(w.spec, "c1")]
    assert reduce(w, StateSeen(1, SUCCEEDED_OK)) == (w, [])


ALWAYS = replace(RUNNING, spec=replace(WEB, restart_policy=RestartPolicy.ALWAYS), alive_since=100.0)
WAITING = replace(ALWAYS, history=RestartHistory(3, 3))


def test_a_lost_container_is_replaced_by_a_new_one() -> None:
    w, effects = reduce(ALWAYS, StateSeen(1, FAILED_LOST, 200.0))
    assert effects == [
        Report(NAME, FAILED_LOST),
        Report(NAME, STOPPING_REQUESTED_AT_RUNTIME),
        DeleteContainer(w.spec, "c1"),
    ]


def test_a_workload_that_ends_repeatedly_is_restarted_after_a_delay() -> None:
    w, effects = reduce(WAITING, StateSeen(1, exited(3), 100.2))
    announced = FAILED_EXEC_FAILED.because("Exit code: '3', restart 4 in 2 s")
    assert effects == [Report(NAME, announced), ScheduleRestart(2.0, 1), ReadEnd(w.spec, "c1", exited(3))]
    w, effects = reduce(w, RetryDue(1))
    assert effects == [Report(NAME, STOPPING_REQUESTED_AT_RUNTIME), DeleteContainer(w.spec, "c1")]
    w, _ = reduce(w, Deleted())
    w, _ = reduce(w, Started("c2", 103.0))
    assert (w.history, w.alive_since) == (RestartHistory(4, 4), 103.0)


def test_a_delayed_restart_after_a_success_uses_the_same_container() -> None:
    w, effects = reduce(WAITING, StateSeen(1, SUCCEEDED_OK, 100.2))
    assert effects[0] == Report(NAME, SUCCEEDED_OK.because("restart 4 in 2 s"))
    assert reduce(w, RetryDue(1))[1] == [Unwatch(), Report(NAME, STARTING), Start(w.spec, "c1")]


def test_a_workload_that_ran_for_a_long_time_is_restarted_immediately() -> None:
    w, effects = reduce(WAITING, StateSeen(1, exited(3), 110.0))
    assert effects[0] == Report(NAME, exited(3))
    assert isinstance(effects[-1], DeleteContainer)
    assert w.history == RestartHistory(4, 1)


def test_the_run_time_of_a_resumed_workload_begins_when_it_is_seen_running() -> None:
    w, _ = reduce(replace(ALWAYS, alive_since=None), StateSeen(1, RUNNING_OK, 50.0))
    assert w.alive_since == 50.0
    assert reduce(w, StateSeen(1, RUNNING_OK, 55.0))[0] == w


def test_while_a_restart_is_planned_another_end_is_reported_and_not_counted() -> None:
    w, _ = reduce(WAITING, StateSeen(1, SUCCEEDED_OK, 100.2))
    w, effects = reduce(w, StateSeen(1, FAILED_LOST, 100.4))
    assert effects == [Report(NAME, FAILED_LOST.because("restart 4 in 2 s"))]
    assert w.history.restarts == 4
    assert DeleteContainer(w.spec, "c1") in reduce(w, RetryDue(1))[1]


def test_a_planned_restart_is_cancelled_if_the_container_runs_again() -> None:
    w, _ = reduce(WAITING, StateSeen(1, exited(3), 100.2))
    assert reduce(w, StateSeen(1, PENDING_STARTING, 100.3)) == (w, [Report(NAME, PENDING_STARTING)])
    w, effects = reduce(w, StateSeen(1, RUNNING_OK, 100.4))
    assert effects == [CancelRetry(), Report(NAME, RUNNING_OK)]
    assert reduce(w, RetryDue(1)) == (w, [])


@pytest.mark.parametrize("command", [Update(WEB2), Delete(), Restart()])
def test_commands_cancel_a_planned_restart(command: Update | Delete | Restart) -> None:
    w, _ = reduce(WAITING, StateSeen(1, exited(3), 100.2))
    w, effects = reduce(w, command)
    assert CancelRetry() in effects
    assert reduce(w, RetryDue(1)) == (w, [])
    assert reduce(w, Deleted())[0].history == RestartHistory()


def test_an_end_that_is_seen_during_a_retry_replaces_the_retry() -> None:
    _, effects = reduce(replace(WAITING, retrying=True), StateSeen(1, exited(3), 100.2))
    assert effects[0] == CancelRetry()


def test_a_workload_waits_for_its_devices_and_starts_after_the_grant() -> None:
    w, effects = reduce(Workload(CAMERA), Create())
    assert effects == [AcquireDevices(CAMERA)]
    w, effects = reduce(w, DevicesMissing("no camera"))
    assert effects == [Report(NAME, PENDING_WAITING_TO_START.because("no camera"))]
    w, effects = reduce(w, DevicesChanged())
    assert effects == [AcquireDevices(CAMERA)]
    w, effects = reduce(w, DevicesGranted())
    assert effects == [Report(NAME, STARTING), Start(CAMERA)]
    assert reduce(w, DevicesChanged()) == (w, [])


def test_devices_are_released_when_the_workload_is_deleted_or_can_never_start() -> None:
    w = replace(RUNNING, spec=CAMERA)
    w, _ = reduce(w, Delete())
    assert ReleaseDevices(NAME) in reduce(w, Deleted())[1]
    assert ReleaseDevices(NAME) in reduce(Workload(CAMERA), StartImpossible("bad"))[1]


def test_a_workload_whose_devices_are_lost_requests_others_in_a_new_container() -> None:
    w, effects = reduce(replace(RUNNING, spec=CAMERA), Restart())
    assert DeleteContainer(CAMERA, "c1") in effects
    _, effects = reduce(w, Deleted())
    assert effects[-2:] == [Report(NAME, REMOVED), AcquireDevices(CAMERA)]
    idle = Workload(CAMERA)
    assert reduce(idle, Restart()) == (idle, [])


def test_a_delete_without_reason_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        reduce(RUNNING, Deleted())


@pytest.mark.parametrize(
    ("attempt", "limit"), [(1, 0.5), (2, 1.0), (3, 2.0), (10, 256.0), (11, 300.0), (63, 300.0), (100_000, 300.0)]
)
def test_the_pause_between_retries_grows_and_stays_within_its_limit(attempt: int, limit: float) -> None:
    assert retry_limit(attempt) == limit


class RandomEnvironment:
    """A runtime that may do anything, and a task that performs effects as the real one does."""

    def __init__(self, spec: WorkloadSpec, data: "st.DataObject") -> None:
        self.w = Workload(spec)
        self.containers: set[str] = set()
        self.removed: list[InstanceName] = []
        self.may_start = True
        self.deletes_work = False
        self._data = data
        self._number = 0
        self._retry = 0
        self._checker: int | None = None

    def run(self, event: Event) -> None:
        events = [event]
        while events:
            self.w, effects = reduce(self.w, events.pop(0))
            for effect in effects:
                events += self.perform(effect)

    def perform(self, effect: Effect) -> list[Event]:
        match effect:
            case Start(_, reuse):
                assert self.may_start, "a create after a delete without a new add"
                return [self.start(reuse)]
            case DeleteContainer(_, container):
                if not self.deletes_work and self._data.draw(st.integers(0, 2)) == 0:
                    return [DeleteFailed("busy")]
                self.containers -= {container} if container is not None else self.containers
                return [Deleted()]
            case AcquireDevices():
                return [DevicesGranted() if self._data.draw(st.booleans()) else DevicesMissing("none")]
            case Watch(_, _, turn):
                self._checker = turn
                return [] if self._data.draw(st.integers(0, 5)) else [WatchFailed("a bug")]
            case Unwatch():
                self._checker = None
            case ScheduleRetry(_, turn) | ScheduleRestart(_, turn):
                self._retry = turn
            case Report(name, state) if state == REMOVED:
                self.removed.append(name)
            case _:
                pass
        return []

    def start(self, reuse: str | None) -> Event:
        outcome = self._data.draw(st.sampled_from(["works", "works", "fails", "impossible", "breaks", "breaks late"]))
        assert reuse is not None or not self.containers, "two containers of one workload"
        if outcome == "works":
            if reuse is None:
                self._number += 1
                self.containers = {f"c{self._number}"}
            return Started(next(iter(self.containers)))
        if outcome.startswith("breaks"):
            if reuse is None and outcome == "breaks late":
                self.containers = {"container without a known id"}
            return StartBroken("a bug")
        self.containers.clear()  # a runtime leaves no partly created container
        return StartFailed("no") if outcome == "fails" else StartImpossible("never")

    def signals(self) -> list[Event]:
        """All signals, including those of ended checkers and retries."""
        turns = {0, max(self.w.turn - 1, 0), self._checker or 0}
        states = (RUNNING_OK, exited(1), SUCCEEDED_OK, FAILED_LOST)
        seen: list[Event] = [StateSeen(turn, state) for turn in sorted(turns) for state in states]
        return [*seen, DevicesChanged(), Restart(), RetryDue(self._retry), RetryDue(max(self._retry - 1, 0))]


@examples(100)
@given(data=st.data(), policy=st.sampled_from(list(RestartPolicy)), needs=st.booleans(), length=st.integers(0, 25))
def test_the_invariants_hold_for_all_events_in_any_order(
    data: "st.DataObject", policy: RestartPolicy, needs: bool, length: int
) -> None:
    """There are never two containers, no create after a delete, and Removed exactly once."""
    resources = CAMERA.resources if needs else ()
    variants = (WEB, WEB2, replace(WEB, tags={"x": "y"}))
    specs = [replace(spec, restart_policy=policy, resources=resources) for spec in variants]
    environment = RandomEnvironment(specs[0], data)
    environment.run(Create())
    for _ in range(length):
        match data.draw(st.sampled_from(["signal", "signal", "update", "stop", "delete"])):
            case "signal":
                environment.run(data.draw(st.sampled_from(environment.signals())))
            case "update":
                environment.may_start = True
                environment.run(Update(data.draw(st.sampled_from(specs))))
            case "stop":
                environment.run(Update(None))
                environment.may_start &= not (environment.w.empty or environment.w.gone)
            case "delete":
                environment.may_start = False
                environment.run(Delete())

    expected = set() if environment.w.empty or environment.w.gone else {environment.w.name}
    if isinstance(environment.w.aim, WorkloadSpec):  # not created, because its predecessor could not be deleted
        expected.add(environment.w.aim.instance_name)
    environment.may_start, environment.deletes_work, environment.removed = False, True, []
    environment.run(Delete())
    for event in [*environment.signals(), Delete(), Update(None)]:
        environment.run(event)
    assert environment.w.gone
    assert environment.containers == set()
    assert sorted(environment.removed) == sorted(expected)
