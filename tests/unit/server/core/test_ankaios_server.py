"""The effects of each message: the receivers, the contents and their order."""

from typing import NoReturn

import pytest

from ankaios.common.execution_state import PENDING_STARTING, REMOVED, RUNNING_OK, SUCCEEDED_OK
from ankaios.common.execution_state_conversion import execution_state_to_pb
from ankaios.common.messages import AgentGone, ClientGone, FromAgent, FromClient, Respond, ToAgent
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_to_pb, workload_state_to_pb
from ankaios.common.workload import InstanceName
from ankaios.server.core.owned_requests import MAX_OPEN_REQUESTS
from ankaios.server.core.replies import HooksFinished, NextChange, RunHooks, SecondPassed
from ankaios.server.core.update_rejected import HookVeto
from ankaios.server.core.update_request_handler import MAX_WAITING_UPDATES
from tests.unit.server.scenario import (
    H,
    Scenario,
    a_form,
    a_state,
    altered,
    effects_as_lines,
    error_of,
    events_of,
    success_of,
    the_response,
    web,
)

DB = InstanceName.of("db", "n2", "image: alpine:3")


def two_agents() -> Scenario:
    """Agents n1 and n2, with the running workloads web and db."""
    scenario = Scenario()
    scenario.hello("n1", {"zone": "front"})
    scenario.hello("n2")
    scenario.update(a_state({"web": a_form("n1"), "db": a_form("n2")}))
    scenario.report("n1", {web(): RUNNING_OK})
    scenario.report("n2", {DB: RUNNING_OK})
    return scenario


# --- agents -----------------------------------------------------------------------------------------------------------


def test_the_first_agent_gets_its_workloads_and_no_states() -> None:
    """[utest->swdd~server-sends-all-workloads-on-start~2]
    [utest->swdd~agent-from-agent-field~1]
    """
    scenario = Scenario()
    templated = a_form("{{a}}", configs={"a": "k"})
    scenario.update(a_state({"web": templated, "other": a_form("n1x")}, configs={"k": "n1"}))
    scenario.server.state.workload_states.form.clear()
    (hello,) = scenario.hello("n1")
    assert isinstance(hello, ToAgent)
    (added,) = hello.message.serverHello.addedWorkloads
    assert added.instanceName == instance_name_to_pb(web())
    assert added.workload.agent == "n1"
    for part in ("restartPolicy", "dependencies", "tags", "controlInterfaceAccess", "configs", "files"):
        assert added.workload.HasField(part), part


def test_an_agent_without_workloads_is_greeted() -> None:
    assert effects_as_lines(Scenario().hello("n1")) == ["n1: hello +[]"]
    scenario = Scenario()
    scenario.update(a_state({"idle": a_form("")}))
    assert effects_as_lines(scenario.hello(""))[-1] == ": hello +[]", "workloads that are not scheduled are not sent"


def test_a_newly_connected_agent_receives_the_states_of_the_others_first() -> None:
    """[utest->swdd~server-informs-a-newly-connected-agent-workload-states~1]"""
    scenario = two_agents()
    assert effects_as_lines(scenario.hello("n1")) == ["n1: states [db.n2=Running(Ok)]", "n1: hello +[web]"]


def test_a_connected_agent_is_stored_with_its_tags() -> None:
    """[utest->swdd~server-stores-newly-connected-agent~2]"""
    scenario = two_agents()
    assert scenario.get("agents") == {"agents": {"n1": {"tags": {"zone": "front"}}, "n2": {}}}
    scenario.hello("n1")
    assert scenario.get("agents.n1") == {"agents": {"n1": {}}}


def test_reported_states_are_kept_and_forwarded() -> None:
    """[utest->swdd~server-stores-workload-state~1]
    [utest->swdd~server-forwards-workload-state~1]
    """
    scenario = two_agents()
    assert effects_as_lines(scenario.report("n1", {web(): SUCCEEDED_OK.because("done")})) == [
        "all: states [web.n1=Succeeded(Ok)]"
    ]
    state = {"additionalInfo": "done", "state": "Succeeded", "subState": "Ok"}
    assert scenario.get("workloadStates.n1") == {"workloadStates": {"n1": {"web": {H: state}}}}


def test_a_removed_workload_is_deleted_from_the_states_and_forwarded_as_removed() -> None:
    scenario = two_agents()
    assert effects_as_lines(scenario.report("n1", {web(): REMOVED})) == ["all: states [web.n1=Removed]"]
    assert list(scenario.get("workloadStates")["workloadStates"]) == ["n2"]


def test_the_delete_conditions_of_a_removed_workload_are_deleted() -> None:
    """[utest->swdd~server-cleans-up-state~1]
    [utest->swdd~server-removes-obsolete-delete-graph-entires~1]
    """
    scenario = Scenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form(dependencies={"db": "ADD_COND_RUNNING"}), "db": a_form()}))
    scenario.update({}, "desiredState.workloads.web")
    scenario.report("n1", {InstanceName.of("web", "n1", "image: alpine:3"): REMOVED})
    assert effects_as_lines(scenario.update({}, "desiredState.workloads.db"))[0] == "n1: update +[] -[db]"


