"""Error families, named after what the caller does next.

Texts read "cannot <do> '<which>': <why>" unless a compatible text is prescribed. Any other exception is a bug: it is
logged with its traceback and ends its task group.
"""


class AnkaiosError(Exception):
    """Base of all errors whose text may be shown to users."""


class Rejected(AnkaiosError):
    """Report to the requester, change nothing."""


class Unavailable(AnkaiosError):
    """The request is valid: retry later."""


class StartupFailed(AnkaiosError):
    """The process cannot start: print `<context>: '<reason>'` and exit with 1."""

    def __init__(self, context: str, reason: str) -> None:
        super().__init__(f"{context}: '{reason}'")
        self.context = context
        self.reason = reason
