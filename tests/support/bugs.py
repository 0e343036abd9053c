"""Injected bugs: a function that fails once, as real code may, and works afterwards."""

from collections.abc import Callable
from typing import Any


class Bug(Exception):
    """No code handles this exception."""


BUG = Bug("a bug")
SHOWN = "Internal error: Bug: a bug"


class FailsOnce:
    """Replaces a function or a method."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.has_failed = False

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        if not self.has_failed:
            self.has_failed = True
            raise BUG
        return self._function(*arguments, **more)
