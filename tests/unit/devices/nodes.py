"""Parts of the device manager of one node, without sockets."""

from collections.abc import Callable
from pathlib import Path

from ankaios.devices.claim_store import ClaimStore
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.node_devices import DeviceChanges, NodeDevices
from ankaios.devices.foreign_devices import ForeignDevices
from ankaios.devices.pod_claims import PodClaims
from ankaios.devices.slot_allocator import SlotAllocator
from ankaios.devices.workload_claims import WorkloadClaims

LOCAL, SHARED = "cam-fbcb99", "cam-8120fe"


def a_node(capacity: int = 1, grace: float = 0, shared: bool = False) -> NodeDevices:
    """Node `node-a` sees one camera `foo0`."""
    node = NodeDevices("node-a")
    node.session_began()
    node.configure({"cam": Configuration("cam", "fake", capacity=capacity, offline_grace=grace)})
    node.observe("cam", "s", [DiscoveredDevice("foo0")], shared, 0)
    return node


def an_allocator(node: NodeDevices, changed: Callable[[DeviceChanges], None] = lambda changes: None) -> SlotAllocator:
    """Without a server."""
    return SlotAllocator(node, lambda message: None, changed)


def claims_of(node: NodeDevices, folder: Path, allocator: SlotAllocator | None = None) -> WorkloadClaims:
    foreign = ForeignDevices(folder / "plugins", lambda resource, registered: None)
    return WorkloadClaims(node, allocator or an_allocator(node), foreign, ClaimStore(folder))


class UnwrittenPodClaims(PodClaims):
    """Pod claims for tests that do not restart anything."""

    def __init__(self, node: NodeDevices) -> None:
        super().__init__(node, Path("/nowhere"))

    async def save(self) -> None:
        pass
