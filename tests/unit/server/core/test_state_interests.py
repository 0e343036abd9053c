"""Agents that request only the states that they need receive exactly these, before the message that needs them."""

import pytest

from ankaios.common.execution_state import RUNNING_OK, SUCCEEDED_OK
from ankaios.common.messages import BroadcastStates, ToAgent
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import InstanceName
from ankaios.server.core.replies import Effect
from ankaios.server.core.state_interests import StateInterests
from tests.unit.server.scenario import CONFIG, Scenario, a_form, a_state

DB = InstanceName.of("db", "n2", CONFIG)
OTHER = InstanceName.of("other", "n2", CONFIG)
WEB_ON_N1 = a_form("n1", dependencies={"db": "ADD_COND_RUNNING"})


@pytest.fixture(autouse=True)
def no_witnesses(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    most = 1 if "witness" in request.node.name else 0
    monkeypatch.setattr(StateInterests.__init__, "__defaults__", (most,))


def hello_of_ours(scenario: Scenario, agent: str = "n1") -> list[Effect]:
    hello = grpc.AgentHello(agentName=agent, protocolVersion="1.0.0", dependencyStatesOnly=True)
    return scenario.from_agent(agent, agentHello=hello)


def messages_to(agent: str, effects: list[Effect]) -> list[str]:
    """The kinds of the messages, with the names of the workloads whose states they contain."""
    found = []
    for effect in effects:
        match effect:
            case ToAgent(receiver, message) if receiver == agent:
                states = [state.instanceName.workloadName for state in message.updateWorkloadState.workloadStates]
                found.append(" ".join([str(message.WhichOneof("FromServerEnum")), *states]))
            case BroadcastStates(_, selected):
                for group in selected:
                    if agent in group.agents:
                        found.append(" ".join(["selected", *(it.instanceName.workloadName for it in group.states)]))
    return found


def a_scenario() -> Scenario:
    """Two workloads run on `n2`; `n1` is not connected yet."""
    scenario = Scenario()
    scenario.hello("n2")
    scenario.update(a_state({"db": a_form("n2"), "other": a_form("n2")}))
    scenario.report("n2", {DB: RUNNING_OK, OTHER: RUNNING_OK})
    return scenario


def test_an_agent_without_workloads_receives_no_states() -> None:
    scenario = a_scenario()
    assert messages_to("n1", hello_of_ours(scenario)) == ["serverHello"]
    assert messages_to("n1", scenario.report("n2", {DB: SUCCEEDED_OK})) == []


def test_an_agent_of_eclipse_ankaios_receives_all_states() -> None:
    scenario = a_scenario()
    assert messages_to("n1", scenario.hello("n1")) == ["updateWorkloadState db other", "serverHello"]


def test_the_states_of_dependencies_are_sent_before_the_greeting() -> None:
    scenario = a_scenario()
    scenario.update(a_state({"web": WEB_ON_N1}), "desiredState.workloads.web")
    assert messages_to("n1", hello_of_ours(scenario)) == ["updateWorkloadState db", "serverHello"]


def test_the_states_of_new_dependencies_are_sent_before_the_workload_and_once() -> None:
    scenario = a_scenario()
    hello_of_ours(scenario)
    update = scenario.update(a_state({"web": WEB_ON_N1}), "desiredState.workloads.web")
    assert messages_to("n1", update) == ["updateWorkloadState db", "updateWorkload"]
    again = scenario.update(a_state({"web2": WEB_ON_N1}), "desiredState.workloads.web2")
    assert messages_to("n1", again) == ["updateWorkload"]


def test_only_states_of_dependencies_are_forwarded() -> None:
    scenario = a_scenario()
    hello_of_ours(scenario)
    scenario.update(a_state({"web": WEB_ON_N1}), "desiredState.workloads.web")
    assert messages_to("n1", scenario.report("n2", {DB: SUCCEEDED_OK, OTHER: SUCCEEDED_OK})) == ["selected db"]
    assert messages_to("n1", scenario.gone("n2")) == ["selected db"]


def test_the_states_of_dependents_are_sent_before_a_delete_that_waits_for_them() -> None:
    scenario = Scenario()
    hello_of_ours(scenario, "n1")
    hello_of_ours(scenario, "n2")
    scenario.update(a_state({"db": a_form("n2"), "web": WEB_ON_N1}))
    web = InstanceName.of("web", "n1", CONFIG)
    scenario.report("n2", {DB: RUNNING_OK})
    scenario.report("n1", {web: RUNNING_OK})
    deleted = scenario.update(a_state({}), "desiredState.workloads")
    assert messages_to("n2", deleted) == ["updateWorkloadState web", "updateWorkload"]


def test_agents_with_the_same_needs_share_one_message() -> None:
    scenario = a_scenario()
    for number in range(3):
        hello_of_ours(scenario, f"m{number}")
        workload = {f"w{number}": {**WEB_ON_N1, "agent": f"m{number}"}}
        scenario.update(a_state(workload), f"desiredState.workloads.w{number}")
    (broadcast,) = [it for it in scenario.report("n2", {DB: SUCCEEDED_OK}) if isinstance(it, BroadcastStates)]
    (group,) = broadcast.selected
    assert group.agents == ("m0", "m1", "m2")


def test_a_reconnected_agent_receives_the_states_again() -> None:
    scenario = a_scenario()
    hello_of_ours(scenario)
    scenario.update(a_state({"web": WEB_ON_N1}), "desiredState.workloads.web")
    scenario.gone("n1")
    assert messages_to("n1", hello_of_ours(scenario)) == ["updateWorkloadState db", "serverHello"]


def test_a_witness_receives_all_states_and_is_replaced_when_it_disconnects() -> None:
    scenario = a_scenario()
    assert messages_to("n1", hello_of_ours(scenario)) == ["updateWorkloadState db other", "serverHello"]
    assert messages_to("n3", hello_of_ours(scenario, "n3")) == ["serverHello"]
    reported = scenario.report("n2", {DB: SUCCEEDED_OK, OTHER: SUCCEEDED_OK})
    assert messages_to("n1", reported) == ["selected db other"]
    assert messages_to("n3", reported) == []
    scenario.gone("n1")
    scenario.gone("n3")
    assert messages_to("n3", hello_of_ours(scenario, "n3")) == ["updateWorkloadState db other", "serverHello"]
