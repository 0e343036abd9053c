"""The built-in helpers that return a value, such as `eq`, `lookup` and `len`, and `if` without a block.

Input: the evaluated arguments of a call. Output: a value, or a `Failure` with the missing part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ankaios.common.handlebars.errors import Failure, missing_parameter, missing_variable
from ankaios.common.handlebars.values import MISSING, are_equal, is_true, order

_LOG_LEVELS: Final = frozenset(("error", "warn", "info", "debug", "trace"))


class Argument(NamedTuple):
    value: object
    path: str | None = None
    """The text of the argument in the template, if it is a path."""


class Arguments(NamedTuple):
    """The arguments of a helper call."""

    helper: str
    positional: list[Argument]
    named: dict[str, object]

    def required(self, index: int, helper: str | None = None) -> Argument:
        """Return an argument that must be written; its value may be missing."""
        if index < len(self.positional):
            return self.positional[index]
        raise missing_parameter(helper or self.helper, f"at index {index}")

    def value(self, index: int) -> object:
        """Return the value of an argument that must be written and have a value."""
        value = self.required(index).value
        if value is MISSING:
            raise missing_parameter(self.helper, f"at index {index}")
        return value


Helper = Callable[[Arguments], object]


def condition(args: Arguments) -> bool:
    """Return the condition of `if` and `unless`; with `includeZero=true` the number 0 counts as true."""
    include_zero = args.named.get("includeZero") is True
    return is_true(args.required(0, "if").value, include_zero=include_zero)


def context_of_with(args: Arguments) -> object:
    """Return the context of `with`; it must exist and be true."""
    argument = args.required(0)
    if not is_true(argument.value):
        raise missing_variable(argument.path)
    return argument.value


def check_log(args: Arguments) -> None:
    """Check the level of `log`. Nothing is printed or logged, because a template must not write to the log."""
    level = args.named.get("level")
    if isinstance(level, str) and level.lower() not in _LOG_LEVELS:
        raise Failure(f"Invalid logging level: {level}")


def _lookup(args: Arguments) -> object:
    container, key = args.required(0).value, args.required(1).value
    found: object = MISSING
    if isinstance(container, list) and type(key) is int and 0 <= key < len(container):
        found = container[key]
    elif isinstance(container, dict) and isinstance(key, str):
        found = container.get(key, MISSING)
    if found is MISSING:
        raise missing_variable(None)
    return found


def _len(args: Arguments) -> object:
    value = args.positional[0].value if args.positional else MISSING
    if value is MISSING:
        raise missing_parameter("len", "with name x")
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    return len(value) if isinstance(value, list | dict) else 0


def _not(args: Arguments) -> object:
    return not is_true(args.value(0))


def _and(args: Arguments) -> object:
    return all(is_true(argument.value) for argument in args.positional)


def _or(args: Arguments) -> object:
    return any(is_true(argument.value) for argument in args.positional)


def _compared(*accepted: int) -> Helper:
    def compare(args: Arguments) -> object:
        return order(args.value(0), args.value(1)) in accepted

    return compare


def _eq(args: Arguments) -> object:
    return are_equal(args.value(0), args.value(1))


def _ne(args: Arguments) -> object:
    return not are_equal(args.value(0), args.value(1))


def _nothing(check: Callable[[Arguments], object]) -> Helper:
    """A block helper without a block checks its arguments and prints nothing."""

    def print_nothing(args: Arguments) -> object:
        check(args)
        return ""

    return print_nothing


BOOLEAN_HELPERS: Final[dict[str, Helper]] = {
    "eq": _eq,
    "ne": _ne,
    "gt": _compared(1),
    "gte": _compared(0, 1),
    "lt": _compared(-1),
    "lte": _compared(-1, 0),
    "and": _and,
    "or": _or,
    "not": _not,
}

VALUE_HELPERS: Final[dict[str, Helper]] = {
    **BOOLEAN_HELPERS,
    "lookup": _lookup,
    "len": _len,
    "if": _nothing(condition),
    "unless": _nothing(condition),
    "each": _nothing(lambda args: args.required(0)),
    "with": _nothing(context_of_with),
    "raw": _nothing(lambda _: None),
    "log": _nothing(check_log),
}