def test_a_delete_waits_for_dependents_that_were_updated_together_with_the_workload() -> None:
    """The end of the old instances must not drop the conditions that the new instances need."""
    scenario = Scenario()
    scenario.hello("n1")
    needs = {"web": "ADD_COND_RUNNING"}
    scenario.update(a_state({"late": a_form(dependencies=needs), "web": a_form()}))
    scenario.update(a_state({"late": a_form(config="new", dependencies=needs), "web": a_form(config="new")}))
    scenario.report("n1", {InstanceName.of(name, "n1", "image: alpine:3"): REMOVED for name in ("late", "web")})
    assert effects_as_lines(scenario.update({}, "desiredState.workloads.web"))[0] == "n1: update +[] -[web['late']]"


def test_a_delete_waits_for_dependents_after_an_update_that_never_started() -> None:
    """Agents report a replacement that was replaced before it started as removed."""
    scenario = Scenario()
    scenario.hello("n1")
    scenario.update(a_state({"late": a_form(dependencies={"web": "ADD_COND_RUNNING"}), "web": a_form()}))
    scenario.update(a_state({"late": a_form(dependencies={"web": "ADD_COND_RUNNING"}), "web": a_form(tags={"a": "b"})}))
    never_started = a_form(config="new", tags={"a": "b"})
    scenario.update({"desiredState": {"workloads": {"web": never_started}}}, "desiredState.workloads.web")
    scenario.report("n1", {InstanceName.of("web", "n1", "new"): REMOVED})
    assert effects_as_lines(scenario.update({}, "desiredState.workloads.web"))[0] == "n1: update +[] -[web['late']]"


@pytest.mark.parametrize(
    "wrong",
    [
        base.WorkloadState(),
        base.WorkloadState(instanceName=instance_name_to_pb(web())),
        base.WorkloadState(executionState=execution_state_to_pb(RUNNING_OK)),
        base.WorkloadState(
            instanceName=instance_name_to_pb(web()), executionState=base.ExecutionState(running=base.RUNNING_OK)
        ),
        base.WorkloadState(
            instanceName=instance_name_to_pb(web()),
            executionState=base.ExecutionState(additionalInfo="", failed=99),  # type: ignore[arg-type]
        ),
        workload_state_to_pb(DB, SUCCEEDED_OK),
    ],
)
def test_an_empty_state_or_one_of_another_agent_is_dropped_and_others_are_kept(wrong: base.WorkloadState) -> None:
    scenario = two_agents()
    states = [wrong, workload_state_to_pb(web(), SUCCEEDED_OK)]
    effects = scenario.from_agent("n1", updateWorkloadState=grpc.UpdateWorkloadState(workloadStates=states))
    assert effects_as_lines(effects) == ["all: states [web.n1=Succeeded(Ok)]"]
    effects = scenario.from_agent("n1", updateWorkloadState=grpc.UpdateWorkloadState(workloadStates=[wrong]))
    assert effects == []
    assert scenario.server.state.workload_states.get(DB) == RUNNING_OK


def test_the_load_of_known_agents_is_kept() -> None:
    """[utest->swdd~server-receives-resource-availability~2]"""
    scenario = two_agents()
    assert scenario.load("n1", 7, 2048) == []
    assert scenario.load("unknown", 1, 1) == []
    assert scenario.get("agents.*.status") == {"agents": {"n1": {"status": {"cpuUsage": 7, "freeMemory": 2048}}}}
    scenario.from_agent("n1", AgentLoadStatus=grpc.AgentLoadStatus(agent_name="n1"))
    assert scenario.get("agents.n1.status") == {"agents": {"n1": {"status": {"cpuUsage": 0, "freeMemory": 0}}}}


def test_a_lost_agent_is_removed_and_its_workloads_are_disconnected() -> None:
    """[utest->swdd~server-removes-disconnected-agents-from-state~2]
    [utest->swdd~server-set-workload-state-on-disconnect~1]
    [utest->swdd~server-distribute-workload-state-on-disconnect~1]
    """
    scenario = two_agents()
    scenario.report("n1", {web(): SUCCEEDED_OK.because("information that is no longer true")})
    assert effects_as_lines(scenario.gone("n1")) == ["all: states [web.n1=AgentDisconnected]"]
    assert list(scenario.get("agents")["agents"]) == ["n2"]
    state = {"additionalInfo": "", "state": "AgentDisconnected", "subState": "AgentDisconnected"}
    assert scenario.get("workloadStates.n1") == {"workloadStates": {"n1": {"web": {H: state}}}}


