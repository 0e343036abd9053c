"""A scenario: the options of a cluster, and the actions of operators and faults with their times. Plain data.

Input: a seed and the wanted size. Output: a scenario; the same seed gives the same scenario. Because it is plain data,
a failing scenario can be shortened, printed, and kept as a test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from random import Random

import msgspec
from msgspec import Struct


class UserAction(StrEnum):
    """Actions of operators and workloads. An undo is a change and its rollback."""

    APPLY = "apply"
    DELETE = "delete"
    UNDO = "apply and roll back"
    SUBSCRIBE = "subscribe"
    REQUEST = "workload request"


class Fault(StrEnum):
    """The duration of a fault is `seconds` of the action. Seeds depend on the order of the faults."""

    KILL_AGENT = "kill agent"
    KILL_SERVER = "kill server"
    POWER_NODE = "cut power of node"
    POWER_SERVER = "cut power of server"
    CUT = "cut connections"
    PARTITION = "partition"
    HALF_OPEN = "half-open connections"
    DELAYED = "delayed messages"
    SLOW_NETWORK = "slow network"
    FULL_DISK = "full disk"
    RUNTIME_SLOW = "slow runtime"
    RUNTIME_FAILS = "failing runtime"
    RUNTIME_HANGS = "hanging runtime"
    WRONG_STATES = "wrong states"
    CONTAINER_DIES = "container dies"
    CONTAINER_REMOVED = "container removed"
    CLOCK_JUMP = "clock jump"
    KILL_ETCD = "kill etcd member"
    UNPLUG = "unplug device"


MEMBER_HOSTS = ("etcd0", "etcd1", "etcd2")
# Stands for all members of etcd in faults of the network.
ALL_MEMBERS = "etcd"


def server_hosts(number: int) -> tuple[str, ...]:
    return tuple(f"server{index}" for index in range(number))


class Action(Struct, frozen=True, omit_defaults=True):
    """`kind` is a `UserAction` or a `Fault`. `target` is a workload, node, server or device.

    `other` is the second host of a fault of the network, a version, or a configuration item.

    A second host `etcd` stands for all members of etcd.
    """

    time: float
    kind: str
    target: str = ""
    other: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        parts = (self.target, self.other, f"{self.seconds:g} s" if self.seconds else "")
        return f"{self.time:10.3f}  {self.kind:<20} {' '.join(filter(None, parts))}"


class Scenario(Struct, frozen=True, omit_defaults=True):
    """`hours` is the virtual time in which the actions happen; after it, all faults end."""

    seed: int
    hours: float
    nodes: tuple[str, ...]
    servers: int = 1
    storage: str = "memory"
    actions: tuple[Action, ...] = ()

    def __str__(self) -> str:
        head = f"seed {self.seed}: {len(self.nodes)} nodes, {self.servers} servers, storage {self.storage}"
        return "\n".join([head, *map(str, self.actions)])

    @property
    def is_long(self) -> bool:
        """Long scenarios have fewer actions in an hour, and less background traffic."""
        return self.hours >= _LONG_HOURS

    def with_actions(self, actions: Sequence[Action]) -> Scenario:
        return msgspec.structs.replace(self, actions=tuple(actions))

    def faults(self) -> Counter[str]:
        return Counter(action.kind for action in self.actions if action.kind in tuple(Fault))


LOCAL, SHARED = "cam", "lens"
DEVICE_CONFIGURATIONS = {
    LOCAL: {"discoveryHandler": {"name": "udev"}, "capacity": 1, "offlineGraceSeconds": 5, "onDeviceLost": "restart"},
    SHARED: {"discoveryHandler": {"name": "onvif"}, "capacity": 1, "offlineGraceSeconds": 5},
}
"""A device configuration whose devices belong to one node each, and one whose only device all nodes see."""


# The workload with a control interface, and the configuration items that it may and may not write.
MANAGER, ALLOWED_CONFIG, OTHER_CONFIG = "w0", "allowed", "other"
# The workload that subscribes for events through its control interface.
WATCHER = "w2"


class Workloads:
    """The workloads of a simulation; nodes, dependencies and devices follow from their numbers."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = nodes
        self.names = tuple(f"w{number}" for number in range(2 * len(nodes)))

    def node_of(self, name: str) -> str:
        return self._nodes[int(name[1:]) % len(self._nodes)]

    def dependency_of(self, name: str) -> str | None:
        """Every third workload depends on the one before it."""
        number = int(name[1:])
        return f"w{number - 1}" if number % 3 == 2 else None

    def device_of(self, name: str) -> str | None:
        """The workloads of the second node compete for its local device, two others for the shared device."""
        number, count = int(name[1:]), len(self._nodes)
        if number % count == 1:
            return LOCAL
        return SHARED if number in (3, count + 2) else None

    def dependent_of(self, name: str) -> str | None:
        later = f"w{int(name[1:]) + 1}"
        return later if later in self.names and self.dependency_of(later) == name else None

    def may_write(self, name: str, version: str, config: str) -> bool:
        """The first workload may write one of two configuration items, in every second version."""
        return name == MANAGER and config == ALLOWED_CONFIG and has_write_access(version)

    def form(self, name: str, version: str) -> dict[str, object]:
        dependency, device = self.dependency_of(name), self.device_of(name)
        return {
            "agent": self.node_of(name),
            "runtime": "simulated",
            "runtimeConfig": version,
            "restartPolicy": "ALWAYS",
            **({"dependencies": {dependency: "ADD_COND_RUNNING"}} if dependency else {}),
            **({"resources": [{"name": device, "quantity": 1}]} if device else {}),
            **({"controlInterfaceAccess": _access(version)} if name == MANAGER else {}),
            **({"controlInterfaceAccess": _READ_ACCESS} if name == WATCHER else {}),
        }


