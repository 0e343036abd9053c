"""Reads discovery details, which are YAML written by a person.

Input: the text of a configuration. Output: the values as the type that a handler declares, or `InvalidDetails` with
what is wrong and where. Unknown keys are ignored, as Akri's handlers do; a null value counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from ankaios.devices.discovery.base import InvalidDetails, Properties

MAX_DETAILS = 256 * 1024

T = TypeVar("T", bound=Struct)


class FilterList(Struct, frozen=True):
    """Which values to keep: those listed (Include) or all but those listed (Exclude)."""

    items: tuple[str, ...]
    action: Literal["Include", "Exclude"] = "Include"

    def keeps(self, matches: Callable[[str], bool] | None) -> bool:
        """Whether to keep a value; `matches` compares it with an item and is None for an unknown value.

        An unknown value is dropped, unless nothing is excluded: it could be one of the listed values.
        """
        if self.action == "Exclude" and not self.items:
            return True
        if matches is None:
            return False
        return any(map(matches, self.items)) == (self.action == "Include")


def read_details(handler: str, text: str, content: type[T]) -> T:
    """Parse the text of a configuration; an empty text is an empty mapping."""
    import ryaml  # YAML is only needed once a configuration exists

    if len(text) > MAX_DETAILS:
        raise invalid_details(handler, f"longer than {MAX_DETAILS} bytes")
    try:
        return msgspec.convert(_without_nulls(ryaml.loads(text) or {}), content)
    except msgspec.ValidationError as error:
        raise invalid_details(handler, str(error)) from error
    except ValueError as error:
        raise invalid_details(handler, f"not YAML: {error}") from error


def invalid_details(handler: str, why: str) -> InvalidDetails:
    return InvalidDetails(f"cannot use the discovery details of handler '{handler}': {why}")


def text_property(properties: Properties, name: str) -> str | None:
    """The text of a discovery property; None if it does not exist."""
    value = properties.get(name)
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError as error:
        raise invalid_property(name, "it is not UTF-8 text") from error


def invalid_property(name: str, why: str) -> InvalidDetails:
    return InvalidDetails(f"cannot use the discovery property '{name}': {why}")


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(item) for key, item in value.items() if item is not None}
