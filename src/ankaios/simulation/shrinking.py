"""Shortens a failing scenario: actions are removed as long as the same invariant is still violated.

Input: a failing scenario and a function that plays it. Output: a shorter scenario that still fails, as text and as a
ready-made test. Pure apart from the function it is given.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ankaios.simulation.scenario import Action, Scenario

# Plays that one shrinking may take.
MAX_PLAYS = 200


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """Remove parts of the actions, first large ones, then single ones, while the scenario still fails."""
    actions = list(scenario.actions)
    size = max(1, len(actions) // 2)
    plays = 0
    while size >= 1:
        start = 0
        while start < len(actions) and plays < MAX_PLAYS:
            plays += 1
            shorter = actions[:start] + actions[start + size :]
            if fails(scenario.with_actions(shorter)):
                actions = shorter
            else:
                start += size
        size //= 2
    return scenario.with_actions(_trimmed(actions))


def _trimmed(actions: list[Action]) -> list[Action]:
    return [msgspec.structs.replace(action, time=round(action.time, 3)) for action in actions]


def as_test(scenario: Scenario, invariant: str) -> str:
    """A test module that fails as long as the fault exists."""
    name = "".join(letter if letter.isalnum() else "_" for letter in invariant.lower()).strip("_")
    lines = [
        "from ankaios.simulation.play import play",
        "from ankaios.simulation.scenario import Action, Scenario",
        "",
        "",
        f"def test_{name}_seed_{scenario.seed}() -> None:",
        "    actions = (",
        *(f"        {_as_call(action)}," for action in scenario.actions),
        "    )",
        f"    nodes, servers, storage = {scenario.nodes}, {scenario.servers}, {scenario.storage!r}",
        f"    scenario = Scenario({scenario.seed}, {scenario.hours}, nodes, servers, storage, actions)",
        "    assert play(scenario).violations == []",
    ]
    return "\n".join(lines) + "\n"


def _as_call(action: Action) -> str:
    """The expression that makes the action."""
    values = [action.time, str(action.kind), action.target, action.other]
    while values[-1] == "":
        values.pop()
    seconds = f", seconds={action.seconds}" if action.seconds else ""
    return f"Action({', '.join(map(repr, values))}{seconds})"
