"""Reads discovery details: YAML written by a person, so each refusal says what is wrong, where, and what to write.

In: the text of a configuration. Out: typed values. Unknown keys are ignored, as Akri's handlers do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ankaios.devices.discovery.base import InvalidDetails

MAX_DETAILS = 256 * 1024


class FilterList(Struct, frozen=True):
    """Which values to keep: those listed (Include) or all but those listed (Exclude)."""

    items: tuple[str, ...]
    include: bool = True

    def keeps(self, matches: Callable[[str], bool] | None) -> bool:
        """Judge one value by asking which items match it; None stands for a value nobody knows.

        An unknown value is dropped, unless nothing is excluded at all: one cannot promise that it is not listed.
        """
        if not self.include and not self.items:
            return True
        if matches is None:
            return False
        return any(map(matches, self.items)) == self.include


class Details:
    """The mapping at one place of the details, with accessors that check the kind of each value."""

    def __init__(self, handler: str, values: Mapping[str, Any], place: str = "") -> None:
        self._handler = handler
        self._values = values
        self._place = place

    def refuse(self, key: str, why: str) -> InvalidDetails:
        return InvalidDetails(
            f"cannot use the discovery details of handler '{self._handler}': '{self._place}{key}' {why}"
        )

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def strings(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of texts; without a default the key is required."""
        value = self._values.get(key)
        if value is None:
            if default is None:
                raise self.refuse(key, "is missing; give a list of texts")
            return default
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.refuse(key, "must be a list of texts; put numbers and patterns in quotes")
        return tuple(value)

    def flag(self, key: str) -> bool:
        value = self._values.get(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.refuse(key, f"must be true or false, not {value!r}")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        value = self._values.get(key)
        if value is None:
            return default
        if value not in allowed:
            raise self.refuse(key, f"must be one of {', '.join(allowed)}, not {value!r}")
        return str(value)

    def number(self, key: str, low: int, high: int, default: int) -> int:
        value: object = self._values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.refuse(key, f"must be a whole number from {low} to {high}, not {value!r}")
        return value

    def child(self, key: str) -> Details:
        value = self._values.get(key)
        if not isinstance(value, dict):
            raise self.refuse(key, "is missing; give a mapping" if value is None else "must be a mapping")
        return Details(self._handler, value, f"{self._place}{key}.")

    def filter_list(self, key: str) -> FilterList | None:
        """`items` with an `action`, or None if this configuration does not filter by it."""
        if key not in self:
            return None
        given = self.child(key)
        return FilterList(
            given.strings("items"), given.choice("action", ("Include", "Exclude"), "Include") == "Include"
        )


def read_details(handler: str, text: str) -> Details:
    """Parse the text of a configuration; an empty text is an empty mapping."""
    import ryaml  # YAML is only needed once a configuration exists

    if len(text) > MAX_DETAILS:
        raise InvalidDetails(
            f"cannot use the discovery details of handler '{handler}': longer than {MAX_DETAILS} bytes"
        )
    try:
        values = ryaml.loads(text)
    except ValueError as error:
        raise InvalidDetails(f"cannot use the discovery details of handler '{handler}': not YAML: {error}") from error
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise InvalidDetails(
            f"cannot use the discovery details of handler '{handler}': must be a mapping of keys to values"
        )
    return Details(handler, values)
