#!/usr/bin/env python3
"""Which requirements of docs/design/requirements.tsv are named in the code and in the tests.

Usage: tools/trace.py [--missing]

A requirement counts as implemented where a file under src/ or proto/ carries [impl->ID], and as tested where a file
under tests/ carries [utest->ID], [itest->ID] or [stest->ID], as its column `needs` requires. A tag only shows where to
look: the code or test beside it must do what the requirement demands. Ends with 1 if something is missing or a tag is
unknown.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TAG = re.compile(r"\[(impl|utest|itest|stest)->([a-z]+~[a-z0-9-]+~\d+)\]")


def tags() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for top in ("src", "proto", "tests"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in {".py", ".proto", ".md"} and path.is_file():
                for kind, requirement in TAG.findall(path.read_text(errors="replace")):
                    found[requirement].add(kind)
    return found


def main() -> int:
    rows = [row.split("\t") for row in (ROOT / "docs/design/requirements.tsv").read_text().splitlines()[1:]]
    needs = {row[0]: set(row[3].split(",")) - {""} for row in rows}
    found = tags()
    missing = [f"{kind}: {name}" for name, kinds in needs.items() for kind in sorted(kinds - found[name])]
    stray = sorted(name for name, kinds in found.items() if kinds and name not in needs)
    wanted = sum(len(kinds) for kinds in needs.values())
    print(f"requirements {len(needs)}: {wanted - len(missing)} of {wanted} pointers to code and tests are there")
    for name in stray:
        print(f"tag of no known requirement: {name}")
    if "--missing" in sys.argv:
        print("\n".join(missing))
    return 1 if missing or stray else 0


if __name__ == "__main__":
    sys.exit(main())
