"""What was probably meant by a name or path that matches nothing. Costs a question to the server, so only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.cli.connection import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ankaios.cli.arguments import Call
    from ankaios.cli.connection import Session
    from ankaios.common.model.kind import Kind
    from ankaios.common.pb import ank_base_pb2 as base

_PATIENCE_MS = 500
"""A hint is not worth a longer wait."""


def hint_at_unknown_workloads(call: Call, session: Session, unknown: Sequence[str]) -> None:
    if not unknown or call.output.quiet or call.settings.no_wait:
        return
    from ankaios.cli.suggestions import did_you_mean

    state = _ask(session, "desiredState.workloads.*.agent")
    if state is not None:
        for name in unknown:
            call.output.hint(did_you_mean("workload", name, state.desiredState.workloads.workloads))


def hint_at_unmatched_masks(call: Call, session: Session, masks: Iterable[str], form: Mapping[str, Any]) -> None:
    """Say for each mask that selected nothing where it leaves the state."""
    if call.output.quiet:
        return
    for mask in masks:
        parts = mask.split(".")
        if not matches(form, parts):
            call.output.hint(_mask_hint(session, mask, parts))


def matches(form: Any, parts: Sequence[str]) -> bool:
    """Whether the mask selects anything in the form."""
    if not parts:
        return True
    if not isinstance(form, dict):
        return False
    first, rest = parts[0], parts[1:]
    inner = list(form.values()) if first == "*" else [form[first]] if first in form else []
    return any(matches(value, rest) for value in inner)


def _mask_hint(session: Session, mask: str, parts: Sequence[str]) -> str:
    """Walk down until a part is unknown, asking for the names at a level only if they are not fixed."""
    from ankaios.cli.suggestions import nearest

    for depth, part in enumerate(parts):
        parent = parts[:depth]
        known = _keys_below(session, parent)
        if known and part != "*" and part not in known:
            if guess := nearest(part, known):
                return f"nothing matches '{mask}', did you mean '{'.'.join((*parent, guess, *parts[depth + 1 :]))}'?"
            place = f"in '{'.'.join(parent)}'" if parent else "at the top"
            return f"nothing matches '{mask}': {place} there are {', '.join(known[:8])}{' ...' if known[8:] else ''}"
    return f"nothing matches '{mask}' at the moment"


def _keys_below(session: Session, parent: Sequence[str]) -> list[str]:
    from ankaios.common.model.state import COMPLETE_STATE

    kind: Kind | None = COMPLETE_STATE
    for part in parent:
        kind = kind.part(part) if kind is not None else None
    if kind is not None and kind.known_keys is not None:
        return list(kind.known_keys)
    state = _ask(session, ".".join(parent))
    return [] if state is None else sorted(_keys_at(COMPLETE_STATE.to_form(state), parent))


def _keys_at(form: Any, parts: Sequence[str]) -> set[str]:
    if not isinstance(form, dict):
        return set()
    if not parts:
        return set(form)
    first, rest = parts[0], parts[1:]
    inner = form.values() if first == "*" else [form[first]] if first in form else []
    return set().union(*(_keys_at(value, rest) for value in inner))


def _ask(session: Session, mask: str) -> base.CompleteState | None:
    try:
        return session.complete_state(mask, patience_ms=_PATIENCE_MS)
    except CommandFailed:
        return None
