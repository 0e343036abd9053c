#!/usr/bin/env python3
"""Plays seeds with each deliberate fault of the product until the simulation finds it, and prints a table.

Usage: tools/simulation_sensitivity.py [--seeds N] [--jobs N] [NUMBER...]
"""

import argparse
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ankaios.simulation.play import play
from ankaios.simulation.scenario import draw_scenario
from tests.support.deliberate_faults import FAULTS


def find(number: int, seeds: int) -> tuple[int, int | None, str]:
    """Return the number of the fault, the first seed that finds it, and the violated invariant."""
    fault = FAULTS[number]
    with fault.applied():
        for seed in range(seeds):
            result = play(draw_scenario(seed, nodes=3, hours=0.05, storage=fault.storage))
            if result.violations:
                return number, seed, result.violations[0].invariant
    return number, None, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("numbers", type=int, nargs="*")
    options = parser.parse_args()
    numbers = options.numbers or range(len(FAULTS))
    missed = 0
    print("| deliberate fault | found with seed | violated |\n|---|---|---|", flush=True)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        for number, seed, invariant in pool.map(find, numbers, [options.seeds] * len(numbers)):
            missed += seed is None
            found = "not found" if seed is None else seed
            print(f"| {FAULTS[number].title} | {found} | {invariant} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
