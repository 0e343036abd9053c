from ankaios.common.execution_state import RUNNING_OK
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.server.core.state_view import StateView
from tests.unit.server.scenario import H, Scenario, a_form, a_state, the_response, web

PAIR = {"additionalInfo": "", "state": "Running", "subState": "Ok"}
WEB = {**a_form(config="image: {{img}}"), "restartPolicy": "NEVER", "configs": {"img": "image"}}
RENDERED = {**a_form(), "restartPolicy": "NEVER"}


def a_scenario() -> Scenario:
    scenario = Scenario()
    scenario.hello("n1", {"zone": "front"})
    scenario.update(
        a_state({"web": a_form(config="image: {{img}}", configs={"img": "image"})}, configs={"image": "alpine:3"})
    )
    scenario.report("n1", {web(): RUNNING_OK})
    return scenario


def message_of(scenario: Scenario, *masks: str) -> base.CompleteState:
    state = base.CompleteState()
    assert StateView(scenario.server.state.tree).fill(state, masks)
    return state


def test_the_complete_state_is_answered_if_no_mask_is_given() -> None:
    """[utest->swdd~server-provides-interface-get-complete-state~2]"""
    assert a_scenario().get() == {
        "desiredState": {"apiVersion": "v1", "workloads": {"web": WEB}, "configs": {"image": "alpine:3"}},
        "workloadStates": {"n1": {"web": {H: PAIR}}},
        "agents": {"n1": {"tags": {"zone": "front"}}},
        "effectiveState": {"apiVersion": "v1", "workloads": {"web": RENDERED}},
    }


def test_maps_that_are_optional_are_in_the_state_only_while_they_have_entries() -> None:
    state = Scenario().server.state
    state.replace_device_instance("cam-1", {"capacity": 1})
    assert state.tree["deviceInstances"] == {"cam-1": {"capacity": 1}}
    state.replace_device_instance("cam-1", None)
    assert "deviceInstances" not in state.tree


def test_an_empty_server_answers_with_empty_parts() -> None:
    """[utest->swdd~server-starts-without-startup-config~1]"""
    assert Scenario().get() == {
        "desiredState": {"apiVersion": "v1", "workloads": {}},
        "workloadStates": {},
        "agents": {},
        "effectiveState": {"apiVersion": "v1", "workloads": {}},
    }


def test_without_masks_every_optional_part_is_filled() -> None:
    state = message_of(a_scenario())
    for part in (state.desiredState, state.effectiveState):
        assert part.HasField("configs")
        workload = part.workloads.workloads["web"]
        for name in ("restartPolicy", "dependencies", "tags", "controlInterfaceAccess", "configs", "files"):
            assert workload.HasField(name), name
    assert state.workloadStates.agentStateMap["n1"].wlNameStateMap["web"].idStateMap[H].HasField("additionalInfo")


def test_an_agent_has_tags_always_and_a_status_only_after_its_first_report() -> None:
    scenario = Scenario()
    scenario.hello("n1")
    agent = message_of(scenario).agents.agents["n1"]
    assert agent.HasField("tags")
    assert not agent.HasField("status")
    scenario.load("n1", 0, 0)
    assert message_of(scenario).agents.agents["n1"].HasField("status")


def test_with_masks_empty_parts_are_unset() -> None:
    state = message_of(a_scenario(), "desiredState.workloads", "agents")
    workload = state.desiredState.workloads.workloads["web"]
    assert workload.HasField("configs")
    assert not workload.HasField("tags")
    assert not state.HasField("workloadStates")
    assert not state.HasField("effectiveState")


def test_masks_select_exactly_what_they_name_and_the_version() -> None:
    """[utest->swdd~server-filters-get-complete-state-result~2]"""
    scenario = a_scenario()
    assert scenario.get("desiredState.workloads.web.agent") == {
        "desiredState": {"apiVersion": "v1", "workloads": {"web": {"agent": "n1"}}}
    }
    assert scenario.get("effectiveState.workloads.web.runtimeConfig") == {
        "effectiveState": {"apiVersion": "v1", "workloads": {"web": {"runtimeConfig": "image: alpine:3"}}}
    }
    assert scenario.get("agents.n1.tags") == {"agents": {"n1": {"tags": {"zone": "front"}}}}
    assert scenario.get("workloadStates.n1.web") == {"workloadStates": {"n1": {"web": {H: PAIR}}}}
    assert scenario.get("desiredStateAndMore") == {"desiredState": {"apiVersion": "v1"}}


