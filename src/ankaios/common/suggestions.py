"""Finds the existing name that is similar to an unknown one."""

from collections.abc import Iterable

_SHORT_WORD = 5


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The most similar known word, or None if no word is close. In a short word one wrong letter counts more."""
    from difflib import get_close_matches  # only after a mistake

    by_lower = {name.lower(): name for name in reversed(list(known))}
    cutoff = 0.6 if len(word) <= _SHORT_WORD else 0.75
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else None


def suggestion(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of a message about an unknown word: the similar word, or else another text."""
    guess = nearest(word, known)
    return f"; did you mean '{guess}'?" if guess else otherwise


def did_you_mean(kind: str, word: str, known: Iterable[str]) -> str:
    """The hint for an unknown name: the similar name, or else the existing names.

    >>> did_you_mean("workload", "wbe", ["web"])
    "unknown workload 'wbe'; did you mean 'web'?"
    """
    return f"unknown {kind} '{word}'; {similar_or_known(word, known)}"


def similar_or_known(word: str, known: Iterable[str]) -> str:
    """The hint after an error that names the unknown word."""
    names = sorted(set(known))
    if guess := nearest(word, names):
        return f"did you mean '{guess}'?"
    if not names:
        return "none exists"
    listed = ", ".join(f"'{name}'" for name in names[:5])
    return f"known: {listed}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
