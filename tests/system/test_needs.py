"""Every file declares its needs beyond the repository, so that the reason of a skipped test is known.

Needs: nothing but the repository.
"""

import ast
from pathlib import Path

import pytest


@pytest.mark.parametrize("file", sorted(Path(__file__).parent.glob("test_*.py")), ids=lambda file: file.name)
def test_a_file_declares_its_needs(file: Path) -> None:
    docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
    assert "Needs" in docstring or "needs" in docstring
