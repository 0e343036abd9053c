"""A runtime of the registry is present in all other lists, which the author of a new runtime could forget."""

from pathlib import Path

import pytest

from ankaios.cli.validation.runtime_checks import check_runtime
from ankaios.runtimes.registry import RUNTIME_NAMES
from tests.support.runtime_subjects import SUBJECTS

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/manifest.md"  # test_reference_docs.py: it is current
every_runtime = pytest.mark.parametrize("runtime", RUNTIME_NAMES)


@every_runtime
def test_the_contract_tests_run_against_it(runtime: str) -> None:
    assert runtime in SUBJECTS


@every_runtime
def test_ank_validate_reads_its_configuration(runtime: str) -> None:
    problems = check_runtime({"runtime": runtime, "runtimeConfig": "["})
    assert [problem.path for problem in problems] == [("runtimeConfig",)]


@every_runtime
def test_the_reference_describes_its_configuration(runtime: str) -> None:
    assert f"`{runtime}`" in PAGE.read_text().partition("{#runtime-config}")[2]
