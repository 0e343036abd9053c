#!/usr/bin/env python3
"""Writes the list of replacements into docs/simulation.md. With --check it only reports whether the page is current.

Usage: tools/simulation_docs.py [--check]
"""

import re
import sys
from pathlib import Path

from ankaios.simulation.replacements import REPLACEMENTS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "simulation.md"


def with_section(page: str, name: str, text: str) -> str:
    """Replace what is between the marks of a section."""
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda found: f"{found[1]}{text}{found[2]}", page, count=1, flags=re.DOTALL)


def replacements() -> str:
    lines = [f"| {each.part} | {each.by} | {each.reason} |\n" for each in REPLACEMENTS]
    return "".join(["| part | replaced by | reason |\n", "|---|---|---|\n", *lines])


def main() -> int:
    before = PAGE.read_text()
    after = with_section(before, "replacements", replacements())
    if "--check" in sys.argv:
        if before != after:
            print(f"{PAGE.name} is not current: run tools/simulation_docs.py")
        return int(before != after)
    PAGE.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
