"""The layers of the tests: unit tests import nothing from slower ones, and `tools/` is for developers."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SLOWER = {"unit": ("tests.integration", "tests.system"), "integration": ("tests.system",)}


def imported_modules(file: Path, prefixes: Sequence[str]) -> Iterator[str]:
    text = file.read_text()
    if not any(prefix.split(".")[1] in text for prefix in prefixes):
        return  # reading all files costs seconds
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("layer", SLOWER)
def test_tests_import_nothing_from_slower_tests(layer: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}: {module}"
        for file in sorted((ROOT / "tests" / layer).rglob("*.py"))
        for module in imported_modules(file, SLOWER[layer])
        if module.startswith(SLOWER[layer])
    ]
    assert found == [], "move what both use to tests/support"


@pytest.mark.parametrize("folder", ["tests/support", "tools"])
def test_only_test_folders_contain_tests(folder: str) -> None:
    assert sorted(file.name for file in (ROOT / folder).rglob("test_*.py")) == []


def test_system_tests_keep_their_helpers_in_support() -> None:
    assert [file.name for file in (ROOT / "tests/system").glob("*.*") if not file.match("test_*.py")] == []