_READ_ACCESS = {
    "allowRules": [{"type": "StateRule", "operation": "Read", "filterMasks": ["desiredState", "workloadStates"]}]
}


def has_write_access(version: str) -> bool:
    return int(version[1:]) % 2 == 0


def _access(version: str) -> dict[str, object]:
    mask = f"desiredState.configs.{ALLOWED_CONFIG}"
    operation = "ReadWrite" if has_write_access(version) else "Read"
    return {"allowRules": [{"type": "StateRule", "operation": operation, "filterMasks": [mask]}]}


# How often each store is drawn. An hour with etcd takes several times as long, so most scenarios with it are short.
_SHORT_STORES = ("memory", "memory", "sqlite", "sqlite", "sqlite", "sqlite", "sqlite", "etcd")
_LONG_STORES = (*("memory",) * 8, *("sqlite",) * 23, "etcd")


def draw_scenario(seed: int, *, nodes: int, hours: float, storage: str | None = None) -> Scenario:
    """Draw the actions of a scenario and the number of servers, and the storage unless it is given."""
    random = Random(seed)
    storage = storage or random.choice(_LONG_STORES if hours >= _LONG_HOURS else _SHORT_STORES)
    drawn = random.choice((1, 2, 3, 3))
    servers = drawn if storage == "etcd" else 1
    names = tuple(f"node{number + 1}" for number in range(nodes))
    scenario = Scenario(seed, hours, names, servers, storage)
    return scenario.with_actions(sorted(_actions(random, scenario), key=lambda action: action.time))


# Seconds between two actions of operators, and between two faults, in short and in long scenarios.
_SHORT_PACE, _LONG_PACE = (15, 30), (60, 90)
_LONG_HOURS = 0.5
_ALL_MEMBERS_RATE, _FAULTS_DURING_OPERATIONS = 0.4, 0.3


