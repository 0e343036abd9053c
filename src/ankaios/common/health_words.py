"""The health of a workload as part of its additional information, for programs that do not read the field `health`.

The agent adds this text, and `ank` leaves it out where it shows the health itself.
"""

_WORDS = {"Starting": "not healthy yet", "Healthy": "healthy", "Unhealthy": "unhealthy"}


def add_health_words(info: str, status: str, text: str) -> str:
    """
    >>> add_health_words("note", "Unhealthy", "no response")
    'note, unhealthy: no response'
    """
    words = _health_words(status, text)
    return f"{info}, {words}" if info else words


def remove_health_words(info: str, status: str, text: str) -> str:
    """Keep the text. Information without these words is returned unchanged.

    >>> remove_health_words("unhealthy: no response, restart in 2s", "Unhealthy", "no response")
    'no response, restart in 2s'
    """
    words = _health_words(status, text)
    parts = f", {info}, "
    if not words or f", {words}, " not in parts:
        return info
    kept = parts.replace(f", {words}, ", f", {text}, " if text else ", ", 1)
    return kept.removeprefix(", ").removesuffix(", ")


def _health_words(status: str, text: str) -> str:
    word = _WORDS.get(status, "")
    return f"{word}: {text}" if word and text else word
