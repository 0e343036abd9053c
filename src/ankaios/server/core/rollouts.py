"""Rollouts: atomic changes that the server monitors, and what follows from states and time.

Input: accepted atomic changes, states of workloads, and the time. Output: the rollouts that have changed, and those
whose previous state has to be restored. Owns the rollouts. Nothing here reads a clock or changes the desired state.
"""

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import replace

from ankaios.common.execution_state import HEALTHY, ExecutionState
from ankaios.common.workload import InstanceName
from ankaios.server.core.stored_entries import ROLLOUT_KIND
from ankaios.storage.state_store import EntryChange, EntryKey, JsonValue

WAITING, SETTLING, RESTORING = "waiting", "settling", "restoring"
COMPLETED, RESTORED, RESTORE_INCOMPLETE = "completed", "restored", "restoreIncomplete"
RUNNING_PHASES = (WAITING, SETTLING, RESTORING)
DEFAULT_TIMEOUT_MS, DEFAULT_SETTLE_MS = 60_000, 5_000
MOST_RUNNING, MOST_ENDED = 100, 20
STATES_OF_READY = ("Running", "Succeeded")
_LONGEST_MS = 24 * 3600 * 1000
# After a start of the server agents need time to connect and to report their workloads.
_RECONNECT_MS = 15_000


class Rollout(Struct, frozen=True):
    """`entries` are the changed entries of the desired state, `hooked` the workloads as agents had them before.

    `workloads` have to run, `deleted` have to be gone. `unseen` are workloads whose instance keeps its name: the state
    of the old instance counts until the agent reports that it stops. `ready_before` were ready before the change.
    `restore_is_due`: the rollout has failed, and the previous entries are not restored yet.
    """

    name: str
    requester: str
    started_ms: int
    timeout_ms: int
    settle_ms: int
    deadline_ms: int
    entries: tuple[EntryChange, ...]
    workloads: tuple[str, ...]
    deleted: tuple[InstanceName, ...] = ()
    unseen: frozenset[str] = frozenset()
    hooked: Mapping[str, JsonValue] = field(default_factory=dict)
    ready_before: frozenset[str] = frozenset()
    phase: str = WAITING
    phase_since_ms: int = 0
    reason: str = ""
    is_resumed: bool = False
    restore_is_due: bool = False

    @property
    def is_running(self) -> bool:
        return self.phase in RUNNING_PHASES

    def names(self) -> set[str]:
        return {*self.workloads, *(name.workload for name in self.deleted)}


class WorkloadView(Struct, frozen=True):
    """The facts about a workload that a rollout depends on: its desired instance, its state, and the expected state."""

    instance: InstanceName
    state: ExecutionState | None
    has_health_checks: bool
    is_restarted: bool


class RolloutFacts(Struct, frozen=True):
    """`view` returns None if the workload is not desired; `exists` returns whether an instance has a state."""

    view: Callable[[str], WorkloadView | None]
    exists: Callable[[InstanceName], bool]


def is_ready(view: WorkloadView) -> bool:
    """Runs and is healthy if it has health checks, or has succeeded."""
    state = view.state
    if state is None or state.state not in STATES_OF_READY:
        return False
    if state.state == "Running" and view.has_health_checks:
        return state.health is not None and state.health.status == HEALTHY
    return True


def has_failed_finally(view: WorkloadView) -> bool:
    """Waiting longer does not help."""
    state = view.state
    if state is None:
        return False
    if (state.state, state.sub_state) == ("Pending", "StartingFailed"):
        return True
    return state.state == "Failed" and state.sub_state != "Unknown" and not view.is_restarted


def advance(rollout: Rollout, facts: RolloutFacts, now_ms: int) -> Rollout:
    """A running rollout after states or the time have changed."""
    if rollout.restore_is_due:
        return rollout
    if rollout.is_resumed:
        # The states of the workloads are not known yet, and the settle time begins again.
        later = max(rollout.deadline_ms, now_ms + _RECONNECT_MS)
        phase = rollout.phase if rollout.phase == RESTORING else WAITING
        rollout = replace(rollout, is_resumed=False, deadline_ms=later, phase=phase, phase_since_ms=now_ms)
    return _ADVANCES[rollout.phase](rollout, facts, now_ms)


def _advance_waiting(rollout: Rollout, facts: RolloutFacts, now_ms: int) -> Rollout:
    problems = _problems(rollout, facts)
    if not problems:
        return replace(rollout, phase=SETTLING, phase_since_ms=now_ms)
    if final := [text for text, is_final in problems if is_final]:
        return _failed(rollout, final[0], now_ms)
    if now_ms >= rollout.deadline_ms:
        return _failed(rollout, f"not ready within {rollout.timeout_ms / 1000:g} s: {problems[0][0]}", now_ms)
    return rollout