def _actions(random: Random, scenario: Scenario) -> list[Action]:
    seconds = scenario.hours * 3600
    workloads = Workloads(scenario.nodes)
    operation_pace, fault_pace = _LONG_PACE if scenario.is_long else _SHORT_PACE
    actions = [Action(random.uniform(1, 20), UserAction.APPLY, name, "v0") for name in workloads.names]
    for number in range(max(4, int(seconds / operation_pace))):
        time = random.uniform(20, seconds)
        actions.append(_operation(random, time, f"v{number + 1}", random.choice(workloads.names)))
    possible = _possible_faults(scenario)
    kinds = random.sample(possible, random.randint(2, min(6, len(possible))))
    faults = [
        _fault(random, random.choice(kinds), _fault_time(random, seconds, actions), scenario, workloads)
        for _ in range(max(3, int(seconds / fault_pace)))
    ]
    return [*actions, *faults]


def _fault_time(random: Random, seconds: float, operations: Sequence[Action]) -> float:
    """Some faults happen while an operation is performed."""
    if random.random() < _FAULTS_DURING_OPERATIONS:
        return random.choice(operations).time + random.uniform(0, 1)
    return random.uniform(5, seconds)


def _operation(random: Random, time: float, version: str, name: str) -> Action:
    (kind,) = random.choices(tuple(UserAction), (10, 5, 2, 1, 2))
    match kind:
        case UserAction.SUBSCRIBE:
            return Action(time, kind, seconds=round(random.uniform(5, 60), 3))
        case UserAction.REQUEST:
            return Action(time, kind, MANAGER, random.choice((ALLOWED_CONFIG, OTHER_CONFIG)))
        case UserAction.DELETE:
            return Action(time, kind, name)
        case _:
            return Action(time, kind, name, version)


def _possible_faults(scenario: Scenario) -> list[Fault]:
    """Without a store, a server that restarts begins with an empty state, as documented."""
    impossible = set() if scenario.storage == "etcd" else {Fault.KILL_ETCD}
    if scenario.storage == "memory":
        impossible |= {Fault.KILL_SERVER, Fault.POWER_SERVER}
    return [fault for fault in Fault if fault not in impossible]


def _fault(random: Random, kind: Fault, time: float, scenario: Scenario, workloads: Workloads) -> Action:
    servers = server_hosts(scenario.servers)
    members = MEMBER_HOSTS if scenario.storage == "etcd" else ()
    seconds = round(random.choice((random.uniform(0.1, 3), random.uniform(3, 60))), 3)
    match kind:
        case Fault.KILL_SERVER | Fault.POWER_SERVER:
            return Action(time, kind, random.choice(servers), seconds=seconds)
        case Fault.CUT | Fault.PARTITION | Fault.HALF_OPEN | Fault.DELAYED:
            return Action(time, kind, *_two_hosts(random, scenario.nodes, servers, members), seconds)
        case Fault.FULL_DISK:
            return Action(time, kind, random.choice((*scenario.nodes, *servers)), seconds=seconds)
        case Fault.CONTAINER_DIES | Fault.CONTAINER_REMOVED:
            return Action(time, kind, random.choice(workloads.names))
        case Fault.KILL_ETCD:
            return Action(time, kind, random.choice(members), seconds=seconds)
        case Fault.CLOCK_JUMP:
            return Action(time, kind, seconds=round(random.uniform(-7200, 7200), 1))
        case Fault.SLOW_NETWORK:
            return Action(time, kind, seconds=seconds)
        case _:
            return Action(time, kind, random.choice(scenario.nodes), seconds=seconds)


def _two_hosts(random: Random, nodes: Sequence[str], servers: Sequence[str], members: Sequence[str]) -> tuple[str, str]:
    """A server and a host that it is connected to. A server that reaches no member of etcd stops leading."""
    one = random.choice(servers)
    if members and random.random() < _ALL_MEMBERS_RATE:
        return one, ALL_MEMBERS
    return one, random.choice([host for host in (*nodes, *servers, *members) if host != one])
