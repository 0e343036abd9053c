"""What the server executes for one message does not grow with the number of agents that are connected.

The executed instructions of Python are counted, so the result is the same on each run and on each machine.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from ankaios.common.execution_state import RUNNING_OK, SUCCEEDED_OK
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import InstanceName
from ankaios.server.core.state_interests import StateInterests
from tests.unit.server.scenario import CONFIG, Scenario, a_form, a_state

FEW, MANY = 10, 150
MAX_RATIO = 1.2


@pytest.fixture(autouse=True)
def few_witnesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Witnesses receive the states of all agents when they connect; the agent that is counted is no witness."""
    monkeypatch.setattr(StateInterests.__init__, "__defaults__", (2,))


def executed_instructions(action: Callable[[Scenario], object], scenario: Scenario) -> int:
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 counts instructions only if this is set before `settrace`
    sys.settrace(trace)
    try:
        action(scenario)
    finally:
        sys.settrace(before)
    return count


def hello(scenario: Scenario, agent: str, *, devices: bool) -> None:
    """The hello of an agent of this project."""
    content = grpc.AgentHello(
        agentName=agent,
        protocolVersion="1.0.0",
        devices=devices,
        records=True,
        usage=True,
        keepsUnlisted=True,
        dependencyStatesOnly=True,
    )
    scenario.from_agent(agent, agentHello=content)
    if devices:
        scenario.from_agent(agent, deviceReport=grpc.DeviceReport(complete=True))


def fleet(agents: int, *, everywhere: bool = False, devices: bool = False) -> Scenario:
    """Each agent has two workloads; one of them depends on a workload of another agent. Agent `last` is missing."""
    names = [*(f"n{number}" for number in range(agents)), "last"]
    workloads = {f"{name}-db": a_form(name) for name in names}
    for name, other in zip(names[1:], names, strict=False):
        workloads[f"{name}-web"] = a_form(name, dependencies={f"{other}-db": "ADD_COND_RUNNING"})
    if everywhere:
        workloads["everywhere"] = a_form("", placement={"everyAgent": True})
    scenario = Scenario()
    scenario.update(a_state(workloads))
    for name in names[:-1]:
        hello(scenario, name, devices=devices)
        scenario.report(name, {InstanceName.of(f"{name}-db", name, CONFIG): RUNNING_OK})
    return scenario


def update_one(scenario: Scenario) -> None:
    scenario.update(a_state({"n5-web": a_form("n5", "image: other")}), "desiredState.workloads.n5-web")


ACTIONS: dict[str, Callable[[Scenario], object]] = {
    "hello": lambda scenario: hello(scenario, "last", devices=False),
    "hello with devices": lambda scenario: hello(scenario, "last", devices=True),
    "state": lambda scenario: scenario.report("n5", {InstanceName.of("n5-db", "n5", CONFIG): SUCCEEDED_OK}),
    "update": update_one,
    "end of a connection": lambda scenario: scenario.gone("n5"),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("everywhere", [False, True])
def test_a_message_costs_the_same_with_few_and_with_many_agents(action: str, everywhere: bool) -> None:
    devices = "devices" in action
    scenarios = [fleet(size, everywhere=everywhere, devices=devices) for size in (FEW, MANY)]
    few, many = (executed_instructions(ACTIONS[action], scenario) for scenario in scenarios)
    assert few > 100, "the instructions were counted"
    assert many <= few * MAX_RATIO, f"{few} instructions with {FEW} agents, {many} with {MANY}"