def test_the_disconnection_of_an_agent_without_workloads_or_name_sends_nothing() -> None:
    scenario = Scenario()
    scenario.hello("n1")
    assert scenario.gone("n1") == []
    assert scenario.gone("never seen") == []


def test_an_agent_receives_all_changes_when_it_reconnects() -> None:
    scenario = two_agents()
    scenario.gone("n1")
    scenario.update(a_state({"new": a_form("n1")}), "desiredState.workloads.new")
    assert effects_as_lines(scenario.hello("n1"))[-1] == "n1: hello +[new, web]"


@pytest.mark.parametrize(
    "odd", [{}, {"goodbye": grpc.Goodbye()}, {"commanderHello": grpc.CommanderHello(protocolVersion="1.0.0")}]
)
def test_messages_without_a_meaning_for_the_server_are_ignored(odd: dict[str, object]) -> None:
    scenario = two_agents()
    before = scenario.get()
    assert scenario.from_agent("n1", **odd) == []
    assert scenario.get() == before


# --- requests ---------------------------------------------------------------------------------------------------------


def test_the_desired_state_is_answered_as_it_was_written() -> None:
    """[utest->swdd~server-provides-interface-get-complete-state~2]"""
    scenario = Scenario()
    scenario.update(a_state({"web": a_form(config="{{a}}", configs={"a": "k"})}, configs={"k": "v"}))
    workloads = scenario.get("desiredState.workloads")["desiredState"]["workloads"]
    assert workloads["web"]["runtimeConfig"] == "{{a}}"


def test_a_workload_may_send_the_same_requests_as_the_command_line() -> None:
    """[utest->swdd~server-provides-update-desired-state-interface~1]"""
    scenario = two_agents()
    request_id = "n1@web@my@id"
    effects = scenario.ask_through(
        "n1", request_id, completeStateRequest=base.CompleteStateRequest(fieldMask=["agents.n1.tags"])
    )
    assert the_response(effects).requestId == request_id
    update = base.UpdateStateRequest(updateMask=["desiredState.workloads.db"])
    update.newState.SetInParent()
    effects = scenario.ask_through("n1", request_id, updateStateRequest=update)
    assert effects_as_lines(effects) == ["n2: update +[] -[db]", f"{request_id}: success +[] -[db.n2]"]


def test_a_successful_update_answers_with_the_names_of_what_changed() -> None:
    """[utest->swdd~server-update-state-success-response~1]"""
    scenario = Scenario()
    effects = scenario.update(a_state({"web": a_form()}), request_id="x")
    assert success_of(effects) == ([str(web())], [])
    assert the_response(effects).requestId == "cli-conn-1@x"


def test_a_request_without_content_is_answered_with_an_error() -> None:
    assert error_of(Scenario().ask("r")) == "The request has no content that is known here."
    assert the_response(Scenario().ask("r")).requestId == "cli-conn-1@r"


def test_requests_that_are_stored_need_an_id_with_the_requester() -> None:
    scenario = two_agents()
    for content in (
        {"completeStateRequest": base.CompleteStateRequest(subscribeForEvents=True)},
        {"logsRequest": base.LogsRequest(workloadNames=[instance_name_to_pb(web())])},
        {"logsCancelRequest": base.LogsCancelRequest()},
        {"eventsCancelRequest": base.EventsCancelRequest()},
    ):
        assert scenario.ask("", **content) == []
        for short in ("", "n1@1", "n2@web@1"):
            assert scenario.ask_through("n1", short, **content) == []
    scenario.ask(
        "", updateStateRequest=base.UpdateStateRequest(newState=base.CompleteState(), updateMask=["desiredState"])
    )
    assert scenario.get("desiredState.workloads") == {"desiredState": {"apiVersion": "v1", "workloads": {}}}


def test_agent_tags_are_replaced_for_connected_agents() -> None:
    scenario = two_agents()
    assert success_of(scenario.update({"agents": {"n1": {"tags": {"k": "v", "o": "p"}}}}, "agents.n1.tags.k")) == (
        [],
        [],
    )
    assert scenario.get("agents.n1") == {"agents": {"n1": {"tags": {"k": "v"}}}}
    scenario.update({"agents": {"n1": {}, "n9": {"tags": {"x": "y"}}}}, "agents")
    assert scenario.get("agents") == {"agents": {"n1": {}, "n2": {}}}


# --- events -----------------------------------------------------------------------------------------------------------


def test_a_subscription_is_answered_with_the_current_state_and_then_with_events() -> None:
    """[utest->swdd~server-stores-new-event-subscription~1]
    [utest->swdd~server-sends-state-differences-as-events~1]
    """
    scenario = two_agents()
    answer = the_response(scenario.subscribe("desiredState.workloads.*.agent"))
    assert not answer.completeStateResponse.HasField("alteredFields")
    assert set(answer.completeStateResponse.completeState.desiredState.workloads.workloads) == {"web", "db"}
    effects = scenario.update(a_state({"new": a_form("n1")}), "desiredState.workloads.new")
    assert effects_as_lines(effects) == [
        "cli-conn-1@s: event +[desiredState.workloads.new.agent] ~[] -[]",
        "n1: update +[new] -[]",
        "cli-conn-1@u: success +[new.n1] -[]",
    ]


