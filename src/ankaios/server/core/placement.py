"""Chooses agents for workloads that leave the choice to the server.

Input: requests for placement, the devices that every agent has free, and the present placements. Output: the agent of
each workload with the reason, or the reason why it has to wait. `plan_placements` changes nothing, so that the same
function serves a preview and a commit. `Placements` owns the placements: one stays until the request changes, its
agent is lost, or its agent has lost the devices and another one has them; its devices are reserved until the workload
has started, also after an update of the workload, so that two workloads are not placed for the same device.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from heapq import nsmallest
from typing import Any, Protocol

from msgspec import Struct, field

from ankaios.common.execution_state import NOT_SCHEDULED, PENDING_INITIAL, ExecutionState
from ankaios.common.workload import ResourceRequest

NO_AGENT = "no connected agent offers devices"
NO_AGENT_AT_ALL = "no agent is connected"


class FreeDevices(Struct, frozen=True):
    """The devices that could serve a request, with their free slots. `distinct`: one slot of each at most."""

    slots: Mapping[str, int] = field(default_factory=dict)
    distinct: bool = False


class DeviceSupply(Protocol):
    """The devices of the connected agents."""

    def candidates(self, with_devices: bool) -> Mapping[str, Mapping[str, str]]:
        """Connected agents with their tags; `with_devices`: those that can run workloads with devices."""
        ...

    def free_devices(self, agent: str, resource: str, where: Mapping[str, str]) -> FreeDevices:
        """The devices with these properties that the agent sees online."""
        ...

    def all_devices(self, agent: str, resource: str, where: Mapping[str, str]) -> FreeDevices:
        """As if none of them was in use or offline."""
        ...


class PlacementRequest(Struct, frozen=True):
    """The part of a workload that its placement depends on.

    `group` is the workload of which it is an instance. `spread`: agents with fewer instances of it are preferred.
    """

    resources: tuple[ResourceRequest, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    group: str = ""
    spread: bool = False

    @classmethod
    def from_form(cls, form: Mapping[str, Any]) -> "PlacementRequest":
        requests = tuple(ResourceRequest(**request) for request in form.get("resources", ()))
        placement = form["placement"]
        tags = tuple(sorted(placement.get("tags", {}).items()))
        return cls(requests, tags, placement.get("replicaOf", ""), placement.get("spread", False))

    def accepts(self, tags: Mapping[str, str]) -> bool:
        """Whether an agent with these tags can run the workload."""
        return all(tags.get(key) == value for key, value in self.tags)

    def __str__(self) -> str:
        needs: Counter[str] = Counter()
        for request in self.resources:
            needs[request.description] += request.quantity
        return ", ".join(f"{quantity} x {description}" for description, quantity in needs.items())


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
        self._unstarted: set[str] = set()  # placed workloads whose devices are reserved
        self._reserved: Counter[str] = Counter()
        self._instances: Counter[tuple[str, str]] = Counter()  # of each group on each agent

    def get(self, workload: str) -> PlacementDecision | None:
        """None if the server does not choose the agent of the workload."""
        return self._placed.get(workload) or self._waiting.get(workload)

    def waiting(self) -> list[str]:
        """Workloads without an agent; plan them again when there are more devices."""
        return list(self._waiting)

    def placed_on(self, agent: str) -> list[str]:
        return [name for name, placement in self._placed.items() if placement.agent == agent]

    def reserved(self, device: str) -> int:
        return self._reserved[device]

    def reserved_by(self, workload: str) -> Mapping[str, int]:
        """The slots of each device that are reserved for the workload."""
        return self._placed[workload].reserves if workload in self._unstarted else {}

    def instances(self, group: str, agent: str) -> int:
        """How many instances of a workload are placed on the agent."""
        return self._instances[group, agent]

    def apply(self, changes: Mapping[str, PlacementDecision | None]) -> None:
        """Take over a plan; None removes a placement."""
        for workload, placement in changes.items():
            self.started(workload)
            self._count(self._placed.pop(workload, None), -1)
            self._waiting.pop(workload, None)
            if placement is not None:
                (self._placed if placement.agent else self._waiting)[workload] = placement
                self._count(placement, 1)
                self.starts(workload)

    def _count(self, placement: PlacementDecision | None, number: int) -> None:
        if placement is not None and placement.agent and placement.request.group:
            key = placement.request.group, placement.agent
            self._instances[key] += number
            if not self._instances[key]:
                del self._instances[key]

    def starts(self, workload: str) -> None:
        """A new instance of the workload will claim devices: they are reserved if the server has placed it."""
        placement = self._placed.get(workload)
        if placement is not None and placement.reserves and workload not in self._unstarted:
            self._unstarted.add(workload)
            self._reserved.update(placement.reserves)

    def started(self, workload: str) -> bool:
        """The workload has claimed its devices, so they need no reservation. Returns whether they were reserved."""
        reserves = self.reserved_by(workload)
        self._unstarted.discard(workload)
        for device, slots in reserves.items():
            self._reserved[device] -= slots
            if not self._reserved[device]:
                del self._reserved[device]
        return bool(reserves)

    def agent_lost(self, agent: str) -> None:
        """The workloads of the agent need another placement."""
        for name in self.placed_on(agent):
            self.apply({name: PlacementDecision(self._placed[name].request, "", f"agent '{agent}' is lost")})


Fixed = Callable[[str, PlacementRequest], PlacementDecision | None]


def plan_placements(
    requests: Mapping[str, PlacementRequest],
    removed: Iterable[str],
    current: Placements,
    supply: DeviceSupply,
    fixed: Fixed = lambda workload, request: None,
    stranded: Container[str] = (),
) -> dict[str, PlacementDecision | None]:
    """The placements that change: None for removed ones. A present placement with the same request stays.

    `fixed` returns the placement of a workload that leaves nothing to choose. `stranded` are workloads that leave their
    agents if another one can serve them. Each placement takes the reservations of the earlier ones into account.
    """
    planned: dict[str, PlacementDecision | None] = {}
    usage = _PlannedUsage(current)
    for name in removed:
        if (old := current.get(name)) is not None:
            usage.remove(name, old)
            planned[name] = None
    for name, request in requests.items():
        old = current.get(name)
        stays = old is not None and bool(old.agent) and old.request == request
        if stays and name not in stranded:
            continue
        usage.remove(name, old)
        placement = fixed(name, request) or choose_agent(supply, request, usage.reserved, usage.instances)
        if stays and old is not None and placement.agent in ("", old.agent):
            usage.add(old, current.reserved_by(name))
            continue
        usage.add(placement, placement.reserves)
        planned[name] = placement
    return planned


class _PlannedUsage:
    """What the placements use after the part of a plan that is made already."""

    def __init__(self, current: Placements) -> None:
        self._current = current
        self._slots: Counter[str] = Counter()
        self._instances: Counter[tuple[str, str]] = Counter()

    def add(self, placement: PlacementDecision, reserves: Mapping[str, int]) -> None:
        self._slots.update(reserves)
        self._instances[placement.request.group, placement.agent] += 1

    def remove(self, workload: str, placement: PlacementDecision | None) -> None:
        if placement is not None:
            self._slots.subtract(self._current.reserved_by(workload))
            self._instances[placement.request.group, placement.agent] -= 1

    def reserved(self, device: str) -> int:
        return self._current.reserved(device) + self._slots[device]

    def instances(self, group: str, agent: str) -> int:
        return self._current.instances(group, agent) + self._instances[group, agent]


def choose_agent(
    supply: DeviceSupply,
    request: PlacementRequest,
    reserved: Callable[[str], int],
    instances: Callable[[str, str], int] = lambda group, agent: 0,
) -> PlacementDecision:
    """The agent with the most free devices left; equal ones are ordered by name.

    For a workload that is spread, the number of its instances on the agent comes first.
    """
    found = supply.candidates(with_devices=bool(request.resources))
    candidates = [agent for agent, tags in found.items() if request.accepts(tags)]
    if not candidates:
        return PlacementDecision(request, "", _no_candidate(request))
    fits = {agent: fit for agent in candidates if (fit := _fit(supply, agent, request, reserved)) is not None}
    if not fits:
        return PlacementDecision(request, "", f"no agent has enough free devices for {request}")
    present = {agent: instances(request.group, agent) if request.spread else 0 for agent in fits}
    best = min(fits, key=lambda agent: (present[agent], -fits[agent][0], agent))
    if request.spread:
        reason = f"agent '{best}' has the fewest instances of '{request.group}'"
    elif request.resources:
        reason = f"agent '{best}' has the most free devices for {request}"
    else:
        reason = f"agent '{best}' is the first by name"
    return PlacementDecision(request, best, reason, fits[best][1])


def has_free_devices(
    supply: DeviceSupply, agent: str, request: PlacementRequest, reserved: Callable[[str], int]
) -> bool:
    """Whether the agent can give a new workload all devices that it requests."""
    return _fit(supply, agent, request, reserved) is not None


def lacking(supply: DeviceSupply, agent: str, request: PlacementRequest) -> list[ResourceRequest]:
    """The resources that the agent could not provide even if none of its devices was in use."""
    missing = []
    for it in request.resources:
        devices = supply.all_devices(agent, it.resource, it.where)
        if _take(devices.slots, it.quantity, devices.distinct) is None:
            missing.append(it)
    return missing


def _no_candidate(request: PlacementRequest) -> str:
    tags = ", ".join(f"{key}={value}" for key, value in request.tags)
    if request.resources:
        return f"{NO_AGENT}{f' and has the tags {tags}' if tags else ''}"
    return f"no connected agent has the tags {tags}" if tags else NO_AGENT_AT_ALL


def _fit(
    supply: DeviceSupply, agent: str, request: PlacementRequest, reserved: Callable[[str], int]
) -> tuple[int, dict[str, int]] | None:
    """How many slots would be left, and which devices would be used; None if there are not enough."""
    used: Counter[str] = Counter()
    left_over: dict[str, int] = {}
    free = [(it.quantity, supply.free_devices(agent, it.resource, it.where)) for it in request.resources]
    # A named device leaves no choice, so it goes first, then those with a selector.
    for quantity, devices in sorted(free, key=lambda pair: (pair[1].distinct, len(pair[1].slots))):
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
