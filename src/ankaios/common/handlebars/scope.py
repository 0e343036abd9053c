"""Nested scopes for the lookup of names.

`each`, `with` and partials open a scope. A scope owns the value `this`, the block parameters, the variables with `@`
and the partials that were defined in it.
"""

from __future__ import annotations

from typing import Final

from ankaios.common.handlebars.errors import Failure
from ankaios.common.handlebars.nodes import Body, Path
from ankaios.common.handlebars.values import MISSING

_INDEX_LIMIT: Final = 2**64


class Scope:
    """One level of nesting. The outermost scope has the context of the template."""

    __slots__ = ("names", "parent", "partials", "this", "variables")

    def __init__(self, this: object, parent: Scope | None = None) -> None:
        self.this = this
        self.parent = parent
        self.names: dict[str, object] = {}
        """Block parameters, and the named arguments of a partial."""
        self.variables: dict[str, object] = {}
        """The values of `@index`, `@key`, `@first` and `@last`. Only `each` sets them; other scopes inherit them."""
        self.partials: dict[str, Body] = {}

    def resolve(self, path: Path) -> object:
        """Return the value of a path, or MISSING."""
        if path.is_local:
            return self._variable(path)
        if path.is_root:
            return _descend(self._root().this, path.names)
        if not path.names:
            return self._up(path.ups).this
        named = self._named(path.names[0])
        if named is not MISSING:
            return _descend(named, path.names[1:])
        return _descend(self._up(path.ups).this, path.names)

    def partial(self, name: str) -> Body | None:
        """Return the innermost definition of the partial."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.partials:
                return scope.partials[name]
            scope = scope.parent
        return None

    def _named(self, name: str) -> object:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return MISSING

    def _variable(self, path: Path) -> object:
        if not path.names:
            return self._root().this if path.is_root else self.this
        scope: Scope | None = self
        for _ in range(path.ups):
            scope = scope.parent if scope else None
        if scope is None or path.is_root:
            return MISSING
        return scope.variables.get(path.names[0], MISSING)

    def _up(self, levels: int) -> Scope:
        """Return the scope this many levels further out; this scope if there are fewer levels."""
        scope: Scope = self
        for _ in range(levels):
            if scope.parent is None:
                return self
            scope = scope.parent
        return scope

    def _root(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


def _descend(value: object, names: tuple[str, ...]) -> object:
    """Look up entries of maps by key and of lists by index."""
    for name in names:
        if isinstance(value, dict):
            value = value.get(name, MISSING)
        elif isinstance(value, list):
            index = _index(name)
            value = value[index] if index < len(value) else MISSING
        else:
            return MISSING
    return value


def _index(name: str) -> int:
    digits = name.removeprefix("+")
    if digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= 20 and int(digits) < _INDEX_LIMIT:
        return int(digits)
    raise Failure(f"Cannot access array/vector with string index, {name}")
