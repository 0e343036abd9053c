"""Workloads with several instances: which instances exist, and how an `AnkaiosServer` keeps them running."""

from typing import Any

import pytest

from ankaios.common.errors import Rejected
from ankaios.common.execution_state import RUNNING_OK
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import InstanceName
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.device_directory import NODE_LOST_TICKS, SETTLE_TICKS
from ankaios.server.core.replicas import check_replicas, derived_name, replica_instances
from ankaios.server.core.replies import Effect, HooksFinished, SecondPassed
from ankaios.server.core.stored_state import restored_state
from ankaios.storage.state_store import EntryKey
from tests.unit.server.scenario import CONFIG, Scenario, a_form, a_state, effects_as_lines, error_of, success_of


def a_workload(name: str = "web", **placement: Any) -> RenderedWorkload:
    return RenderedWorkload.of(name, a_form("", placement=placement))


def test_replicas_are_numbered_and_do_not_depend_on_their_number() -> None:
    three = replica_instances(a_workload(replicas=3, tags={"zone": "a"}), {})
    assert list(three) == ["web-0", "web-1", "web-2"]
    assert three["web-0"].form["placement"] == {"tags": {"zone": "a"}, "replicaOf": "web"}
    assert three["web-0"] == replica_instances(a_workload(replicas=1, tags={"zone": "a"}), {})["web-0"]
    assert replica_instances(a_workload(replicas=0), {}) == {}
    assert replica_instances(a_workload(), {"n1": {}}) == {}


def test_every_agent_with_the_tags_has_an_instance() -> None:
    agents = {"n2": {"zone": "a"}, "n1": {"zone": "a", "x": "y"}, "n3": {}}
    found = replica_instances(a_workload(everyAgent=True, tags={"zone": "a"}), agents)
    assert {name: it.instance_name.agent for name, it in found.items()} == {"web-n1": "n1", "web-n2": "n2"}


