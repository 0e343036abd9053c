"""The pages about devices: their manifests are valid, and the tests that they name exist."""

import re
from pathlib import Path

import pytest

from ankaios.cli.validation.checks import validate
from ankaios.cli.validation.findings import ERROR, WARNING

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs/tutorials/brokers.md", "docs/coming-from-akri.md")
DIFFERENCES = ROOT / "docs/differences.md"
STATEMENTS = ROOT / "docs/design/configuration-level-resources.md"


def manifests() -> list[tuple[str, str]]:
    return [
        (page, block) for page in PAGES for block in re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(), re.S)
    ]


@pytest.mark.parametrize(("page", "manifest"), manifests())
def test_a_manifest_on_a_page_is_valid(page: str, manifest: str) -> None:
    findings = validate([(page, manifest.encode())], complete=False)
    assert [found for found in findings if found.severity in (ERROR, WARNING)] == []


def test_every_statement_of_the_design_names_tests_that_exist() -> None:
    text = STATEMENTS.read_text()
    assert re.findall(r"^\| (\d+) \|", text, re.M) == [str(number) for number in range(1, 40)]
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    names = named_tests(text)
    assert len(names) > 40
    assert {name for name in names if f"def test_{name}(" not in tests} == set()


def test_every_problem_of_akri_names_a_test_that_exists() -> None:
    problems = DIFFERENCES.read_text().partition("### Problems of Akri")[2].partition("\n\nBetter there")[0]
    rows = [row for row in problems.splitlines() if row.startswith("| ")][1:]
    assert len(rows) >= 12
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for row in rows:
        assert [name for name in named_tests(row) if f"def test_{name}(" in tests], row


def named_tests(text: str) -> set[str]:
    rows = [row for row in text.splitlines() if row.startswith("| ")]
    return {name for row in rows for name in re.findall(r"`([a-z0-9_]{20,})`", row)}
