"""Hints for workload names and masks that match nothing. They need a request to the server, with a short time limit."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.session import RequestFailed, Session
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.suggestions import did_you_mean, nearest, similar_or_known

if TYPE_CHECKING:
    from ankaios.common.model.kind import Kind

_LIMIT_MS = 500


def hint_unknown_workloads(call: CommandCall, session: Session, unknown: Sequence[str]) -> None:
    if not unknown or call.output.quiet or call.settings.no_wait:
        return
    known = _desired_workloads(session)
    if known is not None:
        for name in unknown:
            call.output.hint(did_you_mean("workload", name, known))


def unknown_workload_hint(session: Session, name: str) -> str:
    """The hint after an error that names the unknown workload."""
    known = _desired_workloads(session)
    return similar_or_known(name, known) if known is not None else ""


def _desired_workloads(session: Session) -> Collection[str] | None:
    """None if the server does not respond in time."""
    state = _request(session, "desiredState.workloads.*.agent")
    return state.desiredState.workloads.workloads if state is not None else None


def hint_unmatched_masks(call: CommandCall, session: Session, masks: Iterable[str], form: Mapping[str, Any]) -> None:
    """Print a hint for each mask that selects nothing in the form."""
    from ankaios.common.state_manipulation import expand_wildcards

    if call.output.quiet:
        return
    for mask in masks:
        parts = mask.split(".")
        if not expand_wildcards(form, tuple(parts)):
            call.output.hint(_mask_hint(session, mask, parts))


def _mask_hint(session: Session, mask: str, parts: Sequence[str]) -> str:
    """Find the first part of the mask that does not exist."""
    for depth, part in enumerate(parts):
        parent = parts[:depth]
        known = _keys_below(session, parent)
        if known and part != "*" and part not in known:
            if guess := nearest(part, known):
                return f"nothing matches '{mask}'; did you mean '{'.'.join((*parent, guess, *parts[depth + 1 :]))}'?"
            place = f"in '{'.'.join(parent)}'" if parent else "at the top"
            return f"nothing matches '{mask}': {place} there are {', '.join(known[:8])}{' ...' if known[8:] else ''}"
    return f"nothing matches '{mask}' at the moment"


def _keys_below(session: Session, parent: Sequence[str]) -> list[str]:
    """The declared keys at this place of the state, or else the names that the server has there."""
    from ankaios.common.model.state import COMPLETE_STATE
    from ankaios.common.state_manipulation import WILDCARD, expand_wildcards

    kind: Kind | None = COMPLETE_STATE
    for part in parent:
        kind = kind.part(part) if kind is not None else None
    if kind is not None and kind.known_keys is not None:
        return list(kind.known_keys)
    state = _request(session, ".".join(parent))
    form = {} if state is None else COMPLETE_STATE.to_form(state)
    return sorted({path[-1] for path in expand_wildcards(form, (*parent, WILDCARD))})


def _request(session: Session, mask: str) -> base.CompleteState | None:
    try:
        return session.complete_state(mask, limit_ms=_LIMIT_MS)
    except RequestFailed:
        return None
