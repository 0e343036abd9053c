"""States of workloads that do not exist any more are removed when their agent reconnects."""

from ankaios.common.execution_state import RUNNING_OK
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_to_pb
from ankaios.server.core.replies import Effect, SecondPassed
from tests.unit.server.scenario import Scenario, a_form, a_state, effects_as_lines, web


def a_scenario_with_a_workload_deleted_while_its_agent_was_away() -> Scenario:
    scenario = Scenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form()}))
    scenario.report("n1", {web(): RUNNING_OK})
    scenario.gone("n1")
    scenario.update(a_state({}), "desiredState.workloads")
    assert "n1" in scenario.get("workloadStates")["workloadStates"]
    return scenario


def hello_of_ours(scenario: Scenario) -> list[Effect]:
    return scenario.from_agent("n1", agentHello=grpc.AgentHello(agentName="n1", protocolVersion="1.0.0", devices=True))


def known(scenario: Scenario, *names: object) -> list[Effect]:
    listed = grpc.KnownWorkloads(instanceNames=[instance_name_to_pb(name) for name in names])  # type: ignore[arg-type]
    return scenario.from_agent("n1", knownWorkloads=listed)


def has_row(scenario: Scenario) -> bool:
    return "n1" in scenario.get("workloadStates").get("workloadStates", {})


def test_a_state_is_removed_when_the_agent_has_listed_its_workloads() -> None:
    scenario = a_scenario_with_a_workload_deleted_while_its_agent_was_away()
    effects = hello_of_ours(scenario)
    assert any("tellWorkloads" in line for line in effects_as_lines(effects)), effects_as_lines(effects)
    assert has_row(scenario)
    effects = known(scenario)
    assert not has_row(scenario)
    assert any("Removed" in line for line in effects_as_lines(effects)), effects_as_lines(effects)


def test_a_workload_that_the_agent_still_has_keeps_its_state_until_the_agent_reports_it() -> None:
    scenario = a_scenario_with_a_workload_deleted_while_its_agent_was_away()
    hello_of_ours(scenario)
    known(scenario, web())
    assert has_row(scenario)


def test_a_workload_that_shall_run_keeps_its_state() -> None:
    scenario = Scenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form()}))
    scenario.gone("n1")
    hello_of_ours(scenario)
    known(scenario)
    assert has_row(scenario)


def test_an_agent_without_a_list_gets_ten_seconds_to_report() -> None:
    scenario = a_scenario_with_a_workload_deleted_while_its_agent_was_away()
    scenario.hello("n1")
    for _ in range(9):
        scenario.server.handle(SecondPassed())
    assert has_row(scenario)
    scenario.server.handle(SecondPassed())
    assert not has_row(scenario)


def test_the_time_limit_does_not_apply_to_an_agent_that_disconnected_again() -> None:
    scenario = a_scenario_with_a_workload_deleted_while_its_agent_was_away()
    scenario.hello("n1")
    scenario.gone("n1")
    for _ in range(20):
        scenario.server.handle(SecondPassed())
    assert has_row(scenario)
