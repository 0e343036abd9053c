"""Which messages are handled in a worker thread, and which can be answered from a snapshot meanwhile."""

from typing import Any

import pytest

from ankaios.common.messages import AgentGone, ClientGone, FromAgent, FromClient
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.server.core.long_messages import LONG_SIZE, only_reads
from ankaios.server.core.replies import HooksFinished, NextChange, SecondPassed, ServerMessage
from tests.unit.server.scenario import Scenario, a_form, a_state

MANY = LONG_SIZE + 1


def names(count: int) -> list[str]:
    return [f"w{number}" for number in range(count)]


def a_request(**content: Any) -> FromClient:
    return FromClient("cli-conn-1", base.Request(requestId="cli-conn-1@r", **content))


def read(*masks: str, subscribe: bool = False) -> FromClient:
    content = base.CompleteStateRequest(fieldMask=masks, subscribeForEvents=subscribe)
    return a_request(completeStateRequest=content)


def an_update(*masks: str, workloads: int = 0, configs: int = 0) -> base.UpdateStateRequest:
    update = base.UpdateStateRequest(updateMask=masks)
    for name in names(workloads):
        update.newState.desiredState.workloads.workloads[name].SetInParent()
    for name in names(configs):
        update.newState.desiredState.configs.configs[name].SetInParent()
    return update


def report(states: int) -> FromAgent:
    entries = [base.WorkloadState() for _ in range(states)]
    return FromAgent("n1", grpc.ToServer(updateWorkloadState=grpc.UpdateWorkloadState(workloadStates=entries)))


def hello(agent: str, *, wants_all: bool = False) -> FromAgent:
    return FromAgent(
        agent, grpc.ToServer(agentHello=grpc.AgentHello(agentName=agent, dependencyStatesOnly=not wants_all))
    )


def large_cluster() -> Scenario:
    """Many workloads on agent n1, which all use the config `shared`, and one on agent n2."""
    scenario = Scenario()
    workloads = {name: a_form(configs={"c": "shared"}) for name in names(MANY)}
    scenario.update(a_state({**workloads, "other": a_form(agent="n2")}, configs={"shared": "x"}))
    return scenario


WORKLOADS = "desiredState.workloads"
LONG = [
    read(),
    read("desiredState"),
    read("effectiveState.workloads"),
    read("desiredState.workloads.*.agent"),
    read("workloadStates"),
    read("workloadStates.n1"),
    read("workloadStates.*.w1"),
    read("x" * 200 * LONG_SIZE),
    read(*names(MANY)),
    read(subscribe=True),
    a_request(updateStateRequest=an_update()),
    a_request(updateStateRequest=an_update(WORKLOADS)),
    a_request(planRequest=base.PlanRequest(update=an_update(WORKLOADS))),
    a_request(updateStateRequest=an_update(f"{WORKLOADS}.w1", workloads=MANY)),
    a_request(updateStateRequest=an_update("desiredState.configs.shared", configs=MANY)),
    a_request(updateStateRequest=an_update(*(f"{WORKLOADS}.{name}" for name in names(MANY)))),
    a_request(rollbackRequest=base.RollbackRequest(revision=1)),
    a_request(historyRequest=base.HistoryRequest()),
    a_request(recordsRequest=base.RecordsRequest()),
    FromAgent("n1", grpc.ToServer(request=read().request)),
    report(MANY),
    hello("n1"),
    hello("n3", wants_all=True),
    AgentGone("n1"),
]
SHORT = [
    read("agents"),
    read("agents.n1"),
    read("desiredState.apiVersion"),
    read("desiredState.workloads.w1"),
    read("workloadStates.n2"),
    a_request(updateStateRequest=an_update(f"{WORKLOADS}.w1", workloads=1)),
    a_request(logsRequest=base.LogsRequest()),
    report(LONG_SIZE),
    hello("n2"),
    AgentGone("n2"),
    ClientGone("cli-conn-1"),
    SecondPassed(),
]


@pytest.mark.parametrize("message", LONG, ids=lambda it: repr(it)[:80])
def test_messages_about_many_entries_take_long(message: ServerMessage) -> None:
    assert large_cluster().server.takes_long(message)


@pytest.mark.parametrize("message", SHORT, ids=lambda it: repr(it)[:80])
def test_messages_about_few_entries_do_not_take_long(message: ServerMessage) -> None:
    assert not large_cluster().server.takes_long(message)


@pytest.mark.parametrize("message", [*LONG, *SHORT], ids=lambda it: repr(it)[:80])
def test_in_a_small_cluster_only_large_messages_take_long(message: ServerMessage) -> None:
    assert Scenario().server.takes_long(message) == (message in LONG and len(repr(message)) > LONG_SIZE * 10)


def test_a_config_that_many_workloads_use_takes_long_to_change() -> None:
    message = a_request(updateStateRequest=base.UpdateStateRequest(updateMask=["desiredState.configs.shared"]))
    message.request.updateStateRequest.newState.desiredState.configs.configs["shared"].String = "y"
    assert large_cluster().server.takes_long(message)


def test_one_entry_with_a_long_text_takes_long() -> None:
    message = a_request(updateStateRequest=an_update(f"{WORKLOADS}.w0", workloads=1))
    message.request.updateStateRequest.newState.desiredState.workloads.workloads["w0"].runtimeConfig = "x" * 500_000
    assert Scenario().server.takes_long(message)


def test_an_update_that_waited_for_hooks_takes_as_long_as_others() -> None:
    scenario = Scenario(has_hooks=True)
    state = a_state({name: a_form() for name in names(MANY)})
    for _ in range(2):
        scenario.update(state)
    assert scenario.server.takes_long(HooksFinished(None))
    assert scenario.server.takes_long(NextChange())
    scenario.server.handle(HooksFinished(None))
    assert not scenario.server.takes_long(HooksFinished(None))


def test_only_requests_for_the_state_can_be_answered_from_a_snapshot() -> None:
    assert only_reads(read("agents"))
    assert only_reads(FromAgent("n1", grpc.ToServer(request=read().request)))
    assert only_reads(a_request(serversRequest=base.ServersRequest()))
    assert not only_reads(read(subscribe=True))
    assert not only_reads(a_request(updateStateRequest=an_update()))
    assert not only_reads(report(1))
    assert not only_reads(AgentGone("n1"))


def test_a_snapshot_does_not_change_with_the_state() -> None:
    scenario = large_cluster()
    scenario.hello("n1", {"zone": "front"})
    everything = read().request
    before = scenario.server.snapshot()
    expected = before.response(everything)
    assert expected.response.completeStateResponse == scenario.server.handle(read())[0].response.completeStateResponse  # type: ignore[union-attr]
    scenario.update(a_state({"new": a_form(agent="n3")}))
    scenario.gone("n1")
    assert before.response(everything) == expected
    assert scenario.server.snapshot().response(everything) != expected
