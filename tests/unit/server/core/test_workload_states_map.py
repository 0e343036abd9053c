"""[utest->swdd~state-map-for-workload-execution-states~2]"""

from ankaios.common.execution_state import (
    AGENT_DISCONNECTED,
    FAILED_LOST,
    NOT_SCHEDULED,
    PENDING_INITIAL,
    REMOVED,
    RUNNING_OK,
    ExecutionState,
    HealthState,
)
from ankaios.common.workload import InstanceName
from ankaios.server.core.workload_states_map import WorkloadStatesMap

WEB = InstanceName("web", "1", "A")
WEB_2 = InstanceName("web", "2", "A")
DB = InstanceName("db", "1", "B")
IDLE = InstanceName("idle", "1", "")


def an_empty_map() -> WorkloadStatesMap:
    return WorkloadStatesMap(lambda _: None, lambda *_: None)


def a_map() -> WorkloadStatesMap:
    states = an_empty_map()
    states.process([(WEB, RUNNING_OK), (WEB_2, FAILED_LOST.because("gone")), (DB, RUNNING_OK)])
    return states


def test_states_are_kept_in_the_form_in_which_they_are_read() -> None:
    running = {"additionalInfo": "", "state": "Running", "subState": "Ok"}
    lost = {"additionalInfo": "gone", "state": "Failed", "subState": "Lost"}
    assert a_map().form == {"A": {"web": {"1": running, "2": lost}}, "B": {"db": {"1": running}}}


def test_the_state_of_one_instance_is_found() -> None:
    assert a_map().get(WEB_2) == FAILED_LOST.because("gone")
    assert a_map().get(IDLE) is None


def test_states_of_one_agent_and_of_all_other_agents_are_found() -> None:
    assert a_map().of_agent("A") == [(WEB, RUNNING_OK), (WEB_2, FAILED_LOST.because("gone"))]
    assert a_map().all_except("A") == [(DB, RUNNING_OK)]
    assert a_map().of_agent("unknown") == []


def test_a_removed_workload_leaves_no_empty_maps() -> None:
    states = a_map()
    states.process([(DB, REMOVED), (WEB, REMOVED)])
    assert list(states.form) == ["A"]
    assert list(states.form["A"]["web"]) == ["2"]


def test_removing_an_unknown_instance_changes_nothing() -> None:
    states, before = a_map(), a_map().form
    states.process([(IDLE, REMOVED), (InstanceName("web", "3", "A"), REMOVED)])
    assert states.form == before


def test_new_workloads_are_pending_or_not_scheduled_and_known_ones_keep_their_state() -> None:
    """[utest->swdd~server-sets-state-of-new-workloads-to-pending~1]"""
    states = a_map()
    new = InstanceName("new", "1", "A")
    states.add_initial([WEB, new, IDLE])
    assert states.get(WEB) == RUNNING_OK
    assert states.get(new) == PENDING_INITIAL
    assert states.get(IDLE) == NOT_SCHEDULED


def test_all_states_of_a_lost_agent_become_disconnected_without_further_information() -> None:
    states = a_map()
    assert states.mark_disconnected("A") == [WEB, WEB_2]
    assert states.get(WEB) == states.get(WEB_2) == AGENT_DISCONNECTED
    assert states.get(DB) == RUNNING_OK


def test_a_change_is_announced_before_it_happens() -> None:
    seen: list[tuple[tuple[str, ...], bool]] = []
    states = WorkloadStatesMap(lambda path: seen.append((path, states.get(WEB) is not None)), lambda *_: None)
    states.put(WEB, RUNNING_OK)
    states.remove(WEB)
    assert seen == [(("A", "web", "1"), False), (("A", "web", "1"), True)]


def test_a_state_given_out_does_not_change_later() -> None:
    states = a_map()
    held = states.form["A"]["web"]["1"]
    states.put(WEB, FAILED_LOST)
    assert held["state"] == "Running"


def test_health_and_restarts_are_part_of_a_state() -> None:
    states = an_empty_map()
    state = ExecutionState("Running", "Ok", "healthy", HealthState("Healthy", "ok"), 2)
    states.put(InstanceName("w", "1", "a"), state)
    assert states.form["a"]["w"]["1"] == {
        "additionalInfo": "healthy",
        "state": "Running",
        "subState": "Ok",
        "health": {"status": "Healthy", "text": "ok"},
        "restarts": 2,
    }
    assert states.get(InstanceName("w", "1", "a")) == state


def test_instances_of_a_workload_are_found_on_all_agents_that_have_some() -> None:
    states, moved = a_map(), InstanceName("web", "1", "B")
    states.process([(moved, RUNNING_OK)])
    assert [name for name, _ in states.of_workload("web")] == [WEB, WEB_2, moved]
    states.process([(WEB, REMOVED)])
    assert [name for name, _ in states.of_workload("web")] == [WEB_2, moved]
    states.process([(WEB_2, REMOVED)])
    assert [name for name, _ in states.of_workload("web")] == [moved]
    states.process([(moved, REMOVED)])
    assert states.of_workload("web") == []
