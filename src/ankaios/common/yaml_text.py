"""Converts YAML 1.2 text to plain values and back, in the dialect and style of all Ankaios programs.

Input: text from files, standard input and runtime configurations, which may be hostile. The parser rejects alias
expansion attacks, deep nesting, duplicate keys and several documents; this module limits the size.
"""

from __future__ import annotations

from typing import Any

from ankaios.common.errors import Rejected

MAX_YAML_BYTES = 32 * 1024 * 1024


def load_yaml(text: str | bytes, what: str) -> Any:
    """Parse YAML. `what` names the origin in the error: "cannot read <what>: <why, where>"."""
    import ryaml  # loaded late: short commands import this module but need no parser

    if len(text) > MAX_YAML_BYTES:
        raise Rejected(f"cannot read {what}: {len(text)} bytes are more than the limit of {MAX_YAML_BYTES}")
    try:
        return ryaml.loads(text.decode() if isinstance(text, bytes) else text)
    except UnicodeDecodeError as fault:
        raise Rejected(f"cannot read {what}: not UTF-8 at byte {fault.start}") from fault
    except ValueError as fault:
        reason = (
            "a map or list cannot be a key, put text with braces in quotes" if "unhashable" in str(fault) else fault
        )
        raise Rejected(f"cannot read {what}: {reason}") from fault


def dump_yaml(value: Any) -> str:
    """Write block style with two blanks, lists not indented, multi-line text as literal blocks, and a final newline."""
    import ryaml

    return ryaml.dumps(value)