def test_an_update_without_changed_workloads_is_answered_before_its_events() -> None:
    scenario = two_agents()
    scenario.subscribe("desiredState.configs")
    effects = scenario.update({"desiredState": {"apiVersion": "v1", "configs": {"k": "v"}}}, "desiredState.configs.k")
    assert effects_as_lines(effects) == [
        "cli-conn-1@u: success +[] -[]",
        "cli-conn-1@s: event +[desiredState.configs] ~[] -[]",
    ]


def test_a_cancelled_subscription_gets_no_more_events() -> None:
    """[utest->swdd~server-removes-event-subscription~1]"""
    scenario = two_agents()
    scenario.subscribe()
    cancelled = the_response(scenario.ask("s", eventsCancelRequest=base.EventsCancelRequest()))
    assert cancelled.WhichOneof("ResponseContent") == "eventsCancelAccepted"
    assert events_of(scenario.hello("n3")) == []
    unknown = the_response(scenario.ask("never", eventsCancelRequest=base.EventsCancelRequest()))
    assert unknown.WhichOneof("ResponseContent") == "eventsCancelAccepted"


def test_a_disconnected_command_line_gets_no_more_events() -> None:
    """[utest->swdd~server-removes-event-subscription-for-disconnected-cli~1]"""
    scenario = two_agents()
    scenario.subscribe()
    scenario.subscribe(connection="cli-conn-2")
    scenario.goodbye()
    assert [line.split("@")[0] for line in effects_as_lines(scenario.hello("n3")) if "event" in line] == ["cli-conn-2"]


def test_the_same_id_again_replaces_the_masks_of_a_subscription() -> None:
    scenario = two_agents()
    scenario.subscribe("agents")
    scenario.subscribe("desiredState")
    assert events_of(scenario.hello("n3")) == []


def test_a_new_agent_causes_an_event() -> None:
    """[utest->swdd~server-sends-event-for-newly-connected-agent~1]"""
    scenario = Scenario()
    scenario.subscribe("agents")
    ((added, _, _, state),) = events_of(scenario.hello("n1", {"a": "b"}))
    assert added == ["agents.n1"]
    assert state == {"agents": {"n1": {"tags": {"a": "b"}}}}


def test_a_lost_agent_causes_an_event_before_its_own_subscriptions_end() -> None:
    """[utest->swdd~server-sends-events-for-disconnected-agent~1]"""
    scenario = two_agents()
    scenario.subscribe("agents", "workloadStates.*.*.*.state")
    mine = base.CompleteStateRequest(subscribeForEvents=True)
    scenario.ask_through("n1", "n1@web@e", completeStateRequest=mine)
    lines = effects_as_lines(scenario.gone("n1"))
    state = f"workloadStates.n1.web.{H}"
    assert lines == [
        f"cli-conn-1@s: event +[] ~[{state}.state] -[agents.n1]",
        f"n1@web@e: event +[] ~[{state}.state, {state}.subState] -[agents.n1]",
        "all: states [web.n1=AgentDisconnected]",
    ]
    assert [line for line in effects_as_lines(scenario.hello("n1")) if "n1@web@e" in line] == []


def test_the_load_of_an_agent_causes_an_event() -> None:
    """[utest->swdd~server-sends-event-for-updated-agent-resource-availability~1]"""
    scenario = two_agents()
    scenario.subscribe("agents")
    assert altered(scenario.load("n1", 1, 100)) == (["agents.n1.status"], [], [])
    assert altered(scenario.load("n1", 2, 100)) == ([], ["agents.n1.status.cpuUsage"], [])
    assert altered(scenario.load("n1", 2, 100)) is None


def test_initial_states_cause_an_event() -> None:
    """[utest->swdd~server-sends-event-for-initial-workload-states~1]"""
    scenario = two_agents()
    scenario.subscribe("workloadStates")
    effects = scenario.update(a_state({"new": a_form("n1")}), "desiredState.workloads.new")
    assert altered(effects) == (["workloadStates.n1.new"], [], [])


def test_reported_states_cause_an_event() -> None:
    """[utest->swdd~server-sends-event-for-updated-workload-states~1]"""
    scenario = two_agents()
    scenario.subscribe("workloadStates.n1")
    effects = scenario.report("n1", {web(): SUCCEEDED_OK})
    assert effects_as_lines(effects) == [
        f"cli-conn-1@s: event +[] ~[workloadStates.n1.web.{H}.state] -[]",
        "all: states [web.n1=Succeeded(Ok)]",
    ]


