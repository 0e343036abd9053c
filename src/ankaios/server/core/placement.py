"""Which agent can satisfy the devices that a workload asks for.

In: a workload that leaves the choice to the server, and what every agent has room for. Out: the agent and why, or why
there is none. Owned: the choices made. A choice stays until the workload changes or its agent is lost; the devices it
counts on are reserved until the workload was started, so that two workloads are not sent after one device.
"""

from collections import Counter
from collections.abc import Mapping
from heapq import nsmallest
from typing import Protocol

from msgspec import Struct, field

from ankaios.common.workload import ResourceRequest

NOBODY = "no connected agent knows devices"


class Options(Struct, frozen=True):
    """What could serve a request: devices with their number of free slots. `distinct`: one slot of each at most."""

    free: Mapping[str, int] = field(default_factory=dict)
    distinct: bool = False


class Supply(Protocol):
    """What is to be known of the agents."""

    def candidates(self) -> Mapping[str, Mapping[str, str]]:
        """Agents that can be given workloads with devices now, with their tags."""
        ...

    def options(self, agent: str, resource: str) -> Options: ...


class Wanted(Struct, frozen=True):
    """What of a workload matters for its place."""

    resources: tuple[ResourceRequest, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, resources: tuple[ResourceRequest, ...], tags: Mapping[str, str]) -> "Wanted":
        return cls(resources, tuple(sorted(tags.items())))

    def admits(self, tags: Mapping[str, str]) -> bool:
        """Of the agent."""
        return all(tags.get(key) == value for key, value in self.tags)

    def __str__(self) -> str:
        needs: dict[str, int] = {}
        for request in self.resources:
            needs[request.resource] = needs.get(request.resource, 0) + request.quantity
        return ", ".join(f"{quantity} x {resource}" for resource, quantity in needs.items())


class Place(Struct, frozen=True):
    """Without an agent the workload is not scheduled. `reserves` counts slots by device."""

    agent: str
    why: str
    reserves: Mapping[str, int] = field(default_factory=dict)


class PlacementBook:
    """[impl->akri~replicas-spread-over-devices~1]"""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self._places: dict[str, tuple[Wanted, Place]] = {}
        self._waiting: dict[str, None] = {}
        self._reserved: Counter[str] = Counter()

    def place(self, workload: str, wanted: Wanted, given: Place | None = None) -> Place:
        """The same question has the same answer, unless the agent was lost in between.

        `given` is what is so, and leaves nothing to choose.
        """
        known = self._places.get(workload)
        if known is not None and known[0] == wanted:
            return known[1]
        self.forget(workload)
        place = given or choose(self._supply, wanted, self._reserved)
        if place.agent:
            self._places[workload] = (wanted, place)
            self._reserved.update(place.reserves)
        else:
            self._waiting[workload] = None
        return place

    def started(self, workload: str) -> None:
        """It has its devices now, so they count by themselves."""
        if workload in self._places:
            wanted, place = self._places[workload]
            self._reserved.subtract(place.reserves)
            self._reserved = +self._reserved
            self._places[workload] = (wanted, Place(place.agent, place.why))

    def forget(self, workload: str) -> None:
        self.started(workload)
        self._places.pop(workload, None)
        self._waiting.pop(workload, None)

    def agent_lost(self, agent: str) -> list[str]:
        """Which workloads need another place."""
        lost = [name for name, (_, place) in self._places.items() if place.agent == agent]
        for name in lost:
            self.forget(name)
            self._waiting[name] = None
        return lost

    def __contains__(self, workload: str) -> bool:
        """Whether its place is chosen here."""
        return workload in self._places or workload in self._waiting

    def waiting(self) -> list[str]:
        """Workloads without a place; ask again for them when the supply grew."""
        return list(self._waiting)


def choose(supply: Supply, wanted: Wanted, reserved: Mapping[str, int]) -> Place:
    """The agent with the most room left; the name decides between equals."""
    candidates = [agent for agent, tags in supply.candidates().items() if wanted.admits(tags)]
    if not candidates:
        tags = ", ".join(f"{key}={value}" for key, value in wanted.tags)
        return Place("", f"{NOBODY}{f' and has the tags {tags}' if tags else ''}")
    fits = {agent: fit for agent in candidates if (fit := _fit(supply, agent, wanted, reserved)) is not None}
    if not fits:
        return Place("", f"no agent has room for {wanted}")
    best = min(fits, key=lambda agent: (-fits[agent][0], agent))
    why = f"agent '{best}' has the most room for {wanted}" if wanted.resources else f"agent '{best}' comes first"
    return Place(best, why, fits[best][1])


def _fit(supply: Supply, agent: str, wanted: Wanted, reserved: Mapping[str, int]) -> tuple[int, dict[str, int]] | None:
    """How much room would be left, and which devices would be used; None if it does not fit."""
    used: Counter[str] = Counter()
    room: dict[str, int] = {}
    options = [(request.quantity, supply.options(agent, request.resource)) for request in wanted.resources]
    # A named device leaves no choice, so it goes first.
    for quantity, option in sorted(options, key=lambda pair: pair[1].distinct):
        left = {name: free - used[name] - reserved.get(name, 0) for name, free in option.free.items()}
        taken = _take(left, quantity, option.distinct)
        if taken is None:
            return None
        used.update(taken)
        room |= {name: count - taken.get(name, 0) for name, count in left.items()}
    return sum(room.values()), dict(used)


def _take(left: Mapping[str, int], quantity: int, distinct: bool) -> dict[str, int] | None:
    """Most free first, as the agents do it."""
    taken: dict[str, int] = {}
    free = [name for name, count in left.items() if count > 0]
    for name in nsmallest(quantity if distinct else len(free), free, key=lambda name: (-left[name], name)):
        taken[name] = 1 if distinct else min(left[name], quantity - sum(taken.values()))
    return {name: count for name, count in taken.items() if count} if sum(taken.values()) == quantity else None
