"""Effects of health changes on a workload."""

from msgspec.structs import replace

from ankaios.agent.core.restart_policy import RestartHistory
from ankaios.agent.core.workload_events import (
    CancelRetry,
    CheckHealth,
    CloseInterface,
    DeleteContainer,
    Deleted,
    HealthSeen,
    ReadEnd,
    RemoveFiles,
    Report,
    RetryDue,
    ScheduleRestart,
    Start,
    StateSeen,
    StopHealthChecks,
    Unwatch,
)
from ankaios.agent.core.workload_lifecycle import Workload, reduce
from ankaios.common.execution_state import (
    FAILED_EXEC_FAILED,
    PENDING_STARTING,
    REMOVED,
    RUNNING_OK,
    STOPPING_REQUESTED_AT_RUNTIME,
    ExecutionState,
    HealthState,
    exited,
)
from ankaios.common.health import Health, OnUnhealthy, TcpCheck
from tests.support.builders import a_workload

CHECKED = a_workload(health=Health(tcp=TcpCheck(port=1)))
NAME = CHECKED.instance_name
STARTING, HEALTHY = HealthState("Starting"), HealthState("Healthy")
UNHEALTHY = HealthState("Unhealthy", "tcp check of port 1 failed 3 times: connection refused")
WHY = f"unhealthy: {UNHEALTHY.text}"


def running(health: HealthState, info: str) -> ExecutionState:
    return ExecutionState("Running", "Ok", info, health)


def a_running_workload(on_unhealthy: OnUnhealthy = OnUnhealthy.RESTART, since: float = 0.0) -> Workload:
    spec = replace(CHECKED, health=replace(CHECKED.health, on_unhealthy=on_unhealthy))  # type: ignore[type-var]
    started = Workload(spec, runtime_id="c1", turn=1, watching=True, alive_since=since)
    return reduce(started, StateSeen(1, RUNNING_OK, since))[0]


def test_checks_begin_when_the_workload_runs_and_once_only() -> None:
    w, effects = reduce(Workload(CHECKED, runtime_id="c1", turn=1, watching=True), StateSeen(1, RUNNING_OK))
    assert effects == [Report(NAME, running(STARTING, "not healthy yet")), CheckHealth(CHECKED, "c1", 1)]
    _, effects = reduce(w, StateSeen(1, RUNNING_OK.because("note")))
    assert effects == [Report(NAME, running(STARTING, "note, not healthy yet"))]


def test_a_workload_without_checks_is_reported_without_health() -> None:
    plain = Workload(a_workload(), runtime_id="c1", turn=1, watching=True)
    _, effects = reduce(plain, StateSeen(1, RUNNING_OK))
    assert effects == [Report(plain.name, RUNNING_OK)]


def test_health_is_reported_with_the_running_state() -> None:
    _, effects = reduce(a_running_workload(), HealthSeen(1, HEALTHY))
    assert effects == [Report(NAME, running(HEALTHY, "healthy"))]


def test_results_of_an_earlier_container_are_stale() -> None:
    w = a_running_workload()
    assert reduce(w, HealthSeen(0, UNHEALTHY)) == (w, [])


def test_an_unhealthy_workload_is_replaced_with_the_reason() -> None:
    w, effects = reduce(a_running_workload(), HealthSeen(1, UNHEALTHY, 60.0))
    assert effects == [
        Report(NAME, running(UNHEALTHY, WHY)),
        Report(NAME, STOPPING_REQUESTED_AT_RUNTIME.because(WHY)),
        StopHealthChecks(),
        DeleteContainer(w.spec, "c1"),
    ]
    assert w.history.restarts == 1
    w, effects = reduce(w, Deleted())
    assert effects == [
        Unwatch(),
        RemoveFiles(NAME),
        Report(NAME, REMOVED),
        Report(NAME, PENDING_STARTING.because(f"Triggered at runtime. It was {WHY}")),
        Start(w.spec),
    ]
    assert w.history.restarts == 1


def test_restarts_of_unhealthy_workloads_are_delayed_like_others() -> None:
    w = replace(a_running_workload(), history=RestartHistory(3, 3))
    w, effects = reduce(w, HealthSeen(1, UNHEALTHY, 1.0))
    assert effects == [Report(NAME, running(UNHEALTHY, f"{WHY}, restart 4 in 2 s")), ScheduleRestart(2.0, 1)]
    _, effects = reduce(w, RetryDue(1))
    assert effects[0] == Report(NAME, STOPPING_REQUESTED_AT_RUNTIME.because(WHY))
    assert effects[-1] == DeleteContainer(w.spec, "c1")


def test_a_workload_that_recovers_before_its_restart_keeps_running() -> None:
    w = replace(a_running_workload(), history=RestartHistory(3, 3))
    w, _ = reduce(w, HealthSeen(1, UNHEALTHY, 1.0))
    w, effects = reduce(w, HealthSeen(1, HEALTHY, 2.0))
    assert effects == [CancelRetry(), Report(NAME, running(HEALTHY, "healthy"))]
    assert w.history.restarts == 3
    assert reduce(w, RetryDue(1)) == (w, [])


def test_a_workload_that_ends_before_its_restart_follows_its_restart_policy() -> None:
    w = replace(a_running_workload(), history=RestartHistory(3, 3))
    w, _ = reduce(w, HealthSeen(1, UNHEALTHY, 1.0))
    w, effects = reduce(w, StateSeen(1, exited(1), 2.0))
    assert effects[:-1] == [StopHealthChecks(), CancelRetry(), Report(NAME, exited(1))]
    assert isinstance(effects[-1], ReadEnd)
    assert reduce(w, RetryDue(1)) == (w, [])


def test_an_unhealthy_workload_can_be_stopped_permanently() -> None:
    w, effects = reduce(a_running_workload(OnUnhealthy.STOP), HealthSeen(1, UNHEALTHY, 60.0))
    assert effects == [
        Report(NAME, running(UNHEALTHY, WHY)),
        Report(NAME, STOPPING_REQUESTED_AT_RUNTIME.because(WHY)),
        StopHealthChecks(),
        CloseInterface(),
        DeleteContainer(w.spec, "c1"),
    ]
    w, effects = reduce(w, Deleted())
    failed = Report(NAME, FAILED_EXEC_FAILED.because(f"Stopped, {WHY}"))
    assert effects == [Unwatch(), RemoveFiles(NAME), Report(NAME, REMOVED), failed]
    assert w.runtime_id is None and not w.gone


def test_an_unhealthy_workload_can_continue_without_action() -> None:
    w, effects = reduce(a_running_workload(OnUnhealthy.NONE), HealthSeen(1, UNHEALTHY, 60.0))
    assert effects == [Report(NAME, running(UNHEALTHY, WHY))]
    assert w.history.restarts == 0


def test_checks_end_with_the_workload() -> None:
    w, effects = reduce(a_running_workload(), StateSeen(1, exited(0)))
    assert effects == [StopHealthChecks(), Report(NAME, exited(0))]
    assert reduce(w, HealthSeen(1, UNHEALTHY)) == (w, [])
