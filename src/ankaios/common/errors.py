"""Error families, named after what the caller does next.

Texts read "cannot <do> '<which>': <why>" unless a compatible text is prescribed. Any other exception is a bug:
`supervision` logs it with its traceback, reports it in the affected state, and keeps the other parts running.
"""


class AnkaiosError(Exception):
    """Base of all errors whose text may be shown to users."""


class Rejected(AnkaiosError):
    """Report to the requester, change nothing."""


class Unavailable(AnkaiosError):
    """The request is valid: retry later."""


class Fatal(AnkaiosError):
    """The program must end."""


class StartupFailed(Fatal):
    """The process cannot start: print `<context>: '<reason>'` and exit with 1."""

    def __init__(self, context: str, reason: str) -> None:
        super().__init__(f"{context}: '{reason}'")
        self.context = context
        self.reason = reason
