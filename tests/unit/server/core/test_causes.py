"""`ank why`: chains of causes, from real sequences of messages to the server."""

from typing import Any

import pytest

from ankaios.common.execution_state import (
    FAILED_LOST,
    PENDING_STARTING,
    PENDING_STARTING_FAILED,
    PENDING_WAITING_TO_START,
    REMOVED,
    RUNNING_OK,
    STOPPING_DELETE_FAILED,
    STOPPING_WAITING_TO_STOP,
    SUCCEEDED_OK,
    UNHEALTHY,
    ExecutionState,
    HealthState,
    exited,
)
from ankaios.common.messages import AgentGone, FromAgent, ToAgent
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_to_pb, record_to_pb
from ankaios.common.state_records import StateRecord
from ankaios.common.workload import InstanceName
from ankaios.server.core.replies import HooksFinished
from ankaios.server.core.update_rejected import HookVeto
from tests.unit.server.scenario import CONFIG, Form, Scenario, a_form, a_state, error_of, responses, the_response


def why(scenario: Scenario, name: str) -> list[tuple[str, str, str]]:
    response = the_response(scenario.ask("w", whyRequest=base.WhyRequest(workload=name)))
    return [(cause.workload, cause.kind, cause.text) for cause in response.whyResponse.causes]


def a_scenario(workloads: dict[str, Form], **states: ExecutionState) -> Scenario:
    scenario = Scenario()
    scenario.hello("n1")
    scenario.update(a_state(workloads))
    for name, state in states.items():
        scenario.report("n1", {instance(name): state})
    return scenario


def instance(name: str, agent: str = "n1") -> InstanceName:
    return InstanceName.of(name, agent, CONFIG)


def test_a_chain_leads_from_a_waiting_workload_to_the_root_cause() -> None:
    workloads = {"web": a_form(dependencies={"db": "ADD_COND_RUNNING"}), "db": a_form()}
    retry = PENDING_STARTING.because("Retry 4: image 'db:2' cannot be pulled: no such host")
    scenario = a_scenario(workloads, db=retry, web=PENDING_WAITING_TO_START)
    assert why(scenario, "web") == [
        ("web", "dependency", "waits for dependency 'db' to run, which is Pending(Starting)"),
        ("db", "retry", "cannot start, retry 4: image 'db:2' cannot be pulled: no such host"),
    ]


@pytest.mark.parametrize(
    ("state", "kind", "text"),
    [
        (RUNNING_OK, "running", "runs"),
        (RUNNING_OK.because("its device 'cam-1' is lost"), "running", "runs; its device 'cam-1' is lost"),
        (SUCCEEDED_OK, "succeeded", "has succeeded"),
        (exited(3), "failed", "has failed: Exit code: '3'"),
        (FAILED_LOST, "failed", "has failed: Failed(Lost)"),
        (PENDING_STARTING_FAILED.because("bad option"), "failed", "cannot start: bad option"),
        (PENDING_WAITING_TO_START.because("no free camera"), "device", "waits for devices: no free camera"),
        (PENDING_STARTING.because("pulling"), "starting", "is Pending(Starting): pulling"),
        (STOPPING_DELETE_FAILED.because("busy"), "stopping", "is Stopping(DeleteFailed): busy"),
        (
            ExecutionState("Running", "Ok", health=HealthState(UNHEALTHY, "http 500")),
            "health",
            "runs but is unhealthy: http 500",
        ),
    ],
)
def test_every_state_has_its_cause(state: ExecutionState, kind: str, text: str) -> None:
    assert why(a_scenario({"web": a_form()}, web=state), "web") == [("web", kind, text)]


def test_a_missing_agent_is_named_with_the_time_since_when() -> None:
    scenario = Scenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form(), "far": a_form("n9")}))
    scenario.server.decide(AgentGone("n1"), now=1000.5)
    assert why(scenario, "web") == [("web", "agent", "has no agent: 'n1' is not connected")]
    response = the_response(scenario.ask("w", whyRequest=base.WhyRequest(workload="web"))).whyResponse
    assert response.causes[0].sinceMs == 1_000_500
    text = "has no agent: 'n9' is not connected, and was not since the server started"
    assert why(scenario, "far") == [("far", "agent", text)]


def test_a_workload_that_waits_to_stop_is_explained_by_its_dependents() -> None:
    workloads = {"web": a_form(dependencies={"db": "ADD_COND_RUNNING"}), "db": a_form()}
    scenario = a_scenario(workloads, db=RUNNING_OK, web=RUNNING_OK)
    scenario.update(a_state({"web": workloads["web"]}))
    scenario.report("n1", {instance("db"): STOPPING_WAITING_TO_STOP})
    assert why(scenario, "db") == [
        ("db", "dependency", "waits for dependent 'web' to stop, which is Running(Ok)"),
        ("web", "running", "runs"),
    ]