def _advance_settling(rollout: Rollout, facts: RolloutFacts, now_ms: int) -> Rollout:
    if problems := _problems(rollout, facts):
        text = f"did not stay ready for {rollout.settle_ms / 1000:g} s: {problems[0][0]}"
        return _failed(rollout, text, now_ms)
    if now_ms >= rollout.phase_since_ms + rollout.settle_ms:
        return replace(rollout, phase=COMPLETED, phase_since_ms=now_ms)
    return rollout


def _advance_restoring(rollout: Rollout, facts: RolloutFacts, now_ms: int) -> Rollout:
    problems = _problems(rollout, facts)
    if not problems:
        return replace(rollout, phase=RESTORED, phase_since_ms=now_ms)
    if now_ms >= rollout.deadline_ms:
        reason = f"{rollout.reason}; the previous state is not reached: {problems[0][0]}"
        return replace(rollout, phase=RESTORE_INCOMPLETE, phase_since_ms=now_ms, reason=reason)
    return rollout


_ADVANCES = {WAITING: _advance_waiting, SETTLING: _advance_settling, RESTORING: _advance_restoring}


def _failed(rollout: Rollout, reason: str, now_ms: int) -> Rollout:
    # A short time limit is meant for the new state; the previous one gets enough time in any case.
    deadline = now_ms + max(rollout.timeout_ms, DEFAULT_TIMEOUT_MS)
    return replace(
        rollout,
        phase=RESTORING,
        phase_since_ms=now_ms,
        deadline_ms=deadline,
        reason=reason,
        restore_is_due=True,
    )


def _problems(rollout: Rollout, facts: RolloutFacts) -> list[tuple[str, bool]]:
    """What is not as it has to be, with whether waiting cannot help."""
    problems: list[tuple[str, bool]] = []
    for name in rollout.workloads:
        view = facts.view(name)
        if view is None:
            continue  # another change has removed it
        if name in rollout.unseen or not is_ready(view):
            problems.append((_problem_text(name, view), name not in rollout.unseen and has_failed_finally(view)))
    problems += [(f"workload '{it.workload}' is not removed", False) for it in rollout.deleted if facts.exists(it)]
    return problems


def _problem_text(name: str, view: WorkloadView) -> str:
    where = f" on agent '{view.instance.agent}'" if view.instance.agent else ""
    if view.state is None:
        return f"workload '{name}'{where} has no state"
    text = f"workload '{name}'{where} is {view.state}"
    if view.state.state == "Running":
        health = view.state.health
        detail = f"{health.status} {health.text}".strip() if health is not None else "no health check has succeeded"
        return f"{text} but not healthy: {detail}"
    return f"{text}: {view.state.additional_info}" if view.state.additional_info else text


class Rollouts:
    """The running rollouts, and the last ones that have ended."""

    def __init__(self) -> None:
        self._rollouts: dict[str, Rollout] = {}
        self._number = 0

    def get(self, name: str) -> Rollout | None:
        return self._rollouts.get(name)

    def select(self, names: Collection[str] = ()) -> list[Rollout]:
        return [rollout for name, rollout in self._rollouts.items() if not names or name in names]

    def running(self) -> list[Rollout]:
        return [rollout for rollout in self._rollouts.values() if rollout.is_running]

    def conflict(self, keys: Collection[EntryKey]) -> tuple[Rollout, EntryKey] | None:
        """A running rollout that has changed one of these entries."""
        for rollout in self.running():
            for entry in rollout.entries:
                if entry.key in keys:
                    return rollout, entry.key
        return None

    def next_name(self) -> str:
        self._number += 1
        return f"rollout-{self._number}"

    def put(self, rollout: Rollout) -> list[EntryChange]:
        """Returns the changed entries for the store; the oldest of too many ended rollouts is dropped."""
        before = self._rollouts.get(rollout.name)
        self._rollouts[rollout.name] = rollout
        changes = [EntryChange(ROLLOUT_KIND, rollout.name, _stored(before), _stored(rollout))]
        ended = [it for it in self._rollouts.values() if not it.is_running]
        for old in ended[: max(0, len(ended) - MOST_ENDED)]:
            del self._rollouts[old.name]
            changes.append(EntryChange(ROLLOUT_KIND, old.name, _stored(old), None))
        return changes

    def restore(self, stored: Mapping[str, JsonValue]) -> list[str]:
        """Continue with stored rollouts. Returns texts about those that cannot be read."""
        faults = []
        for name, value in stored.items():
            try:
                rollout = convert(value, Rollout)
            except (ValueError, TypeError) as fault:
                faults.append(f"rollout '{name}': {fault}")
                continue
            self._rollouts[name] = replace(rollout, is_resumed=rollout.is_running)
        self._rollouts = dict(sorted(self._rollouts.items(), key=lambda item: _number_of(item[0])))
        self._number = max((_number_of(name) for name in self._rollouts), default=0)
        return faults


def _stored(rollout: Rollout | None) -> JsonValue:
    return None if rollout is None else to_builtins(rollout)


def _number_of(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


def limited_ms(given: int) -> int:
    """A time of a request."""
    return min(given, _LONGEST_MS)
