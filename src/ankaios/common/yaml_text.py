"""Converts YAML 1.2 text to plain values and back, in the dialect and style of all Ankaios programs.

Input: text from files, standard input and runtime configurations, which may be hostile. The parser rejects alias
expansion attacks, duplicate keys and several documents; this module limits size and depth.
"""

from __future__ import annotations

from typing import Any

from ankaios.common.errors import Rejected

MAX_YAML_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 130  # the parser rejects deeper texts
_FEW_BRACKETS = 4000


def load_yaml(text: str | bytes, what: str) -> Any:
    """Parse YAML. `what` names the origin in the error: "cannot read <what>: <why, where>"."""
    import ryaml  # loaded late: short commands import this module but need no parser

    if len(text) > MAX_YAML_BYTES:
        raise Rejected(f"cannot read {what}: {len(text)} bytes are more than the limit of {MAX_YAML_BYTES}")
    try:
        text = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as fault:
        raise Rejected(f"cannot read {what}: not UTF-8 at byte {fault.start}") from fault
    check_depth(text, what)
    try:
        return ryaml.loads(text)
    except ValueError as fault:
        reason = (
            "a map or list cannot be a key, put text with braces in quotes" if "unhashable" in str(fault) else fault
        )
        raise Rejected(f"cannot read {what}: {reason}") from fault


def check_depth(text: str, what: str) -> None:
    """Reject deep nesting before the parser sees it.

    The parser compares each token with each open bracket, and rejects deep nesting only after it has read the whole
    text: 400 kB of brackets take a minute. The events of PyYAML can be stopped at the first bracket too many. They are
    only needed for texts with many brackets.
    """
    if text.count("{") + text.count("[") <= _FEW_BRACKETS:
        return
    import yaml

    depth = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise Rejected(f"cannot read {what}: recursion limit exceeded at line {line}")
    except (yaml.YAMLError, ValueError) as fault:
        raise Rejected(f"cannot read {what}: {' '.join(str(fault).split())}") from fault


def dump_yaml(value: Any) -> str:
    """Write block style with two blanks, lists not indented, multi-line text as literal blocks, and a final newline."""
    import ryaml

    return ryaml.dumps(value)
