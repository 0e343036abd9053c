"""Plays many seeds in several processes and reports what was violated. Used by `scripts/simulate`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from msgspec import Struct, field

from ankaios.simulation.play import SimulationResult, play
from ankaios.simulation.scenario import Scenario, draw_scenario
from ankaios.simulation.shrinking import as_test, shrink

PROGRESS = 500  # seeds between two reports while it runs


class SimulationReport(Struct):
    """The sums over all seeds. `hours` are virtual ones, `cpu` are seconds."""

    seeds: int = 0
    hours: float = 0.0
    cpu: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[Scenario, list[str], str]] = field(default_factory=list)

    def add(self, result: SimulationResult, cpu: float) -> None:
        self.seeds += 1
        self.cpu += cpu
        self.hours += result.virtual_seconds / 3600
        self.faults += result.scenario.faults()
        self.operations += result.operations
        if result.violations:
            texts = [str(violation) for violation in result.violations]
            self.failed.append((result.scenario, texts, result.violations[0].invariant))


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    began = time.monotonic()
    report = SimulationReport()
    for result, cpu in _results(options):
        report.add(result, cpu)
        if result.violations:
            print(f"seed {result.scenario.seed}: {result.violations[0]}", flush=True)
        if report.seeds % PROGRESS == 0 and report.seeds < options.seeds:
            _print(report, time.monotonic() - began)
    if options.record:
        return 0
    _print(report, time.monotonic() - began)
    for scenario, texts, invariant in report.failed[: options.shrink]:
        _print_shrunk(scenario, texts, invariant)
    return 1 if report.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/simulate", description="Run whole clusters on virtual time, with faults drawn from a seed."
    )
    add = parser.add_argument
    add("--seeds", type=int, default=100, metavar="N", help="how many seeds to play [default: 100]")
    add("--first", type=int, default=0, metavar="SEED", help="the first seed [default: 0]")
    add("--nodes", type=int, default=5, metavar="N", help="nodes of each cluster [default: 5]")
    add("--hours", type=float, default=0.1, metavar="H", help="virtual hours of each seed [default: 0.1]")
    add("--storage", choices=("memory", "sqlite", "etcd"), help="the store [default: drawn from the seed]")
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes to use [default: all cores]")
    add("--shrink", type=int, default=1, metavar="N", help="how many failing seeds to shorten [default: 1]")
    add("--record", action="store_true", help="print what happened in the first seed, and nothing else")
    return parser


def _results(options: argparse.Namespace) -> Iterator[tuple[SimulationResult, float]]:
    scenarios = [
        draw_scenario(seed, nodes=options.nodes, hours=options.hours, storage=options.storage)
        for seed in range(options.first, options.first + options.seeds)
    ]
    if options.record:
        print(*play(scenarios[0], stop_early=False).record, sep="\n")
    elif options.jobs == 1:
        yield from map(_play, scenarios)
    else:
        with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield from pool.map(_play, scenarios)


def _play(scenario: Scenario) -> tuple[SimulationResult, float]:
    """The result, and the CPU time in seconds."""
    began = time.process_time()
    result = play(scenario)
    result.record = []  # large, and it can be made again
    return result, time.process_time() - began


def _print(report: SimulationReport, seconds: float) -> None:
    speed = (
        f"{report.hours / report.cpu:.2f} virtual hours for each second of CPU time" if report.cpu else "no CPU time"
    )
    print(f"{report.seeds} seeds, {report.hours:.1f} virtual hours in {seconds:.0f} s, {speed}")
    print("faults: " + ", ".join(f"{kind} {count}" for kind, count in report.faults.most_common()))
    print("changes: " + ", ".join(f"{kind} {count}" for kind, count in report.operations.most_common()))
    print(f"seeds with violations: {len(report.failed)}", flush=True)


def _print_shrunk(scenario: Scenario, texts: list[str], invariant: str) -> None:
    print(f"\nshortening seed {scenario.seed} ...", flush=True)

    def fails(shorter: Scenario) -> bool:
        return any(violation.invariant == invariant for violation in play(shorter).violations)

    short = shrink(scenario, fails)
    print("\n".join(texts[:5]), f"\n{short}\n", as_test(short, invariant), sep="\n")
