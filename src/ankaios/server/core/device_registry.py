"""The devices of the cluster: what each node reports about them, their slots, and their entries in the state.

Input: what nodes see and claim, and the configurations. Output: the entries of devices in the state. Owns the ledger:
it decides about shared devices, and mirrors the reports of the agents for local ones.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress

from msgspec import Struct, field

from ankaios.common.errors import Rejected
from ankaios.common.model.state import DEVICE_CONFIGURATION
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.configuration import LARGEST_CAPACITY
from ankaios.devices.core.device_messages import change_from_pb, claims_from_pb
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotConflict, SlotLedger


class _Device(Struct):
    """`views` are the reports of the nodes; `public` is the entry in the state."""

    shared: bool
    configuration: str
    views: dict[str, base.DeviceInstance] = field(default_factory=dict)
    public: base.DeviceInstance | None = None


class DeviceRegistry:
    """`is_connected` returns whether a node is connected; what others see may be outdated."""

    def __init__(self, is_connected: Callable[[str], bool]) -> None:
        self.ledger = SlotLedger()
        self.configurations: dict[str, base.DeviceConfiguration] = {}
        self._is_connected = is_connected
        self._devices: dict[str, _Device] = {}
        self._seen: dict[str, set[str]] = {}  # the devices of each node

    # --- devices ---

    def see(self, node: str, name: str, message: base.DeviceInstance) -> dict[Slot, Claim]:
        """Take over the report of a node. Returns the claims in it, if the device is shared."""
        configuration = message.configurationName
        if configuration not in self.configurations:
            raise Rejected(f"there is no device configuration '{configuration}'")
        if name.rpartition("-")[0] != configuration or list(message.nodes) != [node]:
            raise Rejected(f"'{name}' is no device of '{configuration}' on that node")
        if message.capacity > LARGEST_CAPACITY:
            raise Rejected(f"'{name}' cannot have {message.capacity} slots")
        claims = claims_from_pb(name, message)
        device = self._devices.get(name) or _Device(message.shared, configuration)
        if device.shared != message.shared or (not device.shared and device.views.keys() - {node}):
            raise Rejected(f"'{name}' is already a device of another node")
        self._devices[name] = device
        device.views[node] = message
        self._seen.setdefault(node, set()).add(name)
        self._reopen(name)
        if not device.shared:
            self._mirror(name, {slot: claim for slot, claim in claims.items() if claim.node == node})
        return claims if device.shared else {}

    def check_lost(self, node: str, name: str, message: base.DeviceInstance) -> None:
        """Check the report of a device that is gone; Rejected if it cannot be shown."""
        if name.rpartition("-")[0] != message.configurationName or list(message.nodes) != [node]:
            raise Rejected(f"'{name}' is no device of '{message.configurationName}' on that node")
        if message.capacity > LARGEST_CAPACITY or not claims_from_pb(name, message):
            raise Rejected(f"no workload holds the lost device '{name}'")

    def unsee(self, node: str, name: str) -> bool:
        """The node does not see the device any more. Returns whether another node does; else it is removed."""
        del self._devices[name].views[node]
        self._seen[node].discard(name)
        if not self._devices[name].views:
            self.drop(name)
        return name in self._devices

    def drop(self, name: str) -> None:
        """Claims on a shared device stay in the ledger."""
        device = self._devices.pop(name)
        for node in device.views:
            self._seen[node].discard(name)
        if not device.shared:
            self._mirror(name, {})
        self.ledger.close(name)

    def _reopen(self, name: str) -> None:
        """The capacity of a shared device is that of the configuration; reports of nodes may be outdated."""
        device = self._devices[name]
        online = any(view.attributes.online and self._is_connected(node) for node, view in device.views.items())
        capacity = DEVICE_CONFIGURATION.value_of(self.configurations[device.configuration], "capacity")
        if not device.shared:
            capacity = next(iter(device.views.values())).capacity
        self.ledger.open(name, device.configuration, capacity, online)

    # --- claims that agents report ---

    def _mirror(self, name: str, reported: Mapping[Slot, Claim]) -> None:
        held = self.ledger.claims(name)
        self.ledger.release({slot: claim for slot, claim in held.items() if reported.get(slot) != claim})
        for slot, claim in reported.items():
            self.restore(slot, claim)

    def restore(self, slot: Slot, claim: Claim) -> None:
        """If the slot is claimed by another node by now, the agent receives that with the next update of the slots."""
        with suppress(SlotConflict):
            self.ledger.restore({slot: claim})

    def hold_unseen(self, node: str, changes: Iterable[grpc.SlotChange]) -> dict[Slot, Claim]:
        """Claims on devices that the node does not see now. If no node sees one, only the claims are recorded."""
        held: dict[Slot, Claim] = {}
        for message in changes:
            with suppress(Rejected):
                change = change_from_pb(message)
                name = change.slot.instance
                if change.claim.node == node and change.takes and self.is_shared(name):
                    held[change.slot] = change.claim
                    if name not in self._devices:
                        self.ledger.open(name, name.rpartition("-")[0], 0, online=False)
                        self.restore(change.slot, change.claim)
                        self.ledger.close(name)
        return held

    def forget_claims(self, node: str, kept: Mapping[Slot, Claim]) -> set[str]:
        """End the claims of a node on shared devices except those kept; returns the devices concerned."""
        claims = self.ledger.claims_on(node).items()
        ended = {slot: it for slot, it in claims if kept.get(slot) != it and self.is_shared(slot.instance)}
        self.ledger.release(ended)
        return {slot.instance for slot in ended}

    # --- the state ---

    def refresh(self, name: str) -> tuple[base.DeviceInstance | None, base.DeviceInstance] | None:
        """Compute the entry of a device in the state: before and now, or None if it is unchanged."""
        if name not in self._devices:
            return None
        self._reopen(name)
        device = self._devices[name]
        before, device.public = device.public, self._public(name)
        return None if before == device.public else (before, device.public)

    def _public(self, name: str) -> base.DeviceInstance:
        """The report of the first node by name, with the slots of the ledger."""
        views = self._devices[name].views
        public = base.DeviceInstance()
        public.CopyFrom(views[min(views)])
        del public.nodes[:]
        public.nodes.extend(sorted(views))
        public.capacity = self.ledger.capacity(name)
        public.attributes.online = self.ledger.is_online(name)
        del public.onlineNodes[:]
        public.onlineNodes.extend(node for node in sorted(views) if self.is_online_at(name, node))
        public.deviceUsage.values.clear()
        public.deviceUsage.values.update(self.ledger.usage(name))
        public.slotOwners.values.clear()
        public.slotOwners.values.update(self.ledger.owners(name))
        return public

    def __contains__(self, name: str) -> bool:
        return name in self._devices

    def is_shared(self, name: str) -> bool:
        """A device that no node sees has claims only if it is shared."""
        return name not in self._devices or self._devices[name].shared

    def configuration_of(self, name: str) -> str:
        return self._devices[name].configuration

    def viewers(self, name: str) -> list[str]:
        return sorted(self._devices[name].views)

    def is_online_at(self, name: str, node: str) -> bool:
        """Whether this node sees the device now; another one may see it though this one does not."""
        view = self._devices[name].views.get(node)
        return view is not None and view.attributes.online and self._is_connected(node)

    def seen_by(self, node: str) -> AbstractSet[str]:
        return self._seen.get(node, frozenset())

    def public(self, name: str) -> base.DeviceInstance | None:
        return self._devices[name].public if name in self._devices else None

    def instances_of(self, configuration: str) -> dict[str, base.DeviceInstance]:
        return {name: it for name in self.ledger.instances(configuration) if (it := self.public(name)) is not None}