def test_removed_states_cause_an_event() -> None:
    """Not an event for each state: the original lists the path of the removed entry, see docs/differences.md.

    [utest->swdd~server-sends-event-for-removed-workload-states~1]
    """
    scenario = two_agents()
    scenario.subscribe("workloadStates")
    assert altered(scenario.report("n1", {web(): REMOVED})) == ([], [], ["workloadStates.n1"])


def test_a_removed_workload_gets_no_more_events() -> None:
    """[utest->swdd~server-removes-subscription-for-deleted-subscriber-workload~1]"""
    scenario = two_agents()
    mine = base.CompleteStateRequest(subscribeForEvents=True)
    scenario.ask_through("n1", "n1@web@e", completeStateRequest=mine)
    scenario.report("n1", {web(): RUNNING_OK})
    assert any("n1@web@e" in line for line in effects_as_lines(scenario.hello("n4")))
    assert "n1@web@e" in effects_as_lines(scenario.report("n1", {web(): REMOVED}))[0]
    assert not any("n1@web@e" in line for line in effects_as_lines(scenario.hello("n3")))


def test_changed_tags_of_agents_cause_an_event() -> None:
    scenario = two_agents()
    scenario.subscribe("agents")
    effects = scenario.update({"agents": {"n2": {"tags": {"k": "v"}}}}, "agents.n2.tags")
    assert altered(effects) == (["agents.n2.tags"], [], [])


def test_invalid_masks_subscribe_to_nothing() -> None:
    scenario = two_agents()
    answer = the_response(scenario.subscribe("agents", ""))
    assert answer.completeStateResponse.completeState == base.CompleteState()
    assert answer.completeStateResponse.HasField("completeState")
    assert events_of(scenario.hello("n3")) == []


def test_the_number_of_open_requests_of_one_requester_is_limited() -> None:
    scenario = two_agents()
    for number in range(MAX_OPEN_REQUESTS):
        assert the_response(scenario.subscribe("agents", request_id=str(number))).HasField("completeStateResponse")
        scenario.ask_logs([web()], request_id=f"l{number}")
    assert "100 event subscriptions of this requester are open" in error_of(scenario.subscribe(request_id="more"))
    assert "100 log requests of this requester are open" in error_of(scenario.ask_logs([web()], request_id="more"))
    assert the_response(scenario.subscribe("agents", connection="cli-conn-2")).HasField("completeStateResponse")


def test_the_number_of_masks_of_one_subscription_is_limited() -> None:
    masks = [f"agents.n{number}" for number in range(1001)]
    text = "cannot subscribe: 1001 field masks are more than the limit of 1000"
    assert error_of(Scenario().subscribe(*masks)) == text
    assert the_response(Scenario().subscribe(*masks[:-1])).HasField("completeStateResponse")


# --- logs -------------------------------------------------------------------------------------------------------------


def test_logs_of_desired_workloads_are_requested_from_their_agents() -> None:
    """[utest->swdd~server-handles-logs-request-message~1]"""
    scenario = two_agents()
    other_config = InstanceName("web", "another-id", "n1")
    effects = scenario.ask_logs([web(), DB, other_config], follow=True, tail=3, since="s", until="u")
    assert effects_as_lines(effects) == [
        "n1: logs cli-conn-1@l of [web]",
        "n2: logs cli-conn-1@l of [db]",
        "cli-conn-1@l: logs accepted [db, web]",
    ]
    first = effects[0]
    assert isinstance(first, ToAgent)
    request = first.message.logsRequest.logsRequest
    assert (request.follow, request.tail, request.since, request.until) == (True, 3, "s", "u")


def test_a_logs_request_is_sent_to_an_agent_that_connects_later() -> None:
    """After a failover a workload repeats its request before the agent of the other workload is connected."""
    scenario = two_agents()
    scenario.gone("n2")
    scenario.ask_logs([DB], follow=True)
    assert "n2: logs cli-conn-1@l of [db]" in effects_as_lines(scenario.hello("n2"))
    scenario.gone("n2")
    assert "n2: logs cli-conn-1@l of [db]" not in effects_as_lines(scenario.hello("n2"))
    scenario.gone("n2")
    scenario.ask_logs([DB], follow=True)
    scenario.goodbye()
    assert not any("logs" in line for line in effects_as_lines(scenario.hello("n2")))


def test_unset_options_of_a_logs_request_stay_unset() -> None:
    first = two_agents().ask_logs([web()])[0]
    assert isinstance(first, ToAgent)
    request = first.message.logsRequest.logsRequest
    assert not any(request.HasField(field) for field in ("follow", "tail", "since", "until"))


def test_a_logs_request_for_unknown_workloads_accepts_no_workloads() -> None:
    """[utest->swdd~server-handles-logs-request-message~1]"""
    scenario = two_agents()
    assert effects_as_lines(scenario.ask_logs([InstanceName("x", "y", "n1")])) == ["cli-conn-1@l: logs accepted []"]
    assert scenario.goodbye() == []