def test_the_last_output_of_a_failed_workload_is_part_of_the_cause() -> None:
    scenario = a_scenario({"web": a_form()}, web=exited(3))
    (known,) = [it for it in scenario.server.state.records.of_workload("web") if it.state == exited(3)]
    record = StateRecord(instance("web"), known.time_ms, exited(3), exit_code=3, output=("no config",), next_ms=77)
    scenario.from_agent("n1", workloadRecords=grpc.WorkloadRecords(records=[record_to_pb(record)]))
    (cause,) = the_response(scenario.ask("w", whyRequest=base.WhyRequest(workload="web"))).whyResponse.causes
    assert (list(cause.output), cause.nextAttemptMs, cause.kind) == (["no config"], 77, "restart")


def test_a_workload_that_runs_again_names_why_it_failed_before() -> None:
    scenario = a_scenario({"web": a_form()}, web=exited(137))
    scenario.report("n1", {instance("web"): RUNNING_OK})
    assert why(scenario, "web") == [("web", "running", "runs again; before that it failed: Exit code: '137'")]


def test_a_change_that_a_hook_rejected_is_part_of_the_answer_until_a_change_is_accepted() -> None:
    scenario = Scenario(has_hooks=True)
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form()}))
    scenario.server.handle(HooksFinished(None))
    scenario.update(a_state({"web": a_form(config="other")}))
    scenario.server.handle(HooksFinished(HookVeto("guard", "not today")))
    assert why(scenario, "web")[-1][1] == "rejected"
    assert "not today" in why(scenario, "web")[-1][2]
    scenario.update(a_state({"web": a_form(config="third")}))
    scenario.server.handle(HooksFinished(None))
    assert all(kind != "rejected" for _, kind, _ in why(scenario, "web"))


def test_an_out_of_memory_failure_is_named() -> None:
    scenario = a_scenario({"web": a_form()}, web=exited(137))
    last = scenario.server.state.records.last_of(instance("web"))
    assert last is not None
    record = StateRecord(instance("web"), last.time_ms, exited(137), exit_code=137, out_of_memory=True)
    scenario.from_agent("n1", workloadRecords=grpc.WorkloadRecords(records=[record_to_pb(record)]))
    text = "Exit code: '137', killed because it was out of memory"
    assert why(scenario, "web") == [("web", "failed", f"has failed: {text}")]
    scenario.report("n1", {instance("web"): PENDING_STARTING})
    assert why(scenario, "web") == [("web", "restart", f"starts again; before that it failed: {text}")]


def test_a_removed_workload_is_explained_by_its_last_state() -> None:
    scenario = a_scenario({"web": a_form()}, web=exited(1))
    scenario.report("n1", {instance("web"): REMOVED})
    assert why(scenario, "web") == [("web", "unknown", "has no state yet")]
    scenario.update(a_state({}))
    assert why(scenario, "web") == [("web", "removed", "was removed (Failed(ExecFailed))")]


def test_a_workload_that_a_hook_has_removed_names_the_hook() -> None:
    scenario = Scenario(has_hooks=True)
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form()}))
    scenario.server.handle(HooksFinished(grpc.UpdateWorkload()))
    assert why(scenario, "web") == [("web", "hook", "was removed from the change by a mutating hook")]


def test_a_workload_without_agent_waits_for_one() -> None:
    assert why(a_scenario({"web": a_form("")}), "web") == [("web", "placement", "waits for an agent: none is named")]


def test_a_new_instance_waits_until_the_previous_one_has_stopped() -> None:
    scenario = a_scenario({"web": a_form()}, web=RUNNING_OK)
    scenario.update(a_state({"web": a_form(config="other")}))
    scenario.report("n1", {instance("web"): STOPPING_DELETE_FAILED.because("busy")})
    text = "waits until its previous instance has stopped, which is Stopping(DeleteFailed): busy"
    assert why(scenario, "web") == [("web", "stopping", text)]


def test_only_dependencies_that_are_not_fulfilled_are_named() -> None:
    needs = {"db": "ADD_COND_RUNNING", "bus": "ADD_COND_HEALTHY", "gone": "ADD_COND_SUCCEEDED"}
    workloads = {"web": a_form(dependencies=needs), "db": a_form(), "bus": a_form()}
    scenario = a_scenario(workloads, db=RUNNING_OK, bus=RUNNING_OK, web=PENDING_WAITING_TO_START)
    text = "dependency 'bus' to be healthy, which is Running(Ok); and for dependency 'gone' to succeed"
    assert why(scenario, "web")[0] == ("web", "dependency", f"waits for {text}, which does not exist")


def test_an_unknown_workload_is_an_error() -> None:
    assert error_of(a_scenario({}).ask("w", whyRequest=base.WhyRequest(workload="x"))) == "unknown workload 'x'"


