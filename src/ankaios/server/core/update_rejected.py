"""Reasons for which an update of the desired state is rejected, with texts for the requester and for a failed start.

`reason` is what went wrong; `str()` is the error message of the response.
"""

from ankaios.common.errors import Rejected


class UpdateRejected(Rejected):
    """The new state cannot be applied. `rule` names the kind of rule, for plans."""

    rule = "state"

    def __init__(self, reason: str) -> None:
        super().__init__(f"Update rejected: '{reason}'")
        self.reason = reason


class InvalidState(UpdateRejected):
    """The resulting state is not valid."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Resulting State is invalid, reason: '{reason}'")


class TemplateFailed(InvalidState):
    """A template cannot be rendered."""

    rule = "template"


class InvalidName(InvalidState):
    """A name or text in a rendered workload is not allowed."""

    rule = "naming"


class DependencyCycle(UpdateRejected):
    """Workloads would wait for each other."""

    rule = "cycle"


class UnreadableState(InvalidState):
    """The result is not a state."""

    rule = "syntax"

    def __init__(self, reason: str) -> None:
        super().__init__(f"Could not parse into CompleteState: '{reason}'")


class BrokenConvention(UpdateRejected):
    """Found before rendering; the requester gets the text unchanged."""

    rule = "naming"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.args = (reason,)


class RightsExceeded(BrokenConvention):
    """A workload writes what its own rights do not cover."""

    rule = "rights"


class RolloutConflict(UpdateRejected):
    """A running rollout has changed the same entry."""

    rule = "rollout"

    def __init__(self, rollout: str, kind: str, name: str) -> None:
        super().__init__(
            f"{kind} '{name}' is part of the running rollout '{rollout}'; try again when it has ended, see "
            f"'ank rollout status {rollout}'"
        )


class UnsuitableStrategy(UpdateRejected):
    """Two instances of the workload cannot run at the same time."""

    rule = "strategy"


class TooManyEntries(UpdateRejected):
    """The state would become larger than a server can handle."""

    rule = "size"

    def __init__(self, count: int, what: str, limit: int, remedy: str) -> None:
        super().__init__(f"{count} {what} are more than the limit of {limit}; {remedy}")


class HookVeto(UpdateRejected):
    """A mutating hook rejects the change."""

    rule = "hook"

    def __init__(self, hook: str, errors: str) -> None:
        veto = f"Hook '{hook}' rejected the change: {errors}"
        super().__init__(f"Mutating hook '{hook}' vetoed the state change: '{veto}'")
        self.args = (f"Update rejected by mutating hook '{hook}': '{veto}'",)


class HookFailed(UpdateRejected):
    """A mutating hook failed."""

    rule = "hook"

    def __init__(self, hook: str, why: str) -> None:
        super().__init__(f"Mutating hook '{hook}' execution failed: '{why}'")