def test_log_lines_and_their_end_are_forwarded() -> None:
    """[utest->swdd~server-forwards-logs-entries-response-messages~1]
    [utest->swdd~server-forwards-logs-stop-response-messages~1]
    """
    scenario = two_agents()
    scenario.ask_logs([web()])
    entry = base.LogEntry(workloadName=instance_name_to_pb(web()), message="hi")
    lines = grpc.LogEntriesResponse(
        requestId="cli-conn-1@l", logEntriesResponse=base.LogEntriesResponse(logEntries=[entry])
    )
    assert effects_as_lines(scenario.from_agent("n1", logEntriesResponse=lines)) == ["cli-conn-1@l: log [hi]"]
    stop = grpc.LogsStopResponse(
        requestId="cli-conn-1@l", logsStopResponse=base.LogsStopResponse(workloadName=instance_name_to_pb(web()))
    )
    assert effects_as_lines(scenario.from_agent("n1", logsStopResponse=stop)) == ["cli-conn-1@l: log of web ends"]
    assert scenario.gone("n1")[1:] == [], "the end is not reported twice"


def test_a_cancelled_campaign_is_cancelled_everywhere() -> None:
    """[utest->swdd~server-handles-logs-cancel-request-message~1]"""
    scenario = two_agents()
    scenario.ask_logs([web()])
    effects = scenario.ask("l", logsCancelRequest=base.LogsCancelRequest())
    assert effects_as_lines(effects) == ["all: cancel logs cli-conn-1@l", "cli-conn-1@l: logsCancelAccepted"]
    assert scenario.goodbye() == []


def test_a_disconnected_command_line_receives_no_logs() -> None:
    """[utest->swdd~server-cancels-log-campaign-for-disconnected-cli~1]"""
    scenario = two_agents()
    scenario.ask_logs([web()])
    assert effects_as_lines(scenario.goodbye()) == ["all: cancel logs cli-conn-1@l"]
    assert scenario.goodbye() == []


def workload_reads_logs(scenario: Scenario, reader: InstanceName, provider: InstanceName) -> str:
    request_id = f"{reader.agent}@{reader.workload}@l"
    content = base.LogsRequest(workloadNames=[instance_name_to_pb(provider)])
    scenario.ask_through(reader.agent, request_id, logsRequest=content)
    return request_id


def test_a_lost_agent_neither_receives_nor_provides_logs() -> None:
    """[utest->swdd~server-handles-log-campaign-for-disconnected-agent~1]"""
    scenario = two_agents()
    reading = workload_reads_logs(scenario, web(), DB)
    scenario.ask_logs([web()])
    assert effects_as_lines(scenario.gone("n1")) == [
        "all: states [web.n1=AgentDisconnected]",
        f"all: cancel logs {reading}",
        "cli-conn-1@l: log of web ends",
    ]


@pytest.mark.parametrize(
    "new", [a_state({"db": a_form("n2")}), a_state({"web": a_form(config="x"), "db": a_form("n2")})]
)
def test_a_deleted_or_changed_workload_receives_no_logs(new: dict[str, object]) -> None:
    """[utest->swdd~server-cancels-log-campaign-for-deleted-workloads~1]"""
    scenario = two_agents()
    reading = workload_reads_logs(scenario, web(), DB)
    scenario.subscribe("desiredState.workloads")
    lines = effects_as_lines(scenario.update(new))
    assert lines[0] == f"all: cancel logs {reading}", "first of all"
    assert "event" in lines[1]


# --- mutating hooks ---------------------------------------------------------------------------------------------------


def hooked() -> tuple[Scenario, grpc.UpdateWorkload]:
    """A server whose hooks check an update that adds web to n1."""
    scenario = Scenario(has_hooks=True)
    scenario.hello("n1")
    scenario.hello("n2")
    (effect,) = scenario.update(a_state({"web": a_form()}))
    assert isinstance(effect, RunHooks)
    return scenario, effect.update


def finish(scenario: Scenario, outcome: grpc.UpdateWorkload | HookVeto | None) -> list[str]:
    effects = scenario.server.handle(HooksFinished(outcome))
    while NextChange() in effects:
        effects.remove(NextChange())
        effects += scenario.server.handle(NextChange())
    return effects_as_lines(effects)


def test_an_update_that_hooks_do_not_change_is_accepted() -> None:
    scenario, update = hooked()
    assert [added.instanceName.workloadName for added in update.addedWorkloads] == ["web"]
    assert scenario.get("desiredState.workloads") == {"desiredState": {"apiVersion": "v1", "workloads": {}}}
    assert finish(scenario, None) == ["n1: update +[web] -[]", "cli-conn-1@u: success +[web.n1] -[]"]