def test_dependencies_with_a_cycle_end_the_chain() -> None:
    """Cycles are rejected, but a received state may contain one."""
    scenario = a_scenario({"web": a_form(dependencies={"db": "ADD_COND_RUNNING"}), "db": a_form()})
    scenario.report("n1", {instance("web"): PENDING_WAITING_TO_START})
    assert [cause[0] for cause in why(scenario, "web")] == ["web", "db"]


# --- records ---


def records_of(scenario: Scenario, **wanted: Any) -> list[str]:
    response = the_response(scenario.ask("r", recordsRequest=base.RecordsRequest(**wanted))).recordsResponse
    return [
        f"{it.instanceName.workloadName} {it.executionState.WhichOneof('ExecutionStateEnum')}"
        for it in response.records
    ]


def test_the_server_records_reported_and_decided_states() -> None:
    scenario = a_scenario({"web": a_form(), "db": a_form()}, web=RUNNING_OK)
    scenario.gone("n1")
    assert records_of(scenario, workloads=["web"]) == ["web pending", "web running", "web agentDisconnected"]
    assert len(records_of(scenario)) == 5


def test_the_time_of_the_agent_is_used_and_selects_records() -> None:
    scenario = a_scenario({"web": a_form()})
    message = base.WorkloadState(
        instanceName=instance_name_to_pb(instance("web")),
        executionState=base.ExecutionState(additionalInfo="", running=base.RUNNING_OK),
        timeMs=5_000,
    )
    scenario.from_agent("n1", updateWorkloadState=grpc.UpdateWorkloadState(workloadStates=[message]))
    assert records_of(scenario, sinceMs=4_999) == ["web running"]
    assert records_of(scenario, sinceMs=5_000) == []


def test_an_agent_with_records_is_requested_to_send_those_that_the_server_missed() -> None:
    scenario = a_scenario({"web": a_form()})
    record = StateRecord(instance("web"), 7_000, exited(1))
    hello = grpc.AgentHello(agentName="n1", protocolVersion="1.0.0", records=True)
    scenario.from_agent("n1", workloadRecords=grpc.WorkloadRecords(records=[record_to_pb(record)]))
    effects = scenario.from_agent("n1", agentHello=hello)
    sent = [effect.message for effect in effects if isinstance(effect, ToAgent)]
    assert [it.recordsRequest.sinceMs for it in sent if it.HasField("recordsRequest")] == [7_000]


def test_records_about_other_agents_are_dropped() -> None:
    scenario = a_scenario({"web": a_form()})
    record = StateRecord(instance("web", "n2"), 7_000, exited(1))
    scenario.from_agent(
        "n1", workloadRecords=grpc.WorkloadRecords(records=[record_to_pb(record), base.WorkloadRecord()])
    )
    assert records_of(scenario, workloads=["web"]) == ["web pending"]


def test_new_records_follow_until_the_subscription_is_cancelled() -> None:
    scenario = a_scenario({"web": a_form(), "db": a_form()})
    scenario.ask("f", recordsRequest=base.RecordsRequest(workloads=["web"], follow=True))
    assert responses(scenario.report("n1", {instance("db"): RUNNING_OK})) == []
    (response,) = responses(scenario.report("n1", {instance("web"): RUNNING_OK}))
    assert response.requestId.endswith("@f")
    assert len(response.recordsResponse.records) == 1
    scenario.ask("f", eventsCancelRequest=base.EventsCancelRequest())
    assert responses(scenario.report("n1", {instance("web"): exited(1)})) == []


def test_subscriptions_end_with_their_connection() -> None:
    scenario = a_scenario({"web": a_form()})
    scenario.ask("f", recordsRequest=base.RecordsRequest(follow=True))
    scenario.goodbye()
    assert responses(scenario.report("n1", {instance("web"): RUNNING_OK})) == []


def test_a_workload_without_the_right_to_read_logs_gets_no_output() -> None:
    rules = [{"type": "StateRule", "operation": "Read", "filterMasks": ["*"]}]
    scenario = a_scenario(
        {"asking": a_form(controlInterfaceAccess={"allowRules": rules}), "web": a_form()}, web=exited(1)
    )
    last = scenario.server.state.records.last_of(instance("web"))
    assert last is not None
    record = StateRecord(instance("web"), last.time_ms, exited(1), output=("secret",))
    scenario.server.handle(
        FromAgent("n1", grpc.ToServer(workloadRecords=grpc.WorkloadRecords(records=[record_to_pb(record)])))
    )
    effects = scenario.ask_through("n1", "n1@asking@1", recordsRequest=base.RecordsRequest(workloads=["web"]))
    assert not any(it.output for it in the_response(effects).recordsResponse.records)
    effects = scenario.ask_through("n1", "n1@asking@1", whyRequest=base.WhyRequest(workload="web"))
    assert not any(it.output for it in the_response(effects).whyResponse.causes)
    direct = the_response(scenario.ask("r", recordsRequest=base.RecordsRequest(workloads=["web"]))).recordsResponse
    assert direct.records[-1].output == ["secret"]
