"""Two hundred seeds, in groups that can run at the same time. `scripts/simulate` plays any number."""

import pytest

from ankaios.simulation.play import play
from ankaios.simulation.scenario import draw_scenario

SEEDS, GROUP = 200, 10


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_no_invariant_is_violated(first: int) -> None:
    for seed in range(first, first + GROUP):
        result = play(draw_scenario(seed, nodes=2, hours=0.03))
        assert result.violations == [], f"scripts/simulate --first {seed} --seeds 1 --nodes 2 --hours 0.03"
