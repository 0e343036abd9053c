from ankaios.agent.core.parameter_storage import ParameterStorage
from ankaios.common.execution_state import (
    FAILED_LOST,
    PENDING_STARTING,
    REMOVED,
    RUNNING_OK,
    STOPPING_REQUESTED_AT_RUNTIME,
    SUCCEEDED_OK,
)
from ankaios.common.workload import InstanceName

OWN = InstanceName("web", "1", "A")
OTHER = InstanceName("web", "2", "B")


def test_states_are_found_by_workload_name_for_any_agent_and_id() -> None:
    """[utest->swdd~agent-manager-stores-all-workload-states~1]"""
    storage = ParameterStorage()
    storage.store(OWN, RUNNING_OK)
    storage.store(OTHER, SUCCEEDED_OK)
    assert list(storage.states_of("web")) == [RUNNING_OK, SUCCEEDED_OK]
    assert storage.state_of(OTHER) == SUCCEEDED_OK
    assert list(storage.states_of("unknown")) == []


def test_a_removed_state_is_not_stored() -> None:
    """[utest->swdd~agent-manager-stores-all-workload-states~1]"""
    storage = ParameterStorage()
    storage.store(OWN, RUNNING_OK)
    storage.store(OTHER, RUNNING_OK)
    storage.store(OWN, REMOVED)
    storage.store(OWN, REMOVED)
    assert list(storage.states_of("web")) == [RUNNING_OK]
    storage.store(OTHER, REMOVED)
    assert list(storage.states_of("web")) == []


def test_a_stopping_state_is_not_replaced_by_a_running_state() -> None:
    storage = ParameterStorage()
    assert storage.report(OWN, STOPPING_REQUESTED_AT_RUNTIME) == STOPPING_REQUESTED_AT_RUNTIME
    assert storage.report(OWN, RUNNING_OK) == STOPPING_REQUESTED_AT_RUNTIME
    assert storage.report(OWN, FAILED_LOST) == STOPPING_REQUESTED_AT_RUNTIME
    assert storage.state_of(OWN) == STOPPING_REQUESTED_AT_RUNTIME
    assert storage.report(OWN, PENDING_STARTING) == PENDING_STARTING


def test_only_states_of_other_agents_are_deleted() -> None:
    storage = ParameterStorage()
    storage.store(OWN, RUNNING_OK)
    storage.store(OTHER, SUCCEEDED_OK)
    assert storage.instances() == [OWN, OTHER]
    assert storage.forget_other_agents("A") == {"web"}
    assert storage.instances() == [OWN]
    assert list(storage.states_of("web")) == [RUNNING_OK]
    assert storage.forget_other_agents("A") == set()
