"""Usage is requested from agents that can measure it, kept while it is requested, and answered in time."""

from ankaios.common.execution_state import RUNNING_OK
from ankaios.common.messages import Respond, ToAgent
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_to_pb
from ankaios.common.workload import InstanceName
from ankaios.server.core.owned_requests import MAX_OPEN_REQUESTS
from ankaios.server.core.replies import Effect
from ankaios.server.core.requester import Requester
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.usage_collector import MAX_SECONDS, MAX_WAIT, UsageCollector

CLI = Requester("cli-conn-1")
WEB = InstanceName("web", "1", "A")
USAGE = base.ResourceUsage(cpuMillis=250, memoryBytes=4096, uptimeSeconds=7)


class Fixture:
    def __init__(self, *agents: str) -> None:
        self.state = ServerState()
        self.collector = UsageCollector(self.state)
        self.state.workload_states.process([(WEB, RUNNING_OK)])
        for agent in agents:
            self.state.agents.add(agent, {})
            self.collector.agent_connected(agent, grpc.AgentHello(usage=True))

    def request(self, name: str = "r", seconds: int = 5) -> list[Effect]:
        return self.collector.request(f"cli-conn-1@{name}", base.UsageRequest(seconds=seconds), CLI)

    def report(self, agent: str, *names: InstanceName) -> list[Effect]:
        entries = [base.WorkloadUsage(instanceName=instance_name_to_pb(name), usage=USAGE) for name in names]
        return self.collector.report(agent, grpc.UsageReport(workloads=entries))

    @property
    def stored(self) -> object:
        return self.state.tree["workloadStates"]["A"]["web"]["1"].get("usage")


def answers(effects: list[Effect]) -> list[base.UsageResponse]:
    return [effect.response.usageResponse for effect in effects if isinstance(effect, Respond)]


def test_agents_measure_for_the_requested_time_and_the_answer_waits_for_all_of_them() -> None:
    cluster = Fixture("A", "B")
    sent = [effect for effect in cluster.request() if isinstance(effect, ToAgent)]
    assert [(effect.agent, effect.message.measureUsage.seconds) for effect in sent] == [("A", 5), ("B", 5)]
    assert cluster.report("A", WEB) == []
    (answer,) = answers(cluster.report("B"))
    assert [(entry.instanceName.workloadName, entry.usage) for entry in answer.workloads] == [("web", USAGE)]
    assert list(answer.missingAgents) == []


def test_a_recent_report_answers_the_next_request_immediately() -> None:
    cluster = Fixture("A")
    cluster.request()
    cluster.report("A", WEB)
    cluster.collector.tick()
    assert len(answers(cluster.request("again"))) == 1


def test_an_agent_that_does_not_report_in_time_is_named() -> None:
    cluster = Fixture("A", "B")
    cluster.request()
    cluster.report("A", WEB)
    found = [answer for _ in range(MAX_WAIT + 1) for answer in answers(cluster.collector.tick())]
    assert [list(answer.missingAgents) for answer in found] == [["B"]]


def test_an_agent_that_cannot_measure_is_sent_nothing_and_is_named() -> None:
    cluster = Fixture()
    cluster.state.agents.add("old", {})
    assert cluster.collector.agent_connected("old", grpc.AgentHello()) == []
    (only,) = cluster.request()
    assert isinstance(only, Respond)
    assert list(only.response.usageResponse.missingAgents) == ["old"]


def test_values_are_in_the_state_while_they_are_requested_even_after_a_change_of_the_state() -> None:
    cluster = Fixture("A")
    cluster.request(seconds=2)
    cluster.report("A", WEB)
    form = {"cpuMillis": 250, "memoryBytes": 4096, "uptimeSeconds": 7}
    assert cluster.stored == form
    cluster.state.workload_states.process([(WEB, RUNNING_OK.because("still"))])
    assert cluster.stored == form
    cluster.collector.tick()
    cluster.collector.tick()
    assert cluster.stored is None


def test_values_cause_no_event() -> None:
    cluster = Fixture("A")
    cluster.request()
    cluster.state.recorder.start()
    cluster.report("A", WEB)
    assert not cluster.state.recorder.finish()


def test_values_of_a_workload_that_is_not_reported_any_more_are_removed() -> None:
    cluster = Fixture("A")
    cluster.request()
    cluster.report("A", WEB)
    cluster.report("A")
    assert cluster.stored is None


def test_unrequested_values_and_values_of_other_agents_are_ignored() -> None:
    cluster = Fixture("A", "B")
    cluster.report("A", WEB)
    assert cluster.stored is None
    cluster.request()
    cluster.report("B", WEB)
    assert cluster.stored is None


def test_a_request_does_not_wait_for_a_disconnected_agent() -> None:
    cluster = Fixture("A")
    cluster.request()
    assert len(answers(cluster.collector.agent_gone("A"))) == 1


def test_an_agent_that_connects_while_usage_is_requested_measures_too() -> None:
    cluster = Fixture()
    cluster.request(seconds=9)
    (measure,) = cluster.collector.agent_connected("A", grpc.AgentHello(usage=True))
    assert isinstance(measure, ToAgent)
    assert measure.message.measureUsage.seconds == 9


def test_usage_requests_of_a_disconnected_client_are_dropped() -> None:
    cluster = Fixture("A")
    cluster.request()
    cluster.collector.client_gone("cli-conn-1")
    assert cluster.report("A", WEB) == []


def test_requests_are_limited_in_number_and_duration() -> None:
    cluster = Fixture("A")
    for number in range(MAX_OPEN_REQUESTS):
        (measure,) = cluster.request(str(number), seconds=10**6)
        assert isinstance(measure, ToAgent)
        assert measure.message.measureUsage.seconds == MAX_SECONDS
    (refused,) = cluster.request("one more")
    assert isinstance(refused, Respond)
    assert "usage requests" in refused.response.error.message
