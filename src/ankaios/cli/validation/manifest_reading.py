"""Reads a manifest and checks YAML, schema and naming rules. Input: a text. Output: a `ManifestFile`.

Problems are added to the report. There is no schema for manifests of the deprecated version; the common reader checks
them and reports only the first error.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from ankaios.cli.validation.findings import WARNING, ManifestFile, Path, Problem, ValidationReport
from ankaios.cli.validation.unknown_keys import unknown_keys
from ankaios.common.errors import Rejected
from ankaios.common.manifest import API_VERSION, DEPRECATED_WARNING, is_deprecated, load_manifest, violations
from ankaios.common.names import CHARACTERS_TEXT, CONSTRAINT_TEXT, has_allowed_characters
from ankaios.common.yaml_text import load_yaml
from ankaios.server.core.conventions import check_api_version

_LINE = re.compile(r"at line (\d+)")
_SECOND_DOCUMENT = re.compile(r"(?<=\n)(?:---|\.\.\.)(?=\s|\Z)")
_NAME_PATTERN = json.dumps("^[a-zA-Z0-9_-]+$")
_KEY_VIOLATIONS = (" does not match ", " is longer than ")


def read_manifest(name: str, text: bytes, report: ValidationReport) -> ManifestFile:
    file = ManifestFile(name, text.decode(errors="replace"))
    try:
        file.manifest = load_yaml(text, "the file")
    except Rejected as error:
        _report_yaml_error(file, str(error).removeprefix("cannot read the file: "), report)
        return file
    if file.manifest is None:
        report.add_error(file, 1, "the file contains no manifest")
        return file
    if is_deprecated(file.manifest):
        _check_deprecated(file, text, report)
    else:
        _check_schema(file, file.manifest, report)
    for problem in (*unknown_keys(file.manifest), *_invalid_keys(file.manifest, ())):
        if problem.severity == WARNING or problem.path not in file.rejected:
            report.add(file, problem)
    return file


def _report_yaml_error(file: ManifestFile, reason: str, report: ValidationReport) -> None:
    if reason.startswith("not UTF-8") or " more than the limit of " in reason:
        report.add_error(file, None, reason)
    elif "duplicate entry" in reason and file.positions.duplicates:
        for path, line, first in file.positions.duplicates:
            report.add_error(file, line, f"duplicate key '{path[-1]}', first used in line {first}")
    elif "more than one document" in reason:
        separators = [file.text.count("\n", 0, found.start()) + 1 for found in _SECOND_DOCUMENT.finditer(file.text)]
        report.add_error(file, separators[-1] if separators else None, "a manifest must be a single YAML document")
    else:
        found = _LINE.search(reason)
        at = int(found[1]) if found else None
        if at and "".join(file.text.split("\n")[at - 1 : at]).lstrip(" ").startswith("\t"):
            reason = f"a tab cannot indent a line, use blanks: {reason}"
        report.add_error(file, at, reason)


def _check_deprecated(file: ManifestFile, text: bytes, report: ValidationReport) -> None:
    report.add(file, Problem(("apiVersion",), DEPRECATED_WARNING, WARNING))
    # Device configurations are newer than this version, so their schema applies.
    devices = file.manifest.get("deviceConfigurations")
    _check_schema(file, {"apiVersion": API_VERSION, "deviceConfigurations": devices}, report)
    if file.rejected:
        return
    try:
        file.manifest = load_manifest(text, "the file")
    except Rejected as error:
        report.add(file, Problem((), str(error)))
        file.rejected.add(())


# --- schema -----------------------------------------------------------------------------------------------------------


def _check_schema(file: ManifestFile, checked: Any, report: ValidationReport) -> None:
    for pointer, reason in violations(checked):
        path, value = _resolve(checked, pointer)
        if isinstance(value, dict) and any(text in reason for text in _KEY_VIOLATIONS):
            # The schema names the mapping; the finding names the key in it.
            path = (*path, next((key for key in value if reason.startswith(_quoted(key))), ""))
        if path or not isinstance(checked, dict):
            file.rejected.add(path)
        report.add(file, Problem(path, _explained(path, value, reason)))


def _resolve(value: Any, pointer: str) -> tuple[Path, Any]:
    path: list[str | int] = []
    for escaped in pointer.split("/")[1:]:
        part = escaped.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            path.append(int(part))
            value = value[int(part)]
        else:
            path.append(part)
            # A key in YAML may be a number; the pointer contains its text.
            value = value[part] if part in value else next(value[key] for key in value if str(key) == part)
    return tuple(path), value


def _quoted(key: Any) -> str:
    return json.dumps(str(key), ensure_ascii=False)


def _explained(path: Path, value: Any, reason: str) -> str:
    """The violation with an explanation, or the error text of the server where the schema has only a pattern."""
    if path == ("apiVersion",) and isinstance(value, str):
        try:
            check_api_version(value)
        except Rejected as error:
            return str(error)
    if reason.endswith(f" does not match {_NAME_PATTERN}"):
        return f"{reason.removesuffix(_NAME_PATTERN)}the rule for names: {CONSTRAINT_TEXT}"
    if "'oneOf'" in reason and path[-2:-1] == ("files",):
        return "a file needs either 'data' or 'binaryData'"
    if " is not of type" in reason and '"string"' in reason and isinstance(value, bool | int | float):
        return f"{reason}, put it in quotes"
    return reason


def _invalid_keys(value: Any, path: Path) -> Iterator[Problem]:
    """Every key becomes a part of a state path, so the rule for names applies."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        if isinstance(value, dict) and not isinstance(key, str):
            yield Problem((*path, str(key)), f"the key '{key}' must be text, put it in quotes")
        elif isinstance(key, str) and not has_allowed_characters(key):
            yield Problem((*path, key), f"Invalid mapping key '{key}': {CHARACTERS_TEXT}")
        yield from _invalid_keys(inner, (*path, key))
