"""The recent changes of the cluster as texts, with the times at which the dashboard received them.

Input: entries of `ClusterForm` before and after a change. Output: changes, newest last. Owns a limited number of them,
and for each workload the times of its last states. No I/O.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

Entry = dict[str, Any]
MAX_CHANGES = 500
MAX_TIMELINE = 60
MAX_TIMELINES = 5000


def instance_state_text(instance: Mapping[str, Any]) -> str:
    return instance["state"] if instance["state"] == instance["sub"] else f"{instance['state']}({instance['sub']})"


class _SeenState(Struct, frozen=True):
    """`health` is empty if nothing is checked."""

    words: str
    info: str
    health: str

    @property
    def is_bad(self) -> bool:
        return (
            self.words.startswith(("Failed", "AgentDisconnected"))
            or self.words in ("Pending(StartingFailed)", "Stopping(DeleteFailed)")
            or self.health == "unhealthy"
        )


class ChangeLog:
    def __init__(self) -> None:
        self.changes: deque[Entry] = deque(maxlen=MAX_CHANGES)
        self._timelines: dict[str, deque[Entry]] = {}
        self._number = 0

    def timeline(self, workload: str) -> list[Entry]:
        return list(self._timelines.get(workload, ()))

    def compare(self, before: Mapping[str, Entry], after: Mapping[str, Entry], now_ms: int) -> list[Entry]:
        """Store and return the changes between two patches of the same names."""
        found: list[Entry] = []
        for name, entry in after["workloads"].items():
            found += self._workload(name, before["workloads"].get(name), entry, now_ms)
        for kind, words in (("agents", ("connected", "disconnected")), ("devices", ("appeared", "disappeared"))):
            for name, entry in after[kind].items():
                was, is_there = before[kind].get(name) is not None, entry is not None
                if was != is_there:
                    single = kind.removesuffix("s")
                    found.append(self._change(single, name, words[0 if is_there else 1], now_ms, bad=not is_there))
        for name, device in after["devices"].items():
            old = before["devices"].get(name)
            if device is not None and old is not None and device["online"] != old["online"]:
                text = "online" if device["online"] else "offline"
                found.append(self._change("device", name, text, now_ms, bad=not device["online"]))
        self.changes.extend(found)
        return found

    def _workload(self, name: str, before: Entry | None, after: Entry | None, now_ms: int) -> list[Entry]:
        old = _states(before)
        new = _states(after)
        found = []
        for (agent, instance), state in new.items():
            known = old.get((agent, instance))
            text = _change_text(known, state)
            if text is None:
                continue
            found.append(self._change("workload", name, text, now_ms, agent=agent, info=state.info, bad=state.is_bad))
            entry = {"state": state.words, "info": state.info, "health": state.health}
            self._note_state(name, {"time": now_ms, "agent": agent, **entry})
        for agent, _ in old.keys() - new.keys():
            found.append(self._change("workload", name, "removed", now_ms, agent=agent))
            self._note_state(name, {"time": now_ms, "agent": agent, "state": "Removed", "info": "", "health": ""})
        return found

    def _note_state(self, name: str, entry: Entry) -> None:
        if name not in self._timelines and len(self._timelines) >= MAX_TIMELINES:
            del self._timelines[next(iter(self._timelines))]
        self._timelines.setdefault(name, deque(maxlen=MAX_TIMELINE)).append(entry)

    def _change(self, kind: str, name: str, text: str, now_ms: int, **more: Any) -> Entry:
        self._number += 1
        return {"number": self._number, "time": now_ms, "kind": kind, "name": name, "text": text, **more}


def _states(entry: Entry | None) -> dict[tuple[str, str], _SeenState]:
    if entry is None:
        return {}
    return {(one["agent"], one["id"]): _seen_state(one) for one in entry["instances"]}


def _seen_state(instance: Mapping[str, Any]) -> _SeenState:
    health = instance["health"] or {"status": "", "text": ""}
    return _SeenState(instance_state_text(instance), instance["info"] or health["text"], health["status"])


def _change_text(before: _SeenState | None, after: _SeenState) -> str | None:
    """None if neither the state nor the health has changed."""
    if before is None:
        return after.words
    if before.words != after.words:
        return f"{before.words} → {after.words}"
    if before.health != after.health and after.health:
        return f"{before.health} → {after.health}" if before.health else after.health
    return None
