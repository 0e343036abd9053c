"""Changes of a small state, as the server's core would return them."""

from collections.abc import Iterable

from ankaios.storage.state_store import EntryChange, JsonValue, Revision, StateChange


def a_change(number: int, name: str, after: JsonValue, before: JsonValue = None, kind: str = "workload") -> StateChange:
    """One workload changes with revision `number`; its placement changes, too, but has no history."""
    change = EntryChange(kind, name, before, after)
    placement = EntryChange("placement", name, None, None if after is None else {"agent": f"agent_{number}"})
    return StateChange((change, placement), a_revision(number, (change,)))


def a_revision(number: int, entries: Iterable[EntryChange] = ()) -> Revision:
    masks = tuple(f"desiredState.workloads.{entry.name}" for entry in entries)
    return Revision(number, 1_700_000_000.0 + number, "ank", masks, tuple(entries), f"note {number}")


def a_workload(number: int, size: int = 200) -> JsonValue:
    return {"runtime": "podman", "runtimeConfig": "x" * size, "number": number}
