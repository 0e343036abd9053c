"""What the server answers to a request for a plan."""

from typing import Any

import pytest

from ankaios.common.execution_state import PENDING_STARTING, RUNNING_OK
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_to_pb
from ankaios.common.workload import InstanceName
from ankaios.server.core.replies import HooksFinished, NextChange, RunHooks
from ankaios.server.core.update_rejected import HookVeto
from tests.unit.server.scenario import CONFIG, Form, Scenario, a_form, a_state, responses, success_of, the_response

WEB_MASK = "desiredState.workloads.web"


def plan_request(state: Form, *masks: str) -> base.PlanRequest:
    update = base.UpdateStateRequest(newState=COMPLETE_STATE.from_form(state), updateMask=masks)
    return base.PlanRequest(update=update)


def plan(scenario: Scenario, state: Form, *masks: str) -> base.PlanResponse:
    response = the_response(scenario.ask("p", planRequest=plan_request(state, *masks)))
    assert response.WhichOneof("ResponseContent") == "planResponse", response
    return response.planResponse


def a_scenario(workloads: dict[str, Form], **more: Any) -> Scenario:
    scenario = Scenario()
    hello = grpc.AgentHello(agentName="n1", protocolVersion="1.0.0", runtimes=["podman", "native"])
    scenario.from_agent("n1", agentHello=hello)
    scenario.update(a_state(workloads, **more))
    return scenario


def actions(response: base.PlanResponse) -> dict[str, str]:
    return {it.name: base.PlannedAction.Name(it.action) for it in response.workloads}


def test_a_plan_names_what_is_created_changed_restarted_moved_and_deleted() -> None:
    scenario = a_scenario({name: a_form() for name in ("changed", "restarted", "moved", "deleted", "same")})
    after = {
        "same": a_form(),
        "new": a_form(),
        "changed": a_form(config="image: alpine:4"),
        "restarted": a_form(tags={"a": "b"}),
        "moved": a_form("n2"),
    }
    assert actions(plan(scenario, a_state(after))) == {
        "new": "PLANNED_CREATE",
        "changed": "PLANNED_UPDATE",
        "restarted": "PLANNED_RESTART",
        "moved": "PLANNED_MOVE",
        "deleted": "PLANNED_DELETE",
    }


def test_a_plan_changes_nothing() -> None:
    scenario = a_scenario({"web": a_form()})
    before = scenario.get()
    plan(scenario, a_state({"db": a_form()}))
    assert scenario.get() == before


def test_fields_are_shown_with_rendered_templates() -> None:
    scenario = a_scenario({"web": a_form(config="port: {{p}}", configs={"p": "port"})}, configs={"port": "80"})
    changed = a_state({"web": a_form(config="port: {{p}}", configs={"p": "port"})}, configs={"port": "8080"})
    response = plan(scenario, changed, "desiredState.configs.port")
    (workload,) = response.workloads
    assert [(it.path, it.before, it.after) for it in workload.fields] == [("runtimeConfig", "port: 80", "port: 8080")]
    (entry,) = response.entries
    assert (entry.kind, entry.name, entry.fields[0].before, entry.fields[0].after) == ("config", "port", "80", "8080")


def test_a_workload_comes_one_step_after_the_dependency_that_it_waits_for() -> None:
    scenario = a_scenario({})
    chain = {
        "a": a_form(dependencies={"b": "ADD_COND_RUNNING"}),
        "b": a_form(dependencies={"c": "ADD_COND_SUCCEEDED"}),
        "c": a_form(),
    }
    response = plan(scenario, a_state(chain))
    assert [(it.name, it.step) for it in response.workloads] == [("c", 1), ("b", 2), ("a", 3)]
    assert response.workloads[1].waitsFor == ["dependency 'c' to succeed, which does not exist"]


def test_a_dependency_that_runs_already_is_not_waited_for() -> None:
    scenario = a_scenario({"db": a_form()})
    scenario.report("n1", {InstanceName.of("db", "n1", CONFIG): RUNNING_OK})
    workloads = {"db": a_form(), "web": a_form(dependencies={"db": "ADD_COND_RUNNING"})}
    (workload,) = plan(scenario, a_state(workloads)).workloads
    assert (workload.name, list(workload.waitsFor), workload.step) == ("web", [], 1)


