#!/usr/bin/env python3
"""The steps of scripts/test: runs them all, then reports which failed and why, and what was skipped.

Static checks come first. Unit tests run in one process per core, with a coverage gate for the `core/` packages, and
then with every other supported Python that is installed. Integration, system and browser tests share parallel workers,
because most of them wait most of the time; `schedule.py` decides what runs where. No test is repeated. A run that
leaves processes or files behind fails (`clean_run.py`). The last line is the result, and the exit code is 0 only if it
is "all passed".
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.clean_run import CleanRun  # noqa: E402
from tests.support.coverage_gate import measured_coverage  # noqa: E402
from tests.support.notes import Note, read_notes  # noqa: E402
from tests.support.pythons import (  # noqa: E402
    Python,
    installed_pythons,
    prepare_environment,
    supported_versions,
)

STATIC = ("lint", "types", "layers", "proto", "trace")
TESTS = ("unit", "pythons", "integration", "system", "browser")
STEPS = (*STATIC, *TESTS)
BIN = ROOT / ".venv/bin"
GROUPED = ("--dist", "loadgroup", "--no-loadscope-reorder")  # as schedule.py requires
UNIT_TESTS = ("tests/unit", "-n", "auto", *GROUPED)
PYTEST_CODES = {
    1: "tests failed",
    2: "interrupted",
    3: "internal error of pytest, see above",
    4: "pytest could not be used like this, see above",
    5: "no tests were found",
}


@dataclass
class Report:
    """What happened so far. Steps are kept in the order in which they ran."""

    seconds: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # step -> reason
    remarks: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def code(self) -> int:
        return 1 if self.failures else 0

    def lines(self) -> Iterator[str]:
        yield from skipped_lines(self.notes)
        yield from self.remarks
        yield "== steps"
        for step, seconds in self.seconds.items():
            result, reason = ("FAILED", f": {self.failures[step]}") if step in self.failures else ("passed", "")
            yield f"   {result}  {seconds:6.0f} s  {step}{reason}"
        yield from (
            f"   FAILED            {step}: {why}" for step, why in self.failures.items() if step not in self.seconds
        )
        if failed := [note for note in self.notes if note.kind == "failed"]:
            yield f"== failed tests: {len(failed)}"
            yield from (f"   {note.reason}: {note.place}" for note in failed)
        total = sum(self.seconds.values())
        if self.failures:
            yield f"== failed: {', '.join(self.failures)} (after {total:.0f} s)"
        else:
            yield f"== all passed ({total:.0f} s)"


def skipped_lines(notes: Sequence[Note]) -> Iterator[str]:
    skipped: dict[str, list[str]] = defaultdict(list)
    for note in notes:
        if note.kind == "skipped":
            skipped[note.reason].append(note.place)
    yield "== skipped, and why" if skipped else "== nothing was skipped"
    for reason, places in skipped.items():
        yield f"{len(places):5d}  {reason} ({' '.join(dict.fromkeys(places))})"
    if instead := dict.fromkeys(f"       {note.reason} ({note.place})" for note in notes if note.kind == "instead"):
        yield "== shown in the docs, run in another form"
        yield from instead


class Runner:
    """Performs steps in a `CleanRun` and fills the report."""

    def __init__(self, run: CleanRun) -> None:
        self.run = run
        self.report = Report()

    def step(self, name: str, action: Callable[[], str | None]) -> None:
        """The action returns the reason of a failure, or None."""
        if self.run.stopped_by is not None:
            return
        print(f"== {name}", flush=True)
        began = time.monotonic()
        reason = action()
        self.report.seconds[name] = time.monotonic() - began
        if reason is not None:
            self.report.failures[name] = reason

    def command(self, *commands: Sequence[str | Path]) -> str | None:
        """Run all commands; the reason names those that failed."""
        failed = [
            f"'{shown(command)}' ended with code {code}" for command in commands if (code := self.run.call(command))
        ]
        return "; ".join(failed) or None

    def pytest(self, python: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> str | None:
        color = ["--color=yes"] if sys.stdout.isatty() else []
        code = self.run.call([python, "-m", "pytest", *color, *arguments], environ)
        return None if code == 0 else PYTEST_CODES.get(code, f"pytest ended with code {code}")

    def unit(self) -> str | None:
        """With this Python. A selection of tests (PYTEST_ADDOPTS) cannot be measured against the gate."""
        data = self.run.folder / "coverage"
        whole = "PYTEST_ADDOPTS" not in os.environ
        coverage = ["--cov", "--cov-report="] if whole else []
        reason = self.pytest(BIN / "python", *UNIT_TESTS, *coverage, environ={"COVERAGE_FILE": str(data)})
        if reason is None and whole:
            lines, reason = measured_coverage(data)
            print(*lines, sep="\n")
        return reason

    def other_pythons(self) -> None:
        supported = supported_versions()
        found = installed_pythons(supported, os.environ)
        own = ".".join(map(str, sys.version_info[:2]))
        for version in supported:
            if version != own and version in found:
                self.step(f"unit on Python {found[version].version}", partial(self._unit_on, found[version]))
        missing = [version for version in supported if version not in found and version != own]
        have = [own, *(version for version in found if version != own)]
        self.report.remarks.append(
            f"== unit tests ran on Python {', '.join(sorted(have))}; supported but not installed here: "
            + (", ".join(missing) or "none")
        )

    def _unit_on(self, python: Python) -> str | None:
        try:
            program = prepare_environment(python)
        except (OSError, subprocess.CalledProcessError) as error:
            return f"no environment for {python.program}: {error}"
        return self.pytest(program, *UNIT_TESTS)

    def system(self, folders: Sequence[str]) -> str | None:
        paths = [f"tests/{folder}" for folder in folders]
        return self.pytest(BIN / "python", *paths, "-n", str(system_workers()), *GROUPED)


def system_workers() -> int:
    """More workers than cores: most of the tests wait for processes, timers and podman."""
    return 2 * (os.cpu_count() or 1)


def shown(command: Sequence[str | Path]) -> str:
    return " ".join(str(word).removeprefix(f"{BIN}/").removeprefix(f"{ROOT}/") for word in command)


def perform(runner: Runner, steps: Sequence[str]) -> None:
    static: dict[str, list[list[str | Path]]] = {
        "lint": [[BIN / "ruff", "format", "--check", "."], [BIN / "ruff", "check", "."]],
        "types": [[BIN / "mypy"]],
        "layers": [[BIN / "lint-imports"]],
        "proto": [[ROOT / "scripts/generate-proto", "--check"]],
        "trace": [[BIN / "python", "tools/trace.py", "--missing"]],
    }
    for name in STATIC:
        if name in steps:
            runner.step(name, partial(runner.command, *static[name]))
    if "unit" in steps:
        runner.step("unit", runner.unit)
    if "pythons" in steps:
        runner.other_pythons()
    if folders := [name for name in ("integration", "system", "browser") if name in steps]:
        runner.step(" and ".join(folders), partial(runner.system, folders))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/test",
        description="Everything a change has to pass, or some steps of it.",
        epilog="Options of pytest: PYTEST_ADDOPTS='-x -k name' scripts/test unit",
    )
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"default: all of {' '.join(STEPS)}")
    steps = parser.parse_args(arguments).steps or STEPS
    if unknown := [step for step in steps if step not in STEPS]:
        parser.error(f"unknown step '{unknown[0]}', the steps are: {' '.join(STEPS)}")
    runner = Runner(CleanRun())
    try:
        perform(runner, steps)
    finally:
        code = finish(runner)
    return code


def finish(runner: Runner) -> int:
    report, run = runner.report, runner.run
    report.notes = read_notes(run.folder)
    if left := run.close():
        report.failures["nothing left behind"] = "; ".join(left)
    if run.stopped_by is not None:
        report.failures["run"] = f"stopped by {signal.Signals(run.stopped_by).name}"
    print(*report.lines(), sep="\n", flush=True)
    return 128 + run.stopped_by if run.stopped_by is not None else report.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
