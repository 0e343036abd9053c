"""`scripts/test` reports at its end what failed and why, and its parts decide correctly."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.coverage_gate import compared_coverage
from tests.support.notes import Note
from tests.support.pythons import Python, installed_pythons, probe, supported_versions
from tests.support.runner import Report, main
from tests.support.schedule import SECONDS, SHARED_PLACES, group_of, longest_first

ROOT = Path(__file__).resolve().parents[2]


def test_a_run_without_failures_has_passed() -> None:
    report = Report(seconds={"lint": 2.0, "unit": 40.4})
    assert report.code == 0
    assert list(report.lines()) == [
        "== nothing was skipped",
        "== steps",
        "   passed       2 s  lint",
        "   passed      40 s  unit",
        "== all passed (42 s)",
    ]


def test_the_last_lines_contain_the_failed_tests_and_reasons() -> None:
    report = Report(
        seconds={"lint": 2.0, "unit": 40.0},
        failures={"unit": "tests failed", "nothing left behind": "process 7: sleep 100"},
        notes=[Note("failed", "error", "tests/unit/test_x.py::test_y: AssertionError: 1 == 2")],
    )
    assert report.code == 1
    assert list(report.lines())[-6:] == [
        "   passed       2 s  lint",
        "   FAILED      40 s  unit: tests failed",
        "   FAILED            nothing left behind: process 7: sleep 100",
        "== failed tests: 1",
        "   error: tests/unit/test_x.py::test_y: AssertionError: 1 == 2",
        "== failed: unit, nothing left behind (after 42 s)",
    ]


def test_skipped_tests_are_listed_by_reason() -> None:
    notes = [Note("skipped", "no podman", place) for place in ("a.py", "b.py", "a.py")]
    report = Report(notes=[*notes, Note("instead", "scripts/test: runs itself", "run: trace")])
    assert list(report.lines())[:4] == [
        "== skipped, and why",
        "    3  no podman (a.py b.py)",
        "== shown in the docs, run in another form",
        "       scripts/test: runs itself (run: trace)",
    ]


def test_an_unknown_step_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        main(["lnit"])
    assert refusal.value.code == 2
    assert "unknown step 'lnit', the steps are: lint types" in capsys.readouterr().err


# --- Python versions


def test_the_supported_versions_are_those_of_the_classifiers(tmp_path: Path) -> None:
    assert supported_versions() == ["3.11", "3.12", "3.13", "3.14"]
    project = tmp_path / "pyproject.toml"
    project.write_text('project.classifiers = ["Programming Language :: Python :: 3 :: Only", "Topic :: X"]')
    assert supported_versions(project) == []


def fake_python(program: Path, version: str, *, kind: str = "final cpython", code: int = 0) -> Path:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\necho {version} {kind}\nexit {code}\n")
    program.chmod(0o755)
    return program


def test_interpreters_are_found_on_the_path_and_among_those_of_pyenv(tmp_path: Path) -> None:
    on_path = fake_python(tmp_path / "bin/python3.11", "3.11.7")
    fake_python(tmp_path / "bin/python3.12", "", code=127)  # a program of pyenv whose version is not selected
    of_pyenv = fake_python(tmp_path / ".pyenv/versions/3.12.1/bin/python", "3.12.1")
    fake_python(tmp_path / ".pyenv/versions/3.14.0b1/bin/python", "3.14.0b1", kind="beta cpython")
    found = installed_pythons(["3.11", "3.12", "3.13", "3.14"], {"PATH": f"{tmp_path}/bin", "HOME": str(tmp_path)})
    assert found == {"3.11": Python(on_path, "3.11.7"), "3.12": Python(of_pyenv, "3.12.1")}
    elsewhere = {"PATH": "", "PYENV_ROOT": str(tmp_path / ".pyenv")}
    assert installed_pythons(["3.11", "3.12"], elsewhere) == {"3.12": Python(of_pyenv, "3.12.1")}


def test_other_implementations_and_programs_that_do_not_run_are_no_interpreters(tmp_path: Path) -> None:
    assert probe(fake_python(tmp_path / "python3.11", "3.11.9", kind="final pypy")) is None
    assert probe(tmp_path / "missing") is None


# --- coverage


def report_of(**percents: float) -> dict[str, Any]:
    files = {
        name: {"summary": {"percent_covered": percent}, "missing_lines": [3, 5], "missing_branches": [[7, 9]]}
        for name, percent in percents.items()
    }
    return {"totals": {"percent_covered": sum(percents.values()) / len(percents)}, "files": files}


def test_files_below_the_gate_are_named_even_if_the_total_is_above() -> None:
    lines, reason = compared_coverage(report_of(one=100.0, two=98.0), 99.0)
    assert reason is None
    assert lines == [
        "coverage of core/ with branches: 99.00 %, the gate is 99 %",
        "   98.00 %  two: not covered: 3 5 7->9",
    ]


def test_a_total_below_the_gate_fails() -> None:
    assert compared_coverage(report_of(one=98.994), 99.0)[1] == "coverage of core/ is 98.99 %, the gate is 99 %"


# --- parallel workers


def test_files_that_share_a_resource_are_one_group() -> None:
    assert group_of("tests/system/test_demo.py") == group_of("tests/system/test_examples.py") == "repository"
    assert group_of("tests/system/test_up.py") == "tests/system/test_up.py"


def test_long_groups_come_first() -> None:
    by_seconds = sorted(
        (file for file in SECONDS if file not in SHARED_PLACES), key=lambda file: (-SECONDS[file], file)
    )
    positions = longest_first(["tests/unit/test_short.py", *reversed(by_seconds)])
    assert sorted(positions, key=lambda file: positions[file]) == [*by_seconds, "tests/unit/test_short.py"]


@pytest.mark.parametrize("file", sorted({*SECONDS, *SHARED_PLACES}))
def test_every_file_of_the_schedule_exists(file: str) -> None:
    assert (ROOT / file).is_file()
