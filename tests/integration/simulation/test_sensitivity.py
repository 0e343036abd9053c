"""The simulation finds deliberate faults. docs/simulation.md has the table of all of them."""

from collections.abc import Callable

import pytest

from ankaios.simulation.many_seeds import main
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


def test_a_failing_seed_is_printed_as_a_scenario_and_as_a_test_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    fault = FAULTS[TITLES.index("events are sent twice")]
    with fault.applied():
        assert main(["--seeds", "1", "--nodes", "2", "--hours", "0.01", "--storage", "memory", "--jobs", "1"]) == 1
    printed = capsys.readouterr().out
    assert "seed 0: 2 nodes, 1 servers, storage memory" in printed
    assert "virtual hours for each second of CPU time" in printed
    module: dict[str, Callable[[], None]] = {}
    exec(printed[printed.index("from ankaios.simulation.play") :], module)
    (test,) = (module[name] for name in module if name.startswith("test_"))
    with fault.applied(), pytest.raises(AssertionError):
        test()
    test()
