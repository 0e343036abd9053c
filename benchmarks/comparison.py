"""Runs a benchmark alternately with two checkouts of this repository and prints the ratios.

`script --before DIR` measures with the sources of DIR and with those beside the script, several times in turn, so that
other load affects both equally. The best time of each counts.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROUNDS = 5
SOURCES = Path(__file__).resolve().parents[1] / "src"


def run_benchmark(measure: Callable[[], dict[str, float]], check: Callable[[dict[str, float]], int]) -> int:
    """Measure and check, or compare with another checkout if the command line names one."""
    match sys.argv[1:]:
        case []:
            return check(measure())
        case ["--json"]:
            print(json.dumps(measure()))
            return 0
        case ["--before", folder]:
            return _compare(Path(folder) / "src")
    print(f"usage: {sys.argv[0]} [--before CHECKOUT]", file=sys.stderr)
    return 2


def _compare(before: Path) -> int:
    times: dict[str, list[tuple[float, float]]] = {}
    for _ in range(ROUNDS):
        old, new = _measured_with(before), _measured_with(SOURCES)
        for name in old:
            times.setdefault(name, []).append((old[name], new[name]))
    for name, pairs in times.items():
        best_old, best_new = (min(column) for column in zip(*pairs, strict=True))
        ratio = best_new / best_old
        print(f"{name}: before {best_old * 1e6:.0f} µs, now {best_new * 1e6:.0f} µs, ratio {ratio:.2f}")
    return 0


def _measured_with(sources: Path) -> dict[str, float]:
    environment = os.environ | {"PYTHONPATH": str(sources)}
    command = [sys.executable, sys.argv[0], "--json"]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    measured: dict[str, float] = json.loads(output)
    return measured
