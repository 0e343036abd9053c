"""YAML 1.2 text to plain values and back, in the dialect and style of every Ankaios program.

In comes text from files, standard input and runtime configurations, which may be hostile: the parser refuses alias
blow-up, deep nesting, duplicate keys and several documents by itself; size is bounded here.
"""

from __future__ import annotations

import sys
from typing import Any

from ankaios.common.errors import Rejected

_PACKAGE = "ryaml"
_EXTENSION = f"{_PACKAGE}._ryaml"
MAX_YAML_BYTES = 32 * 1024 * 1024


def load_yaml(text: str | bytes, what: str) -> Any:
    """`what` names the origin in the error: "cannot read <what>: <why, where>"."""
    if len(text) > MAX_YAML_BYTES:
        raise Rejected(f"cannot read {what}: {len(text)} bytes are more than the limit of {MAX_YAML_BYTES}")
    try:
        return _parser().loads(text.decode() if isinstance(text, bytes) else text)
    except UnicodeDecodeError as fault:
        raise Rejected(f"cannot read {what}: not UTF-8 at byte {fault.start}") from fault
    except ValueError as fault:
        reason = (
            "a map or list cannot be a key, put text with braces in quotes" if "unhashable" in str(fault) else fault
        )
        raise Rejected(f"cannot read {what}: {reason}") from fault


def dump_yaml(value: Any) -> str:
    """Block style, two blanks, lists not indented, text with newlines as literal blocks; ends with a newline."""
    return str(_parser().dumps(value))


def _parser() -> Any:
    """The parser, where nobody has loaded `typing` yet without its Python package, which loads that for 7 ms."""
    if _EXTENSION in sys.modules:
        return sys.modules[_EXTENSION]
    if "typing" not in sys.modules:
        from importlib.machinery import PathFinder

        package = PathFinder.find_spec(_PACKAGE)
        found = package and PathFinder.find_spec(_EXTENSION, package.submodule_search_locations)
        if found and found.loader and (module := found.loader.create_module(found)):
            sys.modules[_EXTENSION] = module
            found.loader.exec_module(module)
            return module
    import ryaml

    return ryaml
