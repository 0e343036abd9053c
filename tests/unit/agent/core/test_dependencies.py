"""Conditions for start and stop, and waiting operations; also compared with a naive model."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ankaios.agent.core.dependencies import DependencyScheduler, may_start, may_stop
from ankaios.agent.core.operations import (
    CreateOperation,
    DeleteBeforeUpdate,
    DeleteOperation,
    Operation,
    UpdateOperation,
)
from ankaios.agent.core.parameter_storage import ParameterStorage
from ankaios.common.execution_state import (
    AGENT_DISCONNECTED,
    FAILED_EXEC_FAILED,
    FAILED_LOST,
    PENDING_INITIAL,
    PENDING_STARTING,
    PENDING_WAITING_TO_START,
    REMOVED,
    RUNNING_OK,
    STOPPING,
    STOPPING_REQUESTED_AT_RUNTIME,
    STOPPING_WAITING_TO_STOP,
    SUCCEEDED_OK,
    ExecutionState,
    HealthState,
)
from ankaios.common.workload import AddCondition, DeleteCondition, DeletedWorkload, InstanceName, WorkloadSpec
from tests.support.builders import a_workload
from tests.support.examples import examples

RUNNING, SUCCEEDED, FAILED, HEALTHY = AddCondition
IS_HEALTHY = replace(RUNNING_OK, health=HealthState("Healthy"))
LET_GO, RUNS = DeleteCondition.DEL_COND_NOT_PENDING_NOR_RUNNING, DeleteCondition.DEL_COND_RUNNING


def states(**known: ExecutionState | list[ExecutionState]) -> ParameterStorage:
    storage = ParameterStorage()
    for workload, given_states in known.items():
        for number, state in enumerate(given_states if isinstance(given_states, list) else [given_states]):
            storage.store(InstanceName(workload, str(number), "B"), state)
    return storage


def web(config: str = "one", **more: Any) -> WorkloadSpec:
    return a_workload("web", "A", config=config, **more)


def gone(spec: WorkloadSpec, **conditions: DeleteCondition) -> DeletedWorkload:
    return DeletedWorkload(spec.instance_name, conditions)


@pytest.mark.parametrize(
    ("condition", "state", "met"),
    [
        (RUNNING, RUNNING_OK, True),
        (RUNNING, SUCCEEDED_OK, False),
        (SUCCEEDED, SUCCEEDED_OK, True),
        (SUCCEEDED, RUNNING_OK, False),
        (FAILED, FAILED_EXEC_FAILED.because("Exit code: '1'"), True),
        (FAILED, FAILED_LOST, False),
        (HEALTHY, RUNNING_OK, False),
        (HEALTHY, replace(RUNNING_OK, health=HealthState("Starting")), False),
        (HEALTHY, replace(RUNNING_OK, health=HealthState("Unhealthy", "x")), False),
        (HEALTHY, replace(RUNNING_OK, health=HealthState("Healthy")), True),
        (HEALTHY, replace(FAILED_LOST, health=HealthState("Healthy")), False),
        (RUNNING, replace(RUNNING_OK, health=HealthState("Unhealthy", "x")), True),
    ],
)
def test_add_conditions(condition: AddCondition, state: ExecutionState, met: bool) -> None:
    """[utest->swdd~workload-add-conditions-for-dependencies~1]"""
    assert may_start({"db": condition}, states(db=state)) is met
    assert not may_start({"db": condition}, states())


def test_any_instance_of_a_dependency_is_sufficient_but_all_dependencies_are_needed() -> None:
    assert may_start({"db": RUNNING}, states(db=[FAILED_LOST, RUNNING_OK]))
    assert not may_start({"db": RUNNING, "api": RUNNING}, states(db=RUNNING_OK))
    assert may_start({}, states())


@pytest.mark.parametrize(
    ("state", "let_go", "runs"),
    [
        (RUNNING_OK, False, True),
        (PENDING_STARTING, False, False),
        (PENDING_INITIAL, False, False),
        (PENDING_WAITING_TO_START, True, True),
        (STOPPING, True, False),
        (STOPPING_REQUESTED_AT_RUNTIME, True, False),
        (AGENT_DISCONNECTED, True, False),
        (FAILED_LOST, True, False),
        (SUCCEEDED_OK, True, False),
    ],
)
def test_delete_conditions(state: ExecutionState, let_go: bool, runs: bool) -> None:
    """[utest->swdd~workload-delete-conditions-for-dependencies~1]"""
    assert may_stop({"ui": LET_GO}, states(ui=state)) is let_go
    assert may_stop({"ui": RUNS}, states(ui=state)) is runs
    assert may_stop({"ui": LET_GO}, states())


def test_all_instances_of_a_dependent_must_have_stopped() -> None:
    assert not may_stop({"ui": LET_GO}, states(ui=[SUCCEEDED_OK, RUNNING_OK]))


def test_a_create_waits_for_its_dependencies() -> None:
    scheduler, spec = DependencyScheduler(), web(dependencies={"db": RUNNING})
    decision = scheduler.schedule([CreateOperation(spec)], states())
    assert decision.ready == []
    assert decision.reports == [(spec.instance_name, PENDING_WAITING_TO_START)]
    decision = scheduler.recheck(["db"], states(db=PENDING_STARTING))
    assert (decision.ready, decision.reports) == ([], [])
    decision = scheduler.recheck(["db"], states(db=RUNNING_OK))
    assert (decision.ready, decision.reports) == ([CreateOperation(spec)], [])
    assert scheduler.entries == {}


def test_a_delete_waits_until_dependents_have_stopped() -> None:
    scheduler, deleted = DependencyScheduler(), gone(web(), ui=LET_GO)
    decision = scheduler.schedule([DeleteOperation(deleted)], states(ui=RUNNING_OK))
    assert decision.reports == [(deleted.instance_name, STOPPING_WAITING_TO_STOP)]
    assert scheduler.recheck(["ui"], states(ui=STOPPING)).ready == [DeleteOperation(deleted)]


def test_an_update_with_all_conditions_met_is_ready() -> None:
    update = UpdateOperation(web("two"), gone(web()))
    assert DependencyScheduler().schedule([update], states()).ready == [update]


def test_an_update_that_may_stop_but_not_start_stops_the_old_instance() -> None:
    scheduler, old, new = DependencyScheduler(), web(), web("two", dependencies={"db": RUNNING})
    decision = scheduler.schedule([UpdateOperation(new, gone(old))], states())
    assert decision.reports == [(new.instance_name, PENDING_WAITING_TO_START)]
    assert decision.ready == [DeleteBeforeUpdate(old.instance_name)]
    assert scheduler.entries["web"] == CreateOperation(new)
    assert scheduler.recheck(["db"], states(db=RUNNING_OK)).ready == [CreateOperation(new)]


def test_an_update_that_may_not_stop_waits_as_a_whole() -> None:
    scheduler, old, new = DependencyScheduler(), web(), web("two", dependencies={"db": RUNNING})
    update = UpdateOperation(new, gone(old, ui=LET_GO))
    decision = scheduler.schedule([update], states(ui=RUNNING_OK, db=RUNNING_OK))
    assert (decision.ready, decision.reports) == ([], [(old.instance_name, STOPPING_WAITING_TO_STOP)])
    assert scheduler.recheck(["db"], states(ui=RUNNING_OK)).reports == []
    decision = scheduler.recheck(["ui"], states(ui=SUCCEEDED_OK))
    assert decision.reports == [(new.instance_name, PENDING_WAITING_TO_START)]
    assert decision.ready == [DeleteBeforeUpdate(old.instance_name)]


def test_an_older_entry_is_discarded_by_any_newer_operation() -> None:
    scheduler, spec = DependencyScheduler(), web(dependencies={"db": RUNNING})
    scheduler.schedule([CreateOperation(spec)], states())
    decision = scheduler.schedule([DeleteOperation(gone(spec))], states())
    assert (decision.ready, decision.reports) == ([DeleteOperation(gone(spec))], [])
    assert scheduler.recheck(["db"], states(db=RUNNING_OK)).ready == []


def test_an_update_of_a_waiting_workload_removes_the_old_instance_and_needs_no_stop() -> None:
    scheduler, old, new = DependencyScheduler(), web(dependencies={"db": RUNNING}), web("two")
    scheduler.schedule([CreateOperation(old)], states())
    decision = scheduler.schedule([UpdateOperation(new, gone(old, ui=LET_GO))], states(ui=RUNNING_OK))
    assert decision.reports == [(old.instance_name, REMOVED)]
    assert decision.ready == [CreateOperation(new)]


def test_an_update_of_a_waiting_workload_with_the_same_id_reports_nothing_removed() -> None:
    scheduler, old = DependencyScheduler(), web(dependencies={"db": RUNNING})
    new = web(dependencies={"api": RUNNING})
    scheduler.schedule([CreateOperation(old)], states())
    decision = scheduler.schedule([UpdateOperation(new, gone(old))], states())
    assert decision.reports == [(new.instance_name, PENDING_WAITING_TO_START)]


def test_a_second_update_still_stops_the_running_instance() -> None:
    scheduler, first, second, third = DependencyScheduler(), web(), web("two"), web("three")
    busy = states(ui=RUNNING_OK)
    scheduler.schedule([UpdateOperation(second, gone(first, ui=LET_GO))], busy)
    decision = scheduler.schedule([UpdateOperation(third, gone(second, ui=LET_GO))], busy)
    assert decision.reports == [
        (second.instance_name, REMOVED),
        (first.instance_name, STOPPING_WAITING_TO_STOP),
    ]
    assert scheduler.recheck(["ui"], states()).ready == [UpdateOperation(third, gone(first, ui=LET_GO))]


def test_a_delete_during_a_waiting_update_stops_the_running_instance() -> None:
    scheduler, first, second = DependencyScheduler(), web(), web("two")
    scheduler.schedule([UpdateOperation(second, gone(first, ui=LET_GO))], states(ui=RUNNING_OK))
    decision = scheduler.schedule([DeleteOperation(gone(second))], states(ui=RUNNING_OK))
    assert decision.reports == [(second.instance_name, REMOVED)]
    assert decision.ready == [DeleteOperation(gone(first))]


def test_an_update_back_to_the_waiting_instance_keeps_it() -> None:
    scheduler, first, second = DependencyScheduler(), web(), web("two")
    scheduler.schedule([UpdateOperation(second, gone(first, ui=LET_GO))], states(ui=RUNNING_OK))
    decision = scheduler.schedule([UpdateOperation(second, gone(second))], states(ui=RUNNING_OK))
    assert (decision.ready, decision.reports) == ([UpdateOperation(second, gone(first))], [])


def test_a_finished_container_that_is_no_longer_desired_is_deleted() -> None:
    spec = web(dependencies={"db": RUNNING})
    entry = CreateOperation(spec, "c0")
    for operation, ready in (
        (DeleteOperation(gone(spec)), []),
        (UpdateOperation(web("two"), gone(spec)), [CreateOperation(web("two"))]),
    ):
        scheduler = DependencyScheduler()
        scheduler.schedule([entry], states())
        decision = scheduler.schedule([operation], states())
        assert (decision.abandoned, decision.ready, decision.reports) == ([entry], ready, [])


def test_a_waiting_restart_can_be_evaluated_again() -> None:
    entry = CreateOperation(web(dependencies={"db": RUNNING}), "c0")
    scheduler = DependencyScheduler()
    scheduler.schedule([entry], states())
    decision = scheduler.schedule([entry], states())
    assert decision.abandoned == []
    assert decision.reports == [(entry.spec.instance_name, PENDING_WAITING_TO_START)]
    assert scheduler.schedule([entry], states(db=RUNNING_OK)).ready == [entry]


def test_drop_reports_workloads_that_never_started_and_deletes_finished_containers() -> None:
    waits, old = web(dependencies={"db": RUNNING}), web("two")
    for operation, reports, abandoned in (
        (CreateOperation(waits), [(waits.instance_name, REMOVED)], []),
        (CreateOperation(waits, "c0"), [], [CreateOperation(waits, "c0")]),
        (UpdateOperation(waits, gone(old, ui=LET_GO)), [(waits.instance_name, REMOVED)], []),
        (DeleteOperation(gone(waits, ui=LET_GO)), [], []),
    ):
        scheduler = DependencyScheduler()
        scheduler.schedule([operation], states(ui=RUNNING_OK))
        decision = scheduler.drop("web")
        assert (decision.reports, decision.abandoned, scheduler.entries) == (reports, abandoned, {})
    assert DependencyScheduler().drop("web").reports == []


def test_a_create_in_place_of_a_waiting_delete_leaves_nothing_waiting() -> None:
    scheduler, spec = DependencyScheduler(), web()
    scheduler.schedule([DeleteOperation(gone(spec, ui=LET_GO))], states(ui=RUNNING_OK))
    assert scheduler.schedule([DeleteBeforeUpdate(spec.instance_name)], states()).ready == [
        DeleteBeforeUpdate(spec.instance_name)
    ]
    assert scheduler.entries == {}


def test_an_entry_replaced_by_a_delete_before_update_is_removed() -> None:
    scheduler, spec = DependencyScheduler(), web(dependencies={"db": RUNNING})
    scheduler.schedule([CreateOperation(spec)], states())
    assert scheduler.schedule([DeleteBeforeUpdate(spec.instance_name)], states()).reports == []


NAMES = ["a", "b", "c", "d"]
ADD = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(list(AddCondition)), max_size=2)
DEL = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(list(DeleteCondition)), max_size=2)
STATES = st.sampled_from(
    [
        RUNNING_OK,
        IS_HEALTHY,
        SUCCEEDED_OK,
        FAILED_EXEC_FAILED,
        PENDING_STARTING,
        PENDING_WAITING_TO_START,
        STOPPING,
        REMOVED,
    ]
)


class Naive:
    """Evaluates all operations again after every change."""

    def __init__(self) -> None:
        self.waiting: dict[str, Operation] = {}

    def ready(self, known: Mapping[str, ExecutionState]) -> list[Operation]:
        found: list[Operation] = []
        for name in sorted(self.waiting):
            operation = self.waiting[name]
            match operation:
                case CreateOperation(spec) if self.add_ok(spec.dependencies, known):
                    found.append(operation)
                    del self.waiting[name]
                case DeleteOperation(deleted) if self.del_ok(deleted.dependencies, known):
                    found.append(operation)
                    del self.waiting[name]
                case UpdateOperation(spec, deleted) if self.del_ok(deleted.dependencies, known):
                    if self.add_ok(spec.dependencies, known):
                        found.append(operation)
                        del self.waiting[name]
                    else:
                        found.append(DeleteBeforeUpdate(deleted.instance_name))
                        self.waiting[name] = CreateOperation(spec)
                case _:
                    pass
        return found

    @staticmethod
    def add_ok(dependencies: Mapping[str, AddCondition], known: Mapping[str, ExecutionState]) -> bool:
        wanted = {
            RUNNING: (RUNNING_OK, IS_HEALTHY),
            SUCCEEDED: (SUCCEEDED_OK,),
            FAILED: (FAILED_EXEC_FAILED,),
            HEALTHY: (IS_HEALTHY,),
        }
        return all(known.get(name) in wanted[condition] for name, condition in dependencies.items())

    @staticmethod
    def del_ok(conditions: Mapping[str, DeleteCondition], known: Mapping[str, ExecutionState]) -> bool:
        for name, condition in conditions.items():
            state = known.get(name)
            if state is None or state == PENDING_WAITING_TO_START:
                continue
            if condition is RUNS and state.state != "Running":
                return False
            if condition is LET_GO and state.state in ("Pending", "Running"):
                return False
        return True


@examples(80)
@given(st.data())
def test_the_ready_operations_are_those_of_a_naive_model(data: st.DataObject) -> None:
    scheduler, naive, storage = DependencyScheduler(), Naive(), ParameterStorage()
    known: dict[str, ExecutionState] = {}
    for _ in range(data.draw(st.integers(1, 12))):
        free = [name for name in NAMES if name not in naive.waiting]
        if bool(free) and data.draw(st.booleans()):
            name = data.draw(st.sampled_from(free))
            operation = an_operation(name, data)
            naive.waiting[name] = operation
            decision = scheduler.schedule([operation], storage)
        else:
            name, state = data.draw(st.sampled_from(NAMES)), data.draw(STATES)
            storage.store(InstanceName(name, "1", "B"), state)
            if state == REMOVED:
                known.pop(name, None)
            else:
                known[name] = state
            decision = scheduler.recheck([name], storage)
        assert sorted(decision.ready, key=repr) == sorted(naive.ready(known), key=repr)
        assert scheduler.entries == naive.waiting


def an_operation(name: str, data: st.DataObject) -> Operation:
    spec = a_workload(name, "A", config="two", dependencies=data.draw(ADD))
    deleted = DeletedWorkload(a_workload(name, "A").instance_name, data.draw(DEL))
    operations: list[Operation] = [CreateOperation(spec), UpdateOperation(spec, deleted), DeleteOperation(deleted)]
    return data.draw(st.sampled_from(operations))


def test_an_update_in_place_of_a_waiting_delete_keeps_the_delete_conditions() -> None:
    """A workload is deleted, waits for its dependent, and is added again: found by the simulation."""
    scheduler, ui_runs = DependencyScheduler(), states(ui=RUNNING_OK)
    scheduler.schedule([DeleteOperation(gone(web(), ui=LET_GO))], ui_runs)
    update = UpdateOperation(web("two"), gone(web()))
    assert scheduler.schedule([update], ui_runs).ready == []
    (waiting,) = scheduler.entries.values()
    assert scheduler.recheck(["ui"], states(ui=SUCCEEDED_OK)).ready == [waiting]
    assert isinstance(waiting, UpdateOperation) and waiting.spec == web("two")
