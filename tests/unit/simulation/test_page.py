"""The page of the simulation shows the replacements of the code."""

from pathlib import Path

from tools.simulation_docs import replacements

PAGE = Path(__file__).parents[3] / "docs" / "simulation.md"


def test_the_page_lists_every_replacement() -> None:
    """If this fails, run tools/simulation_docs.py."""
    assert replacements() in PAGE.read_text()
