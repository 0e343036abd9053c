#!/usr/bin/env python3
"""Writes docs/reference/*.md from the code, so that the reference matches the programs.

Usage: tools/reference_docs.py [--check]      with --check nothing is written; fails if a page is not current
"""

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs/reference"


def pages() -> dict[str, str]:
    """The text of each page by the name of its file."""
    sys.path.insert(0, str(ROOT))
    from tools.reference import (
        cli_page,
        config_page,
        exit_page,
        manifest_page,
        metrics_page,
        state_page,
        wire_page,
    )

    return {
        "manifest.md": manifest_page.page(),
        "state.md": state_page.page(),
        "cli.md": cli_page.page(),
        "config-files.md": config_page.page(),
        "wire.md": wire_page.page(),
        "metrics.md": metrics_page.page(),
        "exit-codes.md": exit_page.page(),
    }


def main(arguments: Sequence[str]) -> int:
    if list(arguments) not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    made = pages()
    found = {path.name: path.read_text(encoding="utf-8") for path in TARGET.glob("*.md")} if TARGET.is_dir() else {}
    if not arguments:
        TARGET.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            (TARGET / name).write_text(text, encoding="utf-8")
        return 0
    stale = [name for name, text in made.items() if found.get(name) != text]
    for name in stale:
        print(f"docs/reference/{name} is not current: run tools/reference_docs.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
