"""The recent changes of the cluster, as texts for people, with the times at which the dashboard saw them.

Input: entries of `ClusterForm` before and after a change. Output: changes, newest last. Owns a limited number of them,
and for each workload the times of its last states. No I/O.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

Entry = dict[str, Any]
MAX_CHANGES = 500
MAX_TIMELINE = 60
MAX_TIMELINES = 5000


def instance_state_text(instance: Mapping[str, Any]) -> str:
    return instance["state"] if instance["state"] == instance["sub"] else f"{instance['state']}({instance['sub']})"


class ChangeLog:
    def __init__(self) -> None:
        self.changes: deque[Entry] = deque(maxlen=MAX_CHANGES)
        self._timelines: dict[str, deque[Entry]] = {}
        self._number = 0

    def timeline(self, workload: str) -> list[Entry]:
        return list(self._timelines.get(workload, ()))

    def compare(self, before: Mapping[str, Entry], after: Mapping[str, Entry], now_ms: int) -> list[Entry]:
        """Note what differs between two patches of the same names; returns the new changes."""
        found: list[Entry] = []
        for name, entry in after["workloads"].items():
            found += self._workload(name, before["workloads"].get(name), entry, now_ms)
        for kind, words in (("agents", ("connected", "disconnected")), ("devices", ("appeared", "disappeared"))):
            for name, entry in after[kind].items():
                was, is_there = before[kind].get(name) is not None, entry is not None
                if was != is_there:
                    single = kind.removesuffix("s")
                    found.append(self._change(single, name, words[0 if is_there else 1], now_ms, bad=not is_there))
        self.changes.extend(found)
        return found

    def _workload(self, name: str, before: Entry | None, after: Entry | None, now_ms: int) -> list[Entry]:
        old = _states(before)
        new = _states(after)
        found = []
        for key, (words, info) in new.items():
            if key in old and old[key][0] == words:
                continue
            text = f"{old[key][0]} → {words}" if key in old else words
            bad = words.startswith(("Failed", "AgentDisconnected")) or words in (
                "Pending(StartingFailed)",
                "Stopping(DeleteFailed)",
            )
            found.append(self._change("workload", name, text, now_ms, agent=key[0], info=info, bad=bad))
            self._note_state(name, {"time": now_ms, "agent": key[0], "state": words, "info": info})
        for key in old.keys() - new.keys():
            found.append(self._change("workload", name, "removed", now_ms, agent=key[0]))
            self._note_state(name, {"time": now_ms, "agent": key[0], "state": "Removed", "info": ""})
        return found

    def _note_state(self, name: str, entry: Entry) -> None:
        if name not in self._timelines and len(self._timelines) >= MAX_TIMELINES:
            del self._timelines[next(iter(self._timelines))]
        self._timelines.setdefault(name, deque(maxlen=MAX_TIMELINE)).append(entry)

    def _change(self, kind: str, name: str, text: str, now_ms: int, **more: Any) -> Entry:
        self._number += 1
        return {"number": self._number, "time": now_ms, "kind": kind, "name": name, "text": text, **more}


def _states(entry: Entry | None) -> dict[tuple[str, str], tuple[str, str]]:
    if entry is None:
        return {}
    return {(one["agent"], one["id"]): (instance_state_text(one), one["info"]) for one in entry["instances"]}