def test_agents_and_the_effective_state_get_the_output_of_hooks() -> None:
    scenario, update = hooked()
    update.addedWorkloads[0].instanceName.agentName = "n2"
    update.addedWorkloads[0].workload.agent = "n2"
    update.addedWorkloads[0].workload.runtimeConfig = " as it is "
    assert finish(scenario, update) == ["n2: update +[web] -[]", "cli-conn-1@u: success +[web.n2] -[]"]
    state = scenario.get("desiredState.workloads.web.agent", "effectiveState.workloads.web")
    assert state["desiredState"]["workloads"]["web"]["agent"] == "n1"
    assert state["effectiveState"]["workloads"]["web"]["agent"] == "n2"
    assert state["effectiveState"]["workloads"]["web"]["runtimeConfig"] == " as it is "
    (effect,) = scenario.update({}, "desiredState.workloads.web")
    assert isinstance(effect, RunHooks)
    assert effect.update.deletedWorkloads[0].instanceName.agentName == "n2", "what the agent has is deleted"
    assert finish(scenario, None)[0] == "n2: update +[] -[web]"


def test_an_addition_that_a_hook_drops_is_desired_but_not_effective() -> None:
    scenario, _ = hooked()
    assert finish(scenario, grpc.UpdateWorkload()) == ["cli-conn-1@u: success +[] -[]"]
    state = scenario.get("desiredState.workloads", "effectiveState.workloads", "workloadStates")
    assert list(state["desiredState"]["workloads"]) == ["web"]
    assert state["effectiveState"]["workloads"] == {}
    assert state["workloadStates"] == {}


def test_a_deletion_that_a_hook_drops_leaves_the_effective_workload() -> None:
    scenario, _ = hooked()
    finish(scenario, None)
    scenario.update(a_state({"web": a_form(config="changed")}))
    finish(scenario, grpc.UpdateWorkload())
    effective = scenario.get("effectiveState.workloads.web.runtimeConfig")["effectiveState"]["workloads"]
    assert effective == {"web": {"runtimeConfig": "image: alpine:3"}}


def test_the_same_manifest_again_is_not_shown_to_hooks_again() -> None:
    scenario, update = hooked()
    update.addedWorkloads[0].workload.tags.tags["hook"] = "was here"
    finish(scenario, update)
    assert effects_as_lines(scenario.update(a_state({"web": a_form()}))) == ["cli-conn-1@u: success +[] -[]"]


def test_a_rejection_by_a_hook_is_reported_and_changes_nothing() -> None:
    scenario, _ = hooked()
    before = scenario.get()
    assert finish(scenario, HookVeto("guard", "no")) == [
        "cli-conn-1@u: error Update rejected by mutating hook 'guard': 'Hook 'guard' rejected the change: no'"
    ]
    assert scenario.get() == before


@pytest.mark.parametrize(
    ("added", "reason"),
    [
        (
            grpc.AddedWorkload(workload=base.Workload(agent="n1", runtime="r", runtimeConfig="c")),
            "lacks its instance name",
        ),
        (grpc.AddedWorkload(instanceName=instance_name_to_pb(web())), "missing field `agent`"),
    ],
)
def test_the_output_of_hooks_must_be_workloads(added: grpc.AddedWorkload, reason: str) -> None:
    scenario, _ = hooked()
    before = scenario.get()
    (line,) = finish(scenario, grpc.UpdateWorkload(addedWorkloads=[added]))
    assert line.startswith("cli-conn-1@u: error Update rejected: 'Resulting State is invalid, reason: '")
    assert reason in line
    assert scenario.get() == before


# --- internal errors --------------------------------------------------------------------------------------------------


def broken(*_: object, **__: object) -> NoReturn:
    raise ValueError("a bug")


def test_an_internal_error_is_reported_to_the_requester() -> None:
    scenario = Scenario()
    request = base.Request(requestId="cli-conn-1@7")
    from_client, from_agent = FromClient("cli-conn-1", request), FromAgent("n1", grpc.ToServer(request=request))
    for message in (from_client, from_agent):
        assert effects_as_lines(scenario.server.recover(message, "a bug")) == ["cli-conn-1@7: error a bug"]


def test_an_agent_whose_hello_failed_has_to_connect_again() -> None:
    hello = FromAgent("n1", grpc.ToServer(agentHello=grpc.AgentHello(agentName="n1")))
    assert effects_as_lines(Scenario().server.recover(hello, "a bug")) == ["drop n1: a bug"]


def test_an_internal_error_without_a_requester_is_reported_to_no_client() -> None:
    server = Scenario().server
    for message in (AgentGone("n1"), ClientGone("cli-conn-1"), SecondPassed(), FromAgent("n1", grpc.ToServer())):
        assert server.recover(message, "a bug") == []


