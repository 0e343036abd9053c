"""Error families, named for what the catcher does next.

Texts read "cannot <do> '<which>': <why>" unless a compatible text is prescribed. Everything outside these families is
a bug: `supervision` logs it with its traceback, reports it in the state that it concerns, and keeps the rest going.
"""


class AnkaiosError(Exception):
    """The root of everything that may be shown to a person."""


class Rejected(AnkaiosError):
    """Tell the requester and change nothing."""


class Unavailable(AnkaiosError):
    """Nothing is wrong with the request: try again later."""


class Fatal(AnkaiosError):
    """The program cannot go on: end it."""


class StartupFailed(Fatal):
    """The process cannot start: print `<context>: '<reason>'` and exit with 1."""

    def __init__(self, context: str, reason: str) -> None:
        super().__init__(f"{context}: '{reason}'")
        self.context = context
        self.reason = reason
