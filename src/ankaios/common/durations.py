"""Converts durations such as `500ms`, `5s`, `2m`, `1h`. A number without unit is in seconds.

Input: texts and numbers of manifests. Output: whole milliseconds for messages, and texts with the largest exact unit.
"""

import re
from typing import Any, Final

DURATION_PATTERN: Final = "^([0-9]{1,7}ms|[0-9]{1,6}s|[0-9]{1,4}m|[0-9]{1,2}h)$"
LONGEST_NUMBER: Final = 999_999
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def parse_duration(value: Any) -> int | None:
    """Return milliseconds; None if the value is not a duration.

    >>> parse_duration("1500ms"), parse_duration(2), parse_duration("soon")
    (1500, 2000, None)
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LONGEST_NUMBER:
        return value * _UNITS["s"]
    if not isinstance(value, str) or re.fullmatch(DURATION_PATTERN, value) is None:
        return None
    digits = value.rstrip("msh")
    return int(digits) * _UNITS[value.removeprefix(digits)]


def format_duration(milliseconds: int) -> str:
    """Return the text with the largest exact unit.

    >>> format_duration(120_000), format_duration(1500), format_duration(0)
    ('2m', '1500ms', '0s')
    """
    if milliseconds == 0:
        return "0s"
    unit = next(unit for unit in ("h", "m", "s", "ms") if milliseconds % _UNITS[unit] == 0)
    return f"{milliseconds // _UNITS[unit]}{unit}"
