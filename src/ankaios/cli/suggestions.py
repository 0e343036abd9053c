"""Which of the existing names was probably meant. Loaded only when something was not found."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The closest known word, or None if all are too far away for a helpful guess."""
    names = list(known)
    by_lower = {name.lower(): name for name in reversed(names)}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(kind: str, word: str, known: Iterable[str]) -> str:
    """A complete hint about a name that does not exist."""
    names = sorted(set(known))
    if guess := nearest(word, names):
        return f"there is no {kind} '{word}', did you mean '{guess}'?"
    if not names:
        return f"there is no {kind} '{word}', there are none at all"
    listed = ", ".join(f"'{name}'" for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"there is no {kind} '{word}', there are {listed}{more}"
