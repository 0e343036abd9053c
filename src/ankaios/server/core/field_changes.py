"""The fields in which two plain forms differ, for people and for programs that show a plan.

Input: two forms, or None for one that does not exist. Output: one `FieldChange` for each field that differs, with the
path of the field. Texts stay as they are, all other values are written as JSON.
"""

import json
from collections.abc import Iterator
from typing import Any

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_manipulation import MISSING


def field_changes(before: Any, after: Any, path: str = "") -> list[base.FieldChange]:
    """Maps and lists are compared part by part; a list index is written as `files[0]`."""
    return [
        base.FieldChange(path=where, before=_text(old), after=_text(new))
        for where, old, new in _differences(_or_missing(before), _or_missing(after), path)
    ]


def _or_missing(value: Any) -> Any:
    return MISSING if value is None else value


def _differences(before: Any, after: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if before == after:
        return
    parts_before, parts_after = _parts(before), _parts(after)
    if parts_before is None or parts_after is None or not (parts_before or parts_after):
        yield path, before, after
        return
    for key in dict.fromkeys((*parts_before, *parts_after)):
        separator = "." if path and not key.startswith("[") else ""
        yield from _differences(
            parts_before.get(key, MISSING), parts_after.get(key, MISSING), f"{path}{separator}{key}"
        )


def _parts(value: Any) -> dict[str, Any] | None:
    """None for a value that is shown as a whole. A missing value has no parts."""
    if value is MISSING:
        return {}
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        return {f"[{index}]": part for index, part in enumerate(value)}
    return None


def _text(value: Any) -> str | None:
    if value is MISSING:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
