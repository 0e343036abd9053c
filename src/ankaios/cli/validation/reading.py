"""From text to manifest: what YAML, the schema and the naming rules say. Out goes a `Source`; faults go to the report.

A manifest of the deprecated version has no schema; what the common reader says of it is all there is to say.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from ankaios.cli.validation.findings import WARNING, Complaint, Path, Report, Source
from ankaios.cli.validation.spelling import unknown_keys
from ankaios.common.errors import Rejected
from ankaios.common.manifest import DEPRECATED_WARNING, is_deprecated, load_manifest, violations
from ankaios.common.model.state import API_VERSION
from ankaios.common.names import CHARACTERS_TEXT, CONSTRAINT_TEXT, NAME_PATTERN, has_allowed_characters
from ankaios.common.yaml_text import load_yaml
from ankaios.server.core.conventions import check_api_version

_LINE = re.compile(r"at line (\d+)")
_SECOND_DOCUMENT = re.compile(r"(?<=\n)(?:---|\.\.\.)(?=\s|\Z)")
_NAME_PATTERN = json.dumps(NAME_PATTERN)
_KEY_FAULTS = (" does not match ", " is longer than ")


def read(name: str, text: bytes, report: Report) -> Source:
    source = Source(name, text.decode(errors="replace"))
    try:
        source.manifest = load_yaml(text, "the file")
    except Rejected as fault:
        _report_yaml(source, str(fault).removeprefix("cannot read the file: "), report)
        return source
    if source.manifest is None:
        report.add_at(name, 1, "the file holds no manifest")
        return source
    if is_deprecated(source.manifest):
        _read_deprecated(source, text, report)
    else:
        _check_schema(source, source.manifest, report)
    for found in (*unknown_keys(source.manifest), *_bad_keys(source.manifest, ())):
        if found.severity == WARNING or found.path not in source.faulty:
            report.add(source, found)
    return source


def _report_yaml(source: Source, fault: str, report: Report) -> None:
    if fault.startswith("not UTF-8") or " more than the limit of " in fault:
        report.add_at(source.name, None, fault)
    elif "duplicate entry" in fault and source.places.duplicates:
        for path, line, first in source.places.duplicates:
            report.add_at(source.name, line, f"the key '{path[-1]}' stands here a second time, first in line {first}")
    elif "more than one document" in fault:
        separators = [source.text.count("\n", 0, found.start()) + 1 for found in _SECOND_DOCUMENT.finditer(source.text)]
        report.add_at(source.name, separators[-1] if separators else None, "a manifest must be a single YAML document")
    else:
        found = _LINE.search(fault)
        at = int(found[1]) if found else None
        if at and "".join(source.text.split("\n")[at - 1 : at]).lstrip(" ").startswith("\t"):
            fault = f"a tab cannot indent a line, use blanks: {fault}"
        report.add_at(source.name, at, fault)


def _read_deprecated(source: Source, text: bytes, report: Report) -> None:
    report.add(source, Complaint(("apiVersion",), DEPRECATED_WARNING, WARNING))
    # Devices are younger than this version, so their schema holds.
    devices = source.manifest.get("deviceConfigurations")
    _check_schema(source, {"apiVersion": API_VERSION, "deviceConfigurations": devices}, report)
    if source.faulty:
        return
    try:
        source.manifest = load_manifest(text, "the file")
    except Rejected as fault:
        report.add(source, Complaint((), str(fault)))
        source.faulty.add(())


# --- schema -----------------------------------------------------------------------------------------------------------


def _check_schema(source: Source, checked: Any, report: Report) -> None:
    for pointer, reason in violations(checked):
        path, value = _followed(checked, pointer)
        if isinstance(value, dict) and any(fault in reason for fault in _KEY_FAULTS):
            # The schema blames the mapping for the names in it; people look for the name.
            path = (*path, next((key for key in value if reason.startswith(_shown(key))), ""))
        if path or not isinstance(checked, dict):
            source.faulty.add(path)
        report.add(source, Complaint(path, _in_words(path, value, reason)))


def _followed(value: Any, pointer: str) -> tuple[Path, Any]:
    path: list[str | int] = []
    for escaped in pointer.split("/")[1:]:
        part = escaped.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            path.append(int(part))
            value = value[int(part)]
        else:
            path.append(part)
            # YAML has keys that are no texts; pointers have their texts.
            value = value[part] if part in value else next(value[key] for key in value if str(key) == part)
    return tuple(path), value


def _shown(key: Any) -> str:
    return json.dumps(str(key), ensure_ascii=False)


def _in_words(path: Path, value: Any, reason: str) -> str:
    """What the server would say, where the schema only has a pattern for it."""
    if path == ("apiVersion",) and isinstance(value, str):
        try:
            check_api_version(value)
        except Rejected as fault:
            return str(fault)
    if reason.endswith(f" does not match {_NAME_PATTERN}"):
        return f"{reason.removesuffix(_NAME_PATTERN)}the rule for names: {CONSTRAINT_TEXT}"
    if "'oneOf'" in reason and path[-2:-1] == ("files",):
        return "a file needs either 'data' or 'binaryData'"
    if " is not of type" in reason and '"string"' in reason and isinstance(value, bool | int | float):
        return f"{reason}, put it in quotes"
    return reason


def _bad_keys(value: Any, path: Path) -> Iterator[Complaint]:
    """Every key becomes part of a path, so all of them have the characters of names."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        if isinstance(value, dict) and not isinstance(key, str):
            yield Complaint((*path, str(key)), f"the key '{key}' must be text, put it in quotes")
        elif isinstance(key, str) and not has_allowed_characters(key):
            yield Complaint((*path, key), f"Invalid mapping key '{key}': {CHARACTERS_TEXT}")
        yield from _bad_keys(inner, (*path, key))
