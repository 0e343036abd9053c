"""Scenarios on whole clusters: the same seed gives the same record, and all invariants hold."""

import os
from collections.abc import Callable
from typing import cast

import pytest

from ankaios.simulation import invariants as inv
from ankaios.simulation.play import SimulationResult, play
from ankaios.simulation.scenario import Action, Fault, Scenario, UserAction, draw_scenario
from ankaios.simulation.shrinking import as_test, shrink

NODES = ("node1", "node2")


def short_scenario(*actions: Action, hours: float = 0.02) -> Scenario:
    return Scenario(7, hours, NODES, actions=actions)


def test_the_same_seed_gives_the_same_record() -> None:
    scenario = draw_scenario(2, nodes=2, hours=0.02, storage="memory")
    first, second = play(scenario), play(scenario)
    assert list(map(str, first.record)) == list(map(str, second.record))
    assert first.violations == []


def test_a_simulation_closes_the_files_of_killed_processes() -> None:
    before = len(os.listdir("/proc/self/fd"))
    result = play(
        Scenario(7, 0.01, NODES, storage="sqlite", actions=(Action(5, Fault.KILL_SERVER, "server0", seconds=1),))
    )
    assert result.violations == []
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    "fault", [Fault.KILL_AGENT, Fault.POWER_NODE, Fault.RUNTIME_HANGS, Fault.RUNTIME_FAILS, Fault.WRONG_STATES]
)
def test_a_cluster_recovers_from_a_fault_of_a_node(fault: str) -> None:
    result = play(
        short_scenario(
            Action(1, UserAction.APPLY, "w0", "v0"),
            Action(10, fault, "node1", seconds=5),
            Action(11, UserAction.APPLY, "w0", "v1"),
        )
    )
    assert result.violations == []
    assert result.operations == {"accepted": 2}
    assert sum("started" in happening.what for happening in result.record) >= 2


def test_a_dependent_workload_starts_after_its_dependency() -> None:
    result = play(short_scenario(Action(1, UserAction.APPLY, "w2", "v0"), Action(9, UserAction.APPLY, "w1", "v0")))
    started = [it.what.split()[0] for it in result.record if " started " in it.what]
    assert started == ["w1", "w2"]
    assert result.violations == []


def test_a_failing_scenario_is_shortened_to_the_necessary_actions() -> None:
    scenario = draw_scenario(3, nodes=2, hours=0.05, storage="memory")
    wanted = scenario.actions[5]
    short = shrink(scenario, lambda it: any(action.target == wanted.target for action in it.actions))
    assert len(short.actions) == 1


def test_a_failing_scenario_is_printed_as_a_test_that_plays_it() -> None:
    scenario = draw_scenario(3, nodes=2, hours=0.05)
    played: list[Scenario] = []
    module: dict[str, object] = {}
    exec(as_test(scenario, inv.LOST_CHANGE), module)

    def note(it: Scenario) -> SimulationResult:
        played.append(it)
        return play(short_scenario())

    module["play"] = note
    test = cast("Callable[[], None]", module["test_no_acknowledged_change_is_lost_seed_3"])
    test()
    assert played == [scenario]