def test_a_workload_is_stopped_after_its_dependents() -> None:
    scenario = a_scenario({"db": a_form(), "web": a_form(dependencies={"db": "ADD_COND_RUNNING"})})
    names = {InstanceName.of(name, "n1", CONFIG): RUNNING_OK for name in ("db", "web")}
    scenario.report("n1", names)
    response = plan(scenario, a_state({}))
    assert [(it.name, it.step) for it in response.workloads] == [("web", 1), ("db", 2)]
    assert response.workloads[1].waitsFor == ["dependent 'web' to stop, which is Running(Ok)"]


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (a_form("n9"), "agent 'n9', which is not connected"),
        (
            a_form(runtime="podman-kube"),
            "runtime 'podman-kube', which agent 'n1' does not enable (enabled: native, podman)",
        ),
        (
            a_form("", placement={"tags": {"zone": "rear"}}),
            "the server has just started and waits for the reports of its agents",
        ),
        (
            a_form(resources=[{"name": "camera", "quantity": 1}]),
            "agent 'n1' offers no devices, so the workload is not sent to it",
        ),
    ],
)
def test_a_plan_names_what_a_workload_would_wait_for(form: Form, reason: str) -> None:
    (workload,) = plan(a_scenario({}), a_state({"web": form})).workloads
    assert list(workload.waitsFor) == [reason]


@pytest.mark.parametrize(
    ("state", "masks", "rule"),
    [
        (a_state({"web": a_form(dependencies={"web": "ADD_COND_RUNNING"})}), (), "cycle"),
        (a_state({"w e b": a_form()}), (), "naming"),
        (a_state({"web": a_form(config="{{x}}", configs={"x": "missing"})}), (), "template"),
        (a_state({"web": a_form(configs={"!": "a"})}), (), "naming"),
        ({"desiredState": {"apiVersion": "v9", "workloads": {}}}, (), "naming"),
        (a_state({}), ("desiredState.workloads.web.tags",), "state"),
    ],
)
def test_a_rejection_is_the_one_of_the_update_and_names_the_rule(
    state: Form, masks: tuple[str, ...], rule: str
) -> None:
    scenario = a_scenario({})
    response = plan(scenario, state, *masks)
    rejection = the_response(scenario.update(state, *masks)).error.message
    assert (response.accepted, response.rejection, response.rejectedBy) == (False, rejection, rule)


def test_an_unreadable_state_is_rejected_by_syntax() -> None:
    request = base.PlanRequest(update=base.UpdateStateRequest())
    response = the_response(a_scenario({}).ask("p", planRequest=request)).planResponse
    assert (response.accepted, response.rejectedBy) == (False, "syntax")


def test_hooks_see_the_planned_update_and_their_changes_are_part_of_the_plan() -> None:
    scenario = Scenario(has_hooks=True)
    scenario.hello("n1")
    (shown,) = scenario.ask("p", planRequest=plan_request(a_state({"web": a_form()})))
    assert isinstance(shown, RunHooks)
    shown.update.addedWorkloads[0].workload.tags.tags["by"] = "hook"
    response = the_response(scenario.server.handle(HooksFinished(shown.update))).planResponse
    assert ("tags.by", "hook") in [(it.path, it.after) for it in response.workloads[0].fields]
    assert scenario.get("desiredState.workloads")["desiredState"]["workloads"] == {}


def test_a_veto_of_a_hook_rejects_the_plan() -> None:
    scenario = Scenario(has_hooks=True)
    scenario.ask("p", planRequest=plan_request(a_state({"web": a_form()})))
    effects = scenario.server.handle(HooksFinished(HookVeto("guard", "not today")))
    response = the_response(effects).planResponse
    assert (response.accepted, response.rejectedBy) == (False, "hook")
    assert "not today" in response.rejection


def test_an_update_waits_while_hooks_check_a_plan() -> None:
    scenario = Scenario(has_hooks=True)
    scenario.ask("p", planRequest=plan_request(a_state({"web": a_form()})))
    assert scenario.update(a_state({})) == []
    effects = scenario.server.handle(HooksFinished(None))
    assert responses(effects)[0].HasField("planResponse")
    assert NextChange() in effects
    assert success_of(scenario.server.handle(NextChange())) == ([], [])