def test_names_that_would_be_too_long_are_shortened_and_stay_different() -> None:
    assert derived_name("web", "0") == "web-0"
    names = {derived_name("w" * 63, str(number)) for number in range(20)}
    assert len(names) == 20 and all(len(name) <= 63 for name in names)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (a_form("n1", placement={"replicas": 2}), "the server chooses the agents"),
        (a_form("", placement={"replicas": 2, "everyAgent": True}), "either replicas or everyAgent"),
        (a_form("", placement={"replicas": 1001}), "at most 1000 replicas"),
        (a_form("", placement={"replicaOf": "web"}), "replicaOf is set by the server"),
    ],
)
def test_a_placement_that_contradicts_itself_is_rejected(form: dict[str, Any], reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        check_replicas("web", form)


# --- in a server ---


class ReplicaScenario(Scenario):
    """The settle time is over. The agents are those of Eclipse Ankaios, without device support."""

    def __init__(self, *agents: str) -> None:
        super().__init__()
        self.hello("early")
        self.seconds(SETTLE_TICKS)
        self.gone("early")
        self.seconds(NODE_LOST_TICKS)
        for agent in agents:
            self.hello(agent)

    def seconds(self, number: int) -> list[Effect]:
        return [effect for _ in range(number) for effect in self.server.handle(SecondPassed())]

    def want(self, config: str = CONFIG, **placement: Any) -> list[Effect]:
        return self.update(a_state({"web": a_form("", config, placement=placement)}), "desiredState.workloads.web")

    def agents(self) -> dict[str, str]:
        workloads = self.get("effectiveState.workloads").get("effectiveState", {}).get("workloads", {})
        return {name: form["agent"] for name, form in workloads.items()}


def test_replicas_run_on_agents_without_replica_support() -> None:
    """They receive ordinary workloads; the desired state has what the user wrote."""
    scenario = ReplicaScenario("n1", "n2")
    effects = scenario.want(replicas=3, spread=True)
    assert [line for line in effects_as_lines(effects) if "update" in line] == [
        "n1: update +[web-0, web-2] -[]",
        "n2: update +[web-1] -[]",
    ]
    assert [name.partition(".")[0] for name in success_of(effects)[0]] == ["web-0", "web-1", "web-2"]
    assert list(scenario.get("desiredState")["desiredState"]["workloads"]) == ["web"]
    states = scenario.get("workloadStates")["workloadStates"]
    assert {name for agent in states.values() for name in agent} == {"web-0", "web-1", "web-2"}


def test_changing_the_number_does_not_change_the_other_instances() -> None:
    scenario = ReplicaScenario("n1")
    scenario.want(replicas=2)
    grown = effects_as_lines(scenario.want(replicas=3))
    assert "n1: update +[web-2] -[]" in grown
    shrunk = effects_as_lines(scenario.want(replicas=1))
    assert "n1: update +[] -[web-1, web-2]" in shrunk
    assert scenario.agents() == {"web-0": "n1"}


def test_a_changed_workload_changes_all_instances_and_a_deleted_one_removes_them() -> None:
    scenario = ReplicaScenario("n1")
    scenario.want(replicas=2)
    assert "n1: update +[web-0, web-1] -[web-0, web-1]" in effects_as_lines(scenario.want("image: new", replicas=2))
    assert "n1: update +[] -[web-0, web-1]" in effects_as_lines(
        scenario.update(a_state(), "desiredState.workloads.web")
    )
    assert scenario.agents() == {}


def test_a_workload_can_become_replicated_and_plain_again() -> None:
    scenario = ReplicaScenario("n1")
    scenario.update(a_state({"web": a_form("n1")}), "desiredState.workloads.web")
    assert "n1: update +[web-0] -[web]" in effects_as_lines(scenario.want(replicas=1))
    plain = scenario.update(a_state({"web": a_form("n1")}), "desiredState.workloads.web")
    assert "n1: update +[web] -[web-0]" in effects_as_lines(plain)


def test_the_number_is_kept_when_an_agent_is_lost() -> None:
    scenario = ReplicaScenario("n1", "n2")
    scenario.want(replicas=2, spread=True)
    assert scenario.agents() == {"web-0": "n1", "web-1": "n2"}
    scenario.gone("n2")
    scenario.seconds(NODE_LOST_TICKS - 1)
    assert scenario.agents() == {"web-0": "n1", "web-1": "n2"}
    assert "n1: update +[web-1] -[]" in effects_as_lines(scenario.seconds(1))
    assert scenario.agents() == {"web-0": "n1", "web-1": "n1"}


def test_replicas_wait_for_an_agent_with_the_tags() -> None:
    scenario = ReplicaScenario("n1")
    scenario.want(replicas=1, tags={"zone": "a"})
    (state,) = scenario.get("workloadStates")["workloadStates"][""]["web-0"].values()
    assert state["additionalInfo"] == "no connected agent has the tags zone=a"
    assert "n2: hello +[web-0]" in effects_as_lines(scenario.hello("n2", {"zone": "a"}))


def test_every_agent_has_an_instance_while_agents_connect_and_disconnect() -> None:
    scenario = ReplicaScenario("n1")
    assert "n1: update +[web-n1] -[]" in effects_as_lines(scenario.want(everyAgent=True))
    assert "n2: hello +[web-n2]" in effects_as_lines(scenario.hello("n2"))
    scenario.report("n2", {InstanceName.of("web-n2", "n2", CONFIG): RUNNING_OK})
    scenario.gone("n2")
    assert scenario.agents() == {"web-n1": "n1", "web-n2": "n2"}
    assert "n2: hello +[web-n2]" in effects_as_lines(scenario.hello("n2"))
    scenario.gone("n2")
    scenario.seconds(NODE_LOST_TICKS)
    assert scenario.agents() == {"web-n1": "n1"}
    assert "n2: hello +[web-n2]" in effects_as_lines(scenario.hello("n2"))


def test_an_instance_whose_name_is_used_by_a_workload_is_added_when_the_workload_is_deleted() -> None:
    scenario = ReplicaScenario("n1")
    scenario.want(everyAgent=True)
    scenario.update(a_state({"web-n2": a_form("n1")}), "desiredState.workloads.web-n2")
    assert "n2: hello +[]" in effects_as_lines(scenario.hello("n2"))
    deleted = effects_as_lines(scenario.update(a_state(), "desiredState.workloads.web-n2"))
    assert "n2: update +[web-n2] -[]" in deleted


def test_an_instance_follows_the_tags_of_the_agent() -> None:
    scenario = ReplicaScenario("n1", "n2")
    scenario.want(everyAgent=True, tags={"zone": "a"})
    assert scenario.agents() == {}
    tagged = {"agents": {"n1": {"tags": {"zone": "a"}}}, **a_state()}
    assert "n1: update +[web-n1] -[]" in effects_as_lines(scenario.update(tagged, "agents.n1.tags"))
    tagged["agents"]["n1"]["tags"] = {"zone": "b"}
    assert "n1: update +[] -[web-n1]" in effects_as_lines(scenario.update(tagged, "agents.n1.tags"))


def test_an_agent_gets_its_instance_although_a_hook_runs_when_it_connects() -> None:
    scenario = Scenario(has_hooks=True)
    prepared = scenario.server.prepare_start(
        a_state({"web": a_form("", placement={"everyAgent": True})})["desiredState"]
    )
    scenario.server.finish_start(prepared)
    scenario.update(a_state({"app": a_form("n1")}), "desiredState.workloads.app")
    assert not [line for line in effects_as_lines(scenario.hello("n1")) if line.startswith("n1: hello")]
    assert "n1: hello +[app, web-n1]" in effects_as_lines(scenario.server.handle(HooksFinished(None)))


def test_the_name_of_an_instance_cannot_be_used_for_another_workload() -> None:
    scenario = ReplicaScenario("n1")
    scenario.want(replicas=1)
    taken = scenario.update(a_state({"web-0": a_form("n1")}), "desiredState.workloads.web-0")
    assert "workload 'web-0' has the name of an instance of workload 'web'" in error_of(taken)
    scenario.update(a_state(), "desiredState.workloads.web")
    scenario.update(a_state({"web-0": a_form("n1")}), "desiredState.workloads.web-0")
    assert "has the name of an instance" in error_of(scenario.want(replicas=1))


def test_a_dependency_names_an_instance() -> None:
    scenario = ReplicaScenario("n1")
    scenario.want(replicas=1)
    dependent = a_form("n1", dependencies={"web": "ADD_COND_RUNNING"})
    refused = error_of(scenario.update(a_state({"app": dependent}), "desiredState.workloads.app"))
    assert "workload 'app' depends on 'web', which has several instances; name one of them, such as 'web-0'" in refused
    scenario.update(a_state(), "desiredState.workloads.web")
    scenario.update(a_state({"app": dependent}), "desiredState.workloads.app")
    assert "depends on 'web'" in error_of(scenario.want(everyAgent=True))
    other = a_form("n1", dependencies={"web-0": "ADD_COND_RUNNING"})
    scenario.update(a_state({"app": other}), "desiredState.workloads.app")
    assert success_of(scenario.want(replicas=1))[0]


def test_after_a_start_of_the_server_instances_stay_where_agents_report_them() -> None:
    scenario = Scenario()
    form = a_form("", placement={"replicas": 2})
    scenario.server.finish_start(scenario.server.prepare_start(a_state({"web": form})["desiredState"]))
    scenario.from_agent("n2", agentHello=grpc.AgentHello(agentName="n2", devices=True))
    names = [base.WorkloadInstanceName(workloadName="web-1", agentName="n2", id=InstanceName.of("", "", CONFIG).id)]
    scenario.from_agent("n2", knownWorkloads=grpc.KnownWorkloads(instanceNames=names))
    effects = scenario.from_agent("n2", deviceReport=grpc.DeviceReport(complete=True))
    assert "n2: hello +[web-1]" in effects_as_lines(effects)
    assert scenario.get("workloadStates")["workloadStates"][""]["web-0"]


def test_a_stored_state_is_restored_with_its_instances() -> None:
    """Each instance stays on the agent that was stored for it."""
    form = a_form("", placement={"replicas": 2}, restartPolicy="NEVER")
    entries = {
        EntryKey("workload", "web"): form,
        EntryKey("placement", "web-1"): {"agent": "n2", "id": InstanceName.of("", "", CONFIG).id},
    }
    scenario = Scenario()
    scenario.server.restore(restored_state(entries))
    assert scenario.get("effectiveState")["effectiveState"]["workloads"].keys() == {"web-0", "web-1"}
    scenario.hello("n1")
    assert "n2: hello +[web-1]" in effects_as_lines(scenario.hello("n2"))
