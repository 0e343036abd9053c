"""Which parallel worker of a test run gets which tests, and in which order.

The tests of a file stay together, because they share fixtures. Files that use the same fixed place are one group and so
never run at the same time. Long groups start first, so that no worker is still busy with one when the others are done.
"""

from collections.abc import Iterable
from pathlib import PurePath

# Groups of files that share a fixed place.
SHARED_PLACES = {
    "tests/system/test_demo.py": "repository",  # the folder .demo of the repository
    "tests/system/test_docs_commands.py": "repository",
    "tests/system/test_examples.py": "repository",  # the folder build of the repository
}

# Measured on two cores; files that take less than 20 s are not listed.
SECONDS: dict[str, int] = {}


def group_of(file: PurePath | str) -> str:
    return SHARED_PLACES.get(str(file), str(file))


def seconds_of_groups() -> dict[str, int]:
    sums: dict[str, int] = {}
    for file, seconds in SECONDS.items():
        sums[group_of(file)] = sums.get(group_of(file), 0) + seconds
    return sums


def longest_first(files: Iterable[str]) -> dict[str, int]:
    """File -> position. Groups of equal length keep their order."""
    seconds = seconds_of_groups()
    ordered = sorted(dict.fromkeys(files), key=lambda file: (-seconds.get(group_of(file), 0), group_of(file)))
    return {file: position for position, file in enumerate(ordered)}