def test_a_workload_receives_only_what_it_may_read() -> None:
    rules = [{"type": "StateRule", "operation": "Write", "filterMasks": ["desiredState"]}]
    scenario = a_scenario({"asking": a_form(controlInterfaceAccess={"allowRules": rules})})
    request = plan_request(a_state({"web": a_form(dependencies={"asking": "ADD_COND_RUNNING"})}), WEB_MASK)
    effects = scenario.ask_through("n1", "n1@asking@1", planRequest=request)
    (workload,) = the_response(effects).planResponse.workloads
    assert (workload.name, list(workload.fields), list(workload.waitsFor)) == ("web", [], [])


def test_a_plan_within_the_rights_to_read_shows_fields() -> None:
    rules = [{"type": "StateRule", "operation": "ReadWrite", "filterMasks": ["*"]}]
    scenario = a_scenario({"asking": a_form(controlInterfaceAccess={"allowRules": rules})})
    request = plan_request(a_state({"web": a_form(dependencies={"asking": "ADD_COND_RUNNING"})}), WEB_MASK)
    (workload,) = the_response(scenario.ask_through("n1", "n1@asking@1", planRequest=request)).planResponse.workloads
    assert "runtimeConfig" in [it.path for it in workload.fields]
    assert len(workload.waitsFor) == 1


def test_a_plan_that_exceeds_the_rights_of_the_workload_is_rejected() -> None:
    rules = [{"type": "StateRule", "operation": "Write", "filterMasks": ["desiredState"]}]
    scenario = a_scenario({"asking": a_form(controlInterfaceAccess={"allowRules": rules})})
    more = {"allowRules": [{"type": "StateRule", "operation": "ReadWrite", "filterMasks": ["*"]}]}
    request = plan_request(a_state({"web": a_form(controlInterfaceAccess=more)}), WEB_MASK)
    response = the_response(scenario.ask_through("n1", "n1@asking@1", planRequest=request)).planResponse
    assert (response.accepted, response.rejectedBy) == (False, "rights")


def test_an_agent_cannot_request_plans_for_itself() -> None:
    effects = a_scenario({}).ask_through("n1", "n1@x", planRequest=plan_request(a_state({})))
    assert "Access denied" in the_response(effects).error.message


def test_states_that_are_not_final_are_named() -> None:
    scenario = a_scenario({"db": a_form()})
    scenario.report("n1", {InstanceName.of("db", "n1", CONFIG): PENDING_STARTING})
    web = {"db": a_form(), "web": a_form(dependencies={"db": "ADD_COND_FAILED"})}
    (workload,) = plan(scenario, a_state(web)).workloads
    assert list(workload.waitsFor) == ["dependency 'db' to fail, which is Pending(Starting)"]


def test_a_hook_may_delete_an_instance_that_the_server_does_not_know() -> None:
    scenario = Scenario(has_hooks=True)
    scenario.hello("n1")
    (shown,) = scenario.ask("p", planRequest=plan_request(a_state({"web": a_form()})))
    assert isinstance(shown, RunHooks)
    name = instance_name_to_pb(InstanceName.of("other", "n1", CONFIG))
    shown.update.deletedWorkloads.add(instanceName=name)
    response = the_response(scenario.server.handle(HooksFinished(shown.update))).planResponse
    assert actions(response) == {"web": "PLANNED_CREATE", "other": "PLANNED_DELETE"}


def test_entries_that_a_workload_may_not_read_are_shown_without_values() -> None:
    rules = [{"type": "StateRule", "operation": "Write", "filterMasks": ["desiredState.configs.port"]}]
    scenario = a_scenario({"asking": a_form(controlInterfaceAccess={"allowRules": rules})}, configs={"port": "80"})
    request = plan_request(a_state({}, configs={"port": "81"}), "desiredState.configs.port")
    response = the_response(scenario.ask_through("n1", "n1@asking@1", planRequest=request)).planResponse
    assert [(it.kind, it.name, list(it.fields)) for it in response.entries] == [("config", "port", [])]