def test_an_internal_error_after_the_hooks_is_reported_and_the_next_update_is_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario, _ = hooked()
    assert scenario.update(a_state({"db": a_form()})) == []
    with monkeypatch.context() as patch:
        patch.setattr("ankaios.server.core.change_committer.commit_update", broken)
        with pytest.raises(ValueError, match="a bug"):
            scenario.server.handle(HooksFinished(None))
    lines = effects_as_lines(scenario.server.recover(HooksFinished(None), "a bug"))
    assert lines == ["cli-conn-1@u: error a bug", "next change"]
    assert effects_as_lines(scenario.server.handle(NextChange())) == ["hooks: +[db] -[]"]
    assert finish(scenario, None) == ["n1: update +[db] -[]", "cli-conn-1@u: success +[db.n1] -[]"]


def test_an_update_that_cannot_be_shown_to_the_hooks_blocks_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(has_hooks=True)
    scenario.hello("n1")
    with monkeypatch.context() as patch:
        patch.setattr("ankaios.server.core.update_request_handler.update_message", broken)
        with pytest.raises(ValueError, match="a bug"):
            scenario.update(a_state({"web": a_form()}))
    (effect,) = scenario.update(a_state({"web": a_form()}))
    assert isinstance(effect, RunHooks)


def test_a_waiting_update_that_fails_is_reported_and_the_next_one_is_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, _ = hooked()
    for name in ("db", "mq"):
        scenario.update(a_state({name: a_form()}))
    scenario.server.handle(HooksFinished(None))
    with monkeypatch.context() as patch:
        patch.setattr("ankaios.server.core.update_request_handler.prepare_update", broken)
        with pytest.raises(ValueError, match="a bug"):
            scenario.server.handle(NextChange())
    lines = effects_as_lines(scenario.server.recover(NextChange(), "a bug"))
    assert lines == ["cli-conn-1@u: error a bug", "next change"]
    assert effects_as_lines(scenario.server.handle(NextChange())) == ["hooks: +[mq] -[web]"]


def test_without_a_waiting_update_there_is_no_next_one() -> None:
    assert Scenario().server.handle(NextChange()) == []


def test_after_an_internal_error_events_are_correct_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario()
    scenario.hello("n1")
    scenario.subscribe("desiredState.workloads")
    with monkeypatch.context() as patch:
        patch.setattr(scenario.server._devices, "desired_changed", broken)
        with pytest.raises(ValueError, match="a bug"):
            scenario.update(a_state({"web": a_form()}))
    scenario.server.recover(SecondPassed(), "a bug")
    assert altered(scenario.update(a_state({"web": a_form(), "db": a_form()}))) == (
        ["desiredState.workloads.db"],
        [],
        [],
    )


def test_while_hooks_check_one_update_other_updates_wait_and_other_messages_are_handled() -> None:
    scenario, _ = hooked()
    assert scenario.update(a_state({"db": a_form("n2")}), "desiredState.workloads.db", request_id="second") == []
    assert scenario.update({}, "desiredState.workloads.web", request_id="third") == []
    assert effects_as_lines(scenario.hello("n3")) == ["n3: hello +[]"]
    assert scenario.get("desiredState.workloads")["desiredState"]["workloads"] == {}
    assert finish(scenario, None) == [
        "n1: update +[web] -[]",
        "cli-conn-1@u: success +[web.n1] -[]",
        "hooks: +[db] -[]",
    ]
    assert finish(scenario, HookVeto("guard", "no db"))[1:] == ["hooks: +[] -[web]"]
    assert finish(scenario, None)[-1] == "cli-conn-1@third: success +[] -[web.n1]"


def test_not_more_updates_wait_for_hooks_than_can_be_kept() -> None:
    scenario, _ = hooked()
    for _ in range(MAX_WAITING_UPDATES):
        assert scenario.update(a_state()) == []
    assert error_of(scenario.update(a_state())) == "Update rejected: 'too many updates are waiting, try again later'"


def test_a_startup_state_is_accepted_with_the_changes_of_hooks() -> None:
    scenario = Scenario(has_hooks=True)
    prepared = scenario.server.prepare_start({"apiVersion": "v1", "workloads": {"web": a_form("n1")}})
    assert list(prepared.changes.added) == ["web"]
    scenario.server.finish_start(prepared)
    assert scenario.server.state.workload_states.get(web()) is not None
    dropped = Scenario(has_hooks=True)
    prepared = dropped.server.prepare_start({"apiVersion": "v1", "workloads": {"web": a_form("n1")}})
    dropped.server.finish_start(prepared, grpc.UpdateWorkload())
    assert dropped.get("effectiveState.workloads") == {"effectiveState": {"apiVersion": "v1", "workloads": {}}}


def test_starting_states_do_not_count_as_removed() -> None:
    scenario = two_agents()
    effects = scenario.report("n1", {web(): PENDING_STARTING})
    assert not any(isinstance(effect, Respond) for effect in effects)