def test_wildcards_match_every_key_at_their_position() -> None:
    """[utest->swdd~server-filters-get-complete-state-result-with-wildcards~1]"""
    scenario = a_scenario()
    scenario.update(a_state({"db": a_form(agent="n2")}), "desiredState.workloads.db")
    assert scenario.get("desiredState.workloads.*.agent") == {
        "desiredState": {"apiVersion": "v1", "workloads": {"web": {"agent": "n1"}, "db": {"agent": "n2"}}}
    }
    assert scenario.get("workloadStates.*.db.*.additionalInfo") == {
        "workloadStates": {"n2": {"db": {H: {"additionalInfo": ""}}}}
    }
    assert scenario.get("*.workloads.db.agent") == {
        name: {"apiVersion": "v1", "workloads": {"db": {"agent": "n2"}}} for name in ("desiredState", "effectiveState")
    }
    assert scenario.get("*") == scenario.get()


def test_a_selected_state_includes_its_substate_and_vice_versa() -> None:
    scenario = a_scenario()
    pair = {"workloadStates": {"n1": {"web": {H: {"state": "Running", "subState": "Ok"}}}}}
    assert scenario.get(f"workloadStates.n1.web.{H}.state") == pair
    assert scenario.get("workloadStates.*.*.*.subState") == pair


def test_the_state_of_a_workload_that_is_not_scheduled_is_found_under_the_empty_agent() -> None:
    scenario = Scenario()
    scenario.update(a_state({"web": a_form(agent="")}))
    expected = {"workloadStates": {"": {"web": {H: {"state": "NotScheduled", "subState": "NotScheduled"}}}}}
    assert scenario.get("workloadStates..web.*.state") == expected


def test_masks_without_a_match_are_ignored() -> None:
    scenario = a_scenario()
    for nowhere in ("unknown", "workloadStates.n9", "agents.n1.tags.zone.more", "desiredState..", "a" + ".a" * 9999):
        assert scenario.get(nowhere, "agents.n1.tags") | {"desiredState": 0} == {
            "agents": {"n1": {"tags": {"zone": "front"}}},
            "desiredState": 0,
        }


def test_an_empty_mask_is_no_mask_and_the_answer_is_empty() -> None:
    assert a_scenario().get("") == {}
    assert a_scenario().get("desiredState", "") == {}


def test_unchanged_workloads_are_answered_from_the_cache_and_changed_ones_are_not() -> None:
    scenario = a_scenario()
    view = StateView(scenario.server.state.tree)
    first, second, third = base.CompleteState(), base.CompleteState(), base.CompleteState()
    assert view.fill(first, [])
    assert view.fill(second, [])
    assert first == second
    scenario.update(a_state({"web": {"tags": {"new": "1"}}}), "desiredState.workloads.web.tags")
    assert view.fill(third, [])
    assert third.desiredState.workloads.workloads["web"].tags.tags == {"new": "1"}
    assert len(view._messages) == 2, "only what is in the state is kept"


def test_devices_are_shown_if_there_are_any() -> None:
    scenario = Scenario()
    instance = {"configurationName": "cam", "cdiName": "c", "capacity": 1, "shared": False}
    scenario.server.state.replace_device_instance("cam-1", instance)
    device = {"discoveryHandler": {"name": "udev"}}
    scenario.update(
        {"desiredState": {"apiVersion": "v1", "deviceConfigurations": {"cam": device}}},
        "desiredState.deviceConfigurations.cam",
    )
    assert scenario.get()["deviceInstances"] == {"cam-1": instance}
    assert scenario.get()["desiredState"]["deviceConfigurations"] == {"cam": device}
    assert scenario.get("deviceInstances.*.capacity") == {"deviceInstances": {"cam-1": {"capacity": 1}}}
    scenario.server.state.replace_device_instance("cam-1", None)
    assert "deviceInstances" not in scenario.get()


def test_the_answer_contains_the_id_of_the_request() -> None:
    """[utest->swdd~server-includes-id-in-control-interface-response~1]"""
    effects = Scenario().ask("my@id", completeStateRequest=base.CompleteStateRequest())
    response = the_response(effects)
    assert response.requestId == "cli-conn-1@my@id"
    assert COMPLETE_STATE.to_form(response.completeStateResponse.completeState)
