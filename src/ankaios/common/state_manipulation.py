"""Get, set, remove, select and compare parts of a state by path. Input and output are plain forms.

A path is a text with `.` between its parts, or the tuple of these parts; tuples are exact even if a key contains a dot
or is empty. Only `set_value` and `remove_value` change their arguments.

[impl->swdd~common-state-manipulation-path~1]
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct, field

from ankaios.common.errors import Rejected

Form = dict[str, Any]
Path = tuple[str, ...]

SEPARATOR: Final = "."
WILDCARD: Final = "*"
# Protobuf messages are not nested deeper, so a longer path matches nothing. The limit bounds the cost of hostile paths.
MAX_PATH_PARTS: Final = 128


class _Missing:
    """The result for a path without value; None is a value."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()


class FieldNotFound(Rejected):
    """The parent of the path that is to be set or removed does not exist."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"Could not find field {format_path(path)}")


def parse_path(text: str) -> Path | None:
    """Return None if the path is longer than any existing one."""
    return tuple(text.split(SEPARATOR)) if text.count(SEPARATOR) < MAX_PATH_PARTS else None


def format_path(path: Path) -> str:
    return SEPARATOR.join(path)


def get_value(form: Any, path: Path) -> Any:
    """Return the value at the path, or MISSING. Elements of lists have no path.

    [impl->swdd~common-state-manipulation-get~1]
    """
    for part in path:
        if not isinstance(form, dict) or part not in form:
            return MISSING
        form = form[part]
    return form


def set_value(form: Form, path: Path, value: Any) -> None:
    """Set the value at the path.

    [impl->swdd~common-state-manipulation-set~1]
    """
    here = form
    for part in path[:-1]:
        # A missing map is created, so that new branches can be set leaf by leaf.
        # [impl->swdd~common-state-manipulation-set-add-missing-objects~1]
        here = here.setdefault(part, {})
        if not isinstance(here, dict):
            raise FieldNotFound(path)
    here[path[-1]] = value


def remove_value(form: Form, path: Path) -> None:
    """Remove the value at the path. Only the last part of the path may be missing.

    [impl->swdd~common-state-manipulation-remove~1]
    """
    here = get_value(form, path[:-1])
    if not isinstance(here, dict):
        raise FieldNotFound(path)
    here.pop(path[-1], None)


def copy_form(form: Any) -> Any:
    """Return a copy of all maps and lists."""
    if isinstance(form, dict):
        return {key: copy_form(value) for key, value in form.items()}
    return [copy_form(value) for value in form] if isinstance(form, list) else form


def expand_wildcards(form: Any, path: Path) -> list[Path]:
    """Return all existing paths that match the given one; `*` matches every key of a map.

    [impl->swdd~common-state-manipulation-expand-wildcards~1]
    """
    found: list[tuple[Path, Any]] = [((), form)]
    for part in path:
        found = [
            ((*prefix, key), value[key])
            for prefix, value in found
            if isinstance(value, dict)
            for key in (value if part == WILDCARD else (part,))
            if key in value
        ]
    return [prefix for prefix, _ in found]


class Selection(Struct):
    """A set of masks that selects the parts of a form that match any of them.

    The masks are stored as a tree, so that the cost depends on the selected parts, not on the size of the form.
    """

    _complete: bool = False
    _parts: "dict[str, Selection]" = field(default_factory=dict)

    @classmethod
    def of(cls, masks: Iterable[Path]) -> "Selection":
        selection = cls()
        for mask in masks:
            selection.add(mask)
        return selection

    def add(self, mask: Path) -> None:
        here = self
        for part in mask:
            here = here._parts.setdefault(part, Selection())
        here._complete = True

    def pick(self, form: Any) -> Any:
        """Return the selected parts, or MISSING if no mask matches. Complete parts are shared with the form."""
        return _pick([self], form)


def _pick(selections: list[Selection], form: Any) -> Any:
    if any(selection._complete for selection in selections):
        return form
    if not isinstance(form, dict):
        return MISSING
    picked = {}
    for key in _candidates(selections, form):
        below = [there for here in selections for part in (key, WILDCARD) if (there := here._parts.get(part))]
        if (value := _pick(below, form[key])) is not MISSING:
            picked[key] = value
    return picked or MISSING


def _candidates(selections: list[Selection], form: Form) -> Iterable[str]:
    """Return the keys that may match. Iterates over the form or the masks, depending on their sizes."""
    if any(WILDCARD in selection._parts for selection in selections):
        return form
    if sum(len(selection._parts) for selection in selections) > len(form):
        return [key for key in form if any(key in selection._parts for selection in selections)]
    return {key for selection in selections for key in selection._parts if key in form}


# --- differences ------------------------------------------------------------------------------------------------------


class Added(Struct, frozen=True):
    """A key that only the new form has, with everything below it."""

    value: Any


class Removed(Struct, frozen=True):
    """A key that only the old form had, with everything below it."""

    value: Any


class Updated(Struct, frozen=True):
    """A leaf whose value changed."""

    value: Any


Change = Added | Removed | Updated
Differences = dict[str, "Change | Differences"]


class AlteredPaths(Struct):
    """Paths by kind of change. A dict without values is a set that keeps its order."""

    added: dict[Path, None] = field(default_factory=dict)
    updated: dict[Path, None] = field(default_factory=dict)
    removed: dict[Path, None] = field(default_factory=dict)

    def note(self, path: Path, change: Change) -> None:
        match change:
            case Added():
                self.added[path] = None
            case Updated():
                self.updated[path] = None
            case Removed():
                self.removed[path] = None

    def __bool__(self) -> bool:
        return bool(self.added or self.updated or self.removed)

    def __iter__(self) -> Iterator[Path]:
        yield from self.added
        yield from self.updated
        yield from self.removed


def differences(old: Form, new: Form) -> Differences:
    """Return the differences of two forms as a tree: the topmost added, removed or changed keys are its leaves.

    Parts that are the same object are not compared.
    [impl->swdd~common-state-manipulation-calculate-state-differences~1]
    [impl->swdd~server-calculates-state-differences~1]
    """
    found: Differences = {}
    for key, before in old.items():
        if key not in new:
            found[key] = Removed(before)
        elif (after := new[key]) is not before and (change := _difference(before, after)):
            found[key] = change
    for key, after in new.items():
        if key not in old:
            found[key] = Added(after)
    return found


def _difference(before: Any, after: Any) -> "Change | Differences | None":
    if isinstance(before, dict) and isinstance(after, dict):
        return differences(before, after)
    if before == after:
        return None
    if isinstance(before, list) and isinstance(after, list):
        if not before:
            return Added(after)
        if not after:
            return Removed(before)
    return Updated(after)


def all_paths(found: Differences) -> AlteredPaths:
    """Return the absolute paths of all differences."""
    altered = AlteredPaths()
    note_paths(found, (), altered)
    return altered


def note_paths(found: "Change | Differences", prefix: Path, altered: AlteredPaths) -> None:
    """Add every difference at or below the prefix to `altered`."""
    if isinstance(found, dict):
        for key, below in found.items():
            note_paths(below, (*prefix, key), altered)
    else:
        altered.note(prefix, found)
