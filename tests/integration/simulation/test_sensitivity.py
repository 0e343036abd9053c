"""The simulation finds deliberate faults. docs/simulation.md has the table of all of them."""

import pytest

from tests.support.deliberate_faults import FAULTS
from tools.simulation_sensitivity import find

TITLES = [fault.title for fault in FAULTS]


def test_there_are_at_least_25_deliberate_faults() -> None:
    assert len(set(TITLES)) == len(TITLES) >= 25


@pytest.mark.parametrize("title", ["events are sent twice", "dependencies are ignored", "deletes wait for ever"])
def test_a_deliberate_fault_is_found(title: str) -> None:
    number = TITLES.index(title)
    _, seed, invariant = find(number, 10)
    assert seed is not None
    assert invariant
