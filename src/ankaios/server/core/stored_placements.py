"""The placements that are stored: the agent of each workload that leaves the choice to the server.

Input: stored entries, and placements that change. Output: changes of entries, and the agent of a workload before this
server started. Owns the stored values. A placement is stored with the id of the instance: a workload that has changed
in between may be placed anew.
"""

from collections.abc import Mapping

from ankaios.common.state_manipulation import Form
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.placement import PlacementDecision, Placements
from ankaios.server.core.stored_entries import PLACEMENT_KIND
from ankaios.storage.state_store import EntryChange


class StoredPlacements:
    def __init__(self) -> None:
        self._values: dict[str, Form] = {}
        self._has_restored = False

    def restore(self, values: Mapping[str, Form]) -> None:
        self._values = dict(values)
        self._has_restored = bool(values)

    def agent_of(self, workload: str, instance_id: str) -> str | None:
        value = self._values.get(workload) if self._has_restored else None
        return value["agent"] if value is not None and value.get("id") == instance_id else None

    def apply(
        self, planned: Mapping[str, PlacementDecision | None], effective: Mapping[str, RenderedWorkload]
    ) -> list[EntryChange]:
        """After the plan was applied: a workload without an agent has no stored placement."""
        return [
            change
            for name, placement in planned.items()
            if (change := self._put(name, _value(placement, effective.get(name)))) is not None
        ]

    def agent_lost(self, agent: str) -> list[EntryChange]:
        lost = [name for name, value in self._values.items() if value["agent"] == agent]
        return [change for name in lost if (change := self._put(name, None)) is not None]

    def drop_unused(self, current: Placements) -> list[EntryChange]:
        """Once all agents had the time to report: what was restored and is not used any more."""
        if not self._has_restored:
            return []
        self._has_restored = False
        unused = [name for name in self._values if (it := current.get(name)) is None or not it.agent]
        return [change for name in unused if (change := self._put(name, None)) is not None]

    def _put(self, name: str, value: Form | None) -> EntryChange | None:
        before = self._values.pop(name, None)
        if value is not None:
            self._values[name] = value
        return None if before == value else EntryChange(PLACEMENT_KIND, name, before, value)


def _value(placement: PlacementDecision | None, workload: RenderedWorkload | None) -> Form | None:
    if placement is None or not placement.agent or workload is None:
        return None
    return {"agent": placement.agent, "id": workload.instance_name.id}
