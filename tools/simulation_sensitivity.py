#!/usr/bin/env python3
"""Plays seeds with each deliberate fault of the product until the simulation finds it, and prints a table.

Usage: tools/simulation_sensitivity.py [--seeds N] [--write] [NUMBER...]

Each fault ends with the first seed that finds it, or after the given number of seeds. `--write` puts the complete table
into docs/simulation.md.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ankaios.simulation.play import play
from ankaios.simulation.scenario import draw_scenario
from tests.support.deliberate_faults import FAULTS
from tools.simulation_docs import PAGE, with_section

SEEDS = 500
HEAD = "| deliberate fault | found with seed | violated |\n|---|---|---|\n"


def find(number: int, seeds: int) -> tuple[int, int | None, str]:
    """Return the number of the fault, the first seed that finds it, and the violated invariant."""
    fault = FAULTS[number]
    with fault.applied():
        for seed in range(seeds):
            result = play(draw_scenario(seed, nodes=3, hours=0.05, storage=fault.storage))
            if result.violations:
                return number, seed, result.violations[0].invariant
    return number, None, ""


def rows(numbers: Sequence[int], seeds: int) -> Iterator[tuple[bool, str]]:
    """Whether each fault was found, and its row of the table. Each fault has a process, so that its memory is freed."""
    context = multiprocessing.get_context("spawn")
    for number in numbers:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            _, seed, invariant = pool.submit(find, number, seeds).result()
        found = f"not within {seeds} seeds" if seed is None else str(seed)
        yield seed is not None, f"| {FAULTS[number].title} | {found} | {invariant} |\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("numbers", type=int, nargs="*")
    options = parser.parse_args()
    began, table, missed = time.monotonic(), HEAD, 0
    print(HEAD, end="", flush=True)
    for is_found, row in rows(options.numbers or range(len(FAULTS)), options.seeds):
        table += row
        missed += not is_found
        print(row, end="", flush=True)
    print(f"{missed} not found, {time.monotonic() - began:.0f} s")
    if options.write:
        PAGE.write_text(with_section(PAGE.read_text(), "sensitivity", table))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
