"""Limit: a claim among 1,000 shared devices with 5,000 slots on 100 agents costs at most twice that among 10 devices.

Agents and server are simulated without network, so only their decisions are measured: the plan of the agent, the
change in the server's ledger, the update of the agents that see the device, and the release. Each device is seen by ten
agents, each agent sees a tenth of them.
"""

import resource
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.devices.core.claim_plan import ResourceNeed, SlotPlan
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.device_messages import slot_request
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.node_devices import NodeDevices
from ankaios.devices.core.node_reports import NodeReports
from ankaios.server.core.device_directory import DeviceDirectory, DirectoryChanges

AGENTS, CAPACITY, SEEN_BY, CLAIMS, ROUNDS = 100, 5, 10, 500, 3
SETTINGS = base.DeviceConfiguration(discoveryHandler=base.DiscoveryHandler(name="fake"), capacity=CAPACITY)
FACTOR = 2.0


class SimulatedCluster:
    def __init__(self, devices: int) -> None:
        self.directory = DeviceDirectory(settled=True)
        self.directory.configure({"cam": SETTINGS})
        self.nodes = {f"node-{number}": NodeDevices(f"node-{number}") for number in range(AGENTS)}
        seen: dict[str, list[DiscoveredDevice]] = {name: [] for name in self.nodes}
        names = list(self.nodes)
        for number in range(devices):
            for step in range(SEEN_BY):
                seen[names[(number + step * (AGENTS // SEEN_BY)) % AGENTS]].append(DiscoveredDevice(f"d{number}"))
        for name, node in self.nodes.items():
            node.session_began()
            node.configure({"cam": Configuration("cam", "fake", capacity=CAPACITY)})
            node.observe("cam", "s", seen[name], True, 0)
            self.directory.hello(name, {}, True)
            self.deliver(self.directory.report(name, NodeReports(node).complete_report()))
        self.useful = [name for name, found in seen.items() if found]

    def deliver(self, changes: DirectoryChanges) -> None:
        for it in changes.messages:
            if it.message.deviceUpdate.instances:
                self.nodes[it.agent].update_shared(it.message.deviceUpdate.instances)

    def claim_and_release(self, name: str, owner: str) -> None:
        node = self.nodes[name]
        plan = node.plan([ResourceNeed(None, "akri.sh/cam", 1)], owner)
        assert isinstance(plan, SlotPlan), plan
        _, requested = node.shared.begin(plan.changes)
        self.deliver(self.directory.slot_request(name, slot_request("1", requested)))
        node.shared.finish(requested, granted=True)
        ended = node.shared.release(node.ledger.claims_of(owner))
        self.deliver(self.directory.slot_request(name, slot_request("2", ended)))


def rounds(cluster: SimulatedCluster) -> Iterator[float]:
    for number in range(CLAIMS):
        name = cluster.useful[number % len(cluster.useful)]
        began = time.perf_counter()
        cluster.claim_and_release(name, f"w{number}")
        yield time.perf_counter() - began


def cost(devices: int) -> float:
    cluster = SimulatedCluster(devices)
    return min(statistics.median(rounds(cluster)) for _ in range(ROUNDS))


def main() -> int:
    few, many = cost(10), cost(1000)
    print(f"  10 devices: {few * 1e6:7.0f} us for a claim and its release")
    print(f"1000 devices: {many * 1e6:7.0f} us, {many / few:.2f} times as much, limit: at most {FACTOR}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{AGENTS} agents, 1000 devices, {1000 * CAPACITY} slots: {memory:.0f} MB for all of them in one process")
    ok = many <= FACTOR * few
    print("kept" if ok else "BROKEN")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
