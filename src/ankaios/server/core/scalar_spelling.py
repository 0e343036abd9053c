"""Names that look like numbers, as they are written in a startup manifest.

Input: a manifest as it was parsed, and its text. Output: the same manifest, with the spelling of scalars in the fields
that accept any scalar as text: to YAML `agent: 1e3` is a number, but the agent is named `1e3` and not `1000.0`. The
text is examined only if there is such a value. If the spelling is ambiguous, `Rejected` states what to do.
"""

import re
from collections.abc import Iterator
from typing import Any

from ankaios.common.errors import Rejected
from ankaios.common.model.scalars import ScalarText
from ankaios.common.model.state import WORKLOAD
from ankaios.common.state_manipulation import Form
from ankaios.common.yaml_text import load_yaml

_FIELDS = [name for name, field in WORKLOAD.fields.items() if isinstance(field.kind, ScalarText)]
# A value that is one word, behind a key that is quoted or not, also in `{key: value}`.
_ENTRY = r"""(?:^|[\s{{,])(["']?){key}\1[ \t]*:(?:[ \t]+|(?<=["']:))([^\s,{{}}\[\]#"']+)"""


def as_written(manifest: Form, text: str) -> Form:
    if "apiVersion" in manifest:
        manifest = manifest | {"apiVersion": _spelled(manifest["apiVersion"], "apiVersion", "apiVersion", text)}
    workloads = manifest.get("workloads")
    if not isinstance(workloads, dict):
        return manifest
    return manifest | {"workloads": {name: _workload(name, it, text) for name, it in workloads.items()}}


def _workload(name: Any, workload: Any, text: str) -> Any:
    if not isinstance(workload, dict):
        return workload
    spelled = {key: _spelled(workload[key], key, f"workloads.{name}.{key}", text) for key in _FIELDS if key in workload}
    return workload | spelled


def _spelled(value: Any, key: str, path: str, text: str) -> Any:
    """Null, lists and maps are left for the checks that follow."""
    if value is None or isinstance(value, str | dict | list):
        return value
    spellings = {word for word in set(_words(key, text)) if _means(word, value)}
    if len(spellings) == 1:
        return spellings.pop()
    found = " or ".join(f"'{word}'" for word in sorted(spellings))
    how = f"it is written {found}" if found else "its spelling is ambiguous"
    raise Rejected(f"{path}: the value is read as `{value}`, and {how}: put it in quotes")


def _words(key: str, text: str) -> Iterator[str]:
    return (match[2] for match in re.finditer(_ENTRY.format(key=key), text, re.MULTILINE))


def _means(word: str, value: Any) -> bool:
    try:
        meant = load_yaml(word, "a word")
    except Rejected:
        return False
    return type(meant) is type(value) and repr(meant) == repr(value)
