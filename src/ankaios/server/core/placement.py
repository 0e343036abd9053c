"""Chooses agents for workloads that leave the choice to the server.

Input: requests for placement, the devices that every agent has free, and the present placements. Output: the agent of
each workload with the reason, or the reason why it has to wait. `plan_placements` changes nothing, so that the same
function serves a preview and a commit. `Placements` owns the placements: one stays until the workload changes or its
agent is lost; its devices are reserved until the workload has started, so that two workloads are not placed for the
same device.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from ankaios.common.execution_state import NOT_SCHEDULED, PENDING_INITIAL, ExecutionState
from ankaios.common.workload import ResourceRequest

NO_AGENT = "no connected agent offers devices"


class FreeDevices(Struct, frozen=True):
    """The devices that could serve a request, with their free slots. `distinct`: one slot of each at most."""

    slots: Mapping[str, int] = field(default_factory=dict)
    distinct: bool = False


class DeviceSupply(Protocol):
    """The devices of the connected agents."""

    def candidates(self) -> Mapping[str, Mapping[str, str]]:
        """Agents that can run workloads with devices now, with their tags."""
        ...

    def free_devices(self, agent: str, resource: str) -> FreeDevices: ...


class PlacementRequest(Struct, frozen=True):
    """The part of a workload that its placement depends on."""

    resources: tuple[ResourceRequest, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_form(cls, form: Mapping[str, Any]) -> "PlacementRequest":
        requests = tuple(ResourceRequest(**request) for request in form.get("resources", ()))
        return cls(requests, tuple(sorted(form["placement"].get("tags", {}).items())))

    def accepts(self, tags: Mapping[str, str]) -> bool:
        """Whether an agent with these tags can run the workload."""
        return all(tags.get(key) == value for key, value in self.tags)

    def __str__(self) -> str:
        needs: Counter[str] = Counter()
        for request in self.resources:
            needs[request.resource] += request.quantity
        return ", ".join(f"{quantity} x {resource}" for resource, quantity in needs.items())


class PlacementDecision(Struct, frozen=True):
    """The answer to a request. Without an agent the workload waits. `reserves` counts slots by device."""

    request: PlacementRequest
    agent: str
    reason: str
    reserves: Mapping[str, int] = field(default_factory=dict)

    @property
    def state(self) -> ExecutionState:
        """The state of the workload as long as its agent reports none."""
        return (PENDING_INITIAL if self.agent else NOT_SCHEDULED).because(self.reason)


class Placements:
    """[impl->akri~replicas-spread-over-devices~1]"""

    def __init__(self) -> None:
        self._placed: dict[str, PlacementDecision] = {}
        self._waiting: dict[str, PlacementDecision] = {}
        self._reserved: Counter[str] = Counter()

    def get(self, workload: str) -> PlacementDecision | None:
        """None if the server does not choose the agent of the workload."""
        return self._placed.get(workload) or self._waiting.get(workload)

    def waiting(self) -> list[str]:
        """Workloads without an agent; plan them again when there are more devices."""
        return list(self._waiting)

    def reserved(self, device: str) -> int:
        return self._reserved[device]

    def apply(self, changes: Mapping[str, PlacementDecision | None]) -> None:
        """Take over a plan; None removes a placement."""
        for workload, placement in changes.items():
            self.started(workload)
            self._placed.pop(workload, None)
            self._waiting.pop(workload, None)
            if placement is not None:
                (self._placed if placement.agent else self._waiting)[workload] = placement
                self._reserved.update(placement.reserves)

    def started(self, workload: str) -> None:
        """The workload has claimed its devices, so they need no reservation."""
        if (placement := self._placed.get(workload)) is not None and placement.reserves:
            self._placed[workload] = replace(placement, reserves={})
            for device, slots in placement.reserves.items():
                self._reserved[device] -= slots
                if not self._reserved[device]:
                    del self._reserved[device]

    def agent_lost(self, agent: str) -> None:
        """The workloads of the agent need another placement."""
        for name in [name for name, placement in self._placed.items() if placement.agent == agent]:
            self.apply({name: PlacementDecision(self._placed[name].request, "", f"agent '{agent}' is lost")})


Fixed = Callable[[str, PlacementRequest], PlacementDecision | None]


def plan_placements(
    requests: Mapping[str, PlacementRequest],
    removed: Iterable[str],
    current: Placements,
    supply: DeviceSupply,
    fixed: Fixed = lambda workload, request: None,
) -> dict[str, PlacementDecision | None]:
    """The placements that change: None for removed ones. A present placement with the same request stays.

    `fixed` returns the placement of a workload that leaves nothing to choose. Each placement takes the reservations of
    the earlier ones into account.
    """
    planned: dict[str, PlacementDecision | None] = {}
    delta: Counter[str] = Counter()
    for name in removed:
        if (old := current.get(name)) is not None:
            delta.subtract(old.reserves)
            planned[name] = None
    for name, request in requests.items():
        old = current.get(name)
        if old is not None and old.agent and old.request == request:
            continue
        delta.subtract(old.reserves if old else {})
        placement = fixed(name, request) or choose_agent(
            supply, request, lambda device: current.reserved(device) + delta[device]
        )
        delta.update(placement.reserves)
        planned[name] = placement
    return planned


def choose_agent(supply: DeviceSupply, request: PlacementRequest, reserved: Callable[[str], int]) -> PlacementDecision:
    """The agent with the most free devices left; equal ones are ordered by name."""
    candidates = [agent for agent, tags in supply.candidates().items() if request.accepts(tags)]
    if not candidates:
        tags = ", ".join(f"{key}={value}" for key, value in request.tags)
        return PlacementDecision(request, "", f"{NO_AGENT}{f' and has the tags {tags}' if tags else ''}")
    fits = {agent: fit for agent in candidates if (fit := _fit(supply, agent, request, reserved)) is not None}
    if not fits:
        return PlacementDecision(request, "", f"no agent has enough free devices for {request}")
    best = min(fits, key=lambda agent: (-fits[agent][0], agent))
    reason = (
        f"agent '{best}' has the most free devices for {request}"
        if request.resources
        else f"agent '{best}' is the first by name"
    )
    return PlacementDecision(request, best, reason, fits[best][1])


def has_free_devices(
    supply: DeviceSupply, agent: str, request: PlacementRequest, reserved: Callable[[str], int]
) -> bool:
    """Whether the agent can give a new workload all devices that it requests."""
    return _fit(supply, agent, request, reserved) is not None


def _fit(
    supply: DeviceSupply, agent: str, request: PlacementRequest, reserved: Callable[[str], int]
) -> tuple[int, dict[str, int]] | None:
    """How many slots would be left, and which devices would be used; None if there are not enough."""
    used: Counter[str] = Counter()
    left_over: dict[str, int] = {}
    free = [(it.quantity, supply.free_devices(agent, it.resource)) for it in request.resources]
    # A named device leaves no choice, so it goes first.
    for quantity, devices in sorted(free, key=lambda pair: pair[1].distinct):
        left = {name: slots - used[name] - reserved(name) for name, slots in devices.slots.items()}
        taken = _take(left, quantity, devices.distinct)
        if taken is None:
            return None
        used.update(taken)
        left_over |= {name: count - taken.get(name, 0) for name, count in left.items()}
    return sum(left_over.values()), dict(used)


def _take(left: Mapping[str, int], quantity: int, distinct: bool) -> dict[str, int] | None:
    """Most free first, as the agents allocate."""
    taken: dict[str, int] = {}
    free = [name for name, count in left.items() if count > 0]
    for name in nsmallest(quantity if distinct else len(free), free, key=lambda name: (-left[name], name)):
        taken[name] = 1 if distinct else min(left[name], quantity - sum(taken.values()))
    return {name: count for name, count in taken.items() if count} if sum(taken.values()) == quantity else None
