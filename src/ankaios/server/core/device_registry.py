"""Which devices the cluster has: what each node says of them, who uses their slots, and what the state says.

In come what nodes see and hold, and the configurations. Out goes what stands in the state of a device. Owned: the
ledger. For shared devices it is the truth; for local ones the seeing agent is the owner, and its reports are mirrored.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from msgspec import Struct, field

from ankaios.common.errors import Rejected
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.configuration import LARGEST_CAPACITY
from ankaios.devices.core.device_messages import change_from_pb, claims_from_pb
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict, SlotLedger


class _Device(Struct):
    """`views` is what each node says of it; `public` is what the state says."""

    shared: bool
    configuration: str
    views: dict[str, base.DeviceInstance] = field(default_factory=dict)
    public: base.DeviceInstance | None = None


class DeviceRegistry:
    """`is_connected` says of a node whether what it sees is still seen."""

    def __init__(self, is_connected: Callable[[str], bool]) -> None:
        self.ledger = SlotLedger()
        self.configurations: dict[str, base.DeviceConfiguration] = {}
        self._is_connected = is_connected
        self._devices: dict[str, _Device] = {}

    # --- seen and lost ---

    def see(self, node: str, name: str, message: base.DeviceInstance) -> dict[Slot, Claim]:
        """Returns what the node knows of the slots of a shared device."""
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
        self._reopen(name)
        if not device.shared:
            self._mirror(name, {slot: claim for slot, claim in claims.items() if claim.node == node})
        return claims if device.shared else {}

    def unsee(self, node: str, name: str) -> bool:
        """Whether anybody still sees it; if not, it is gone."""
        device = self._devices[name]
        device.views.pop(node, None)
        if not device.views:
            self.drop(name)
        return name in self._devices

    def drop(self, name: str) -> None:
        """Slots of a shared device that are in use stay on record in the ledger."""
        if not self._devices.pop(name).shared:
            self._mirror(name, {})
        self.ledger.close(name)

    def _reopen(self, name: str) -> None:
        """Capacity of a shared device is what the configuration says, whatever a node still believes."""
        device = self._devices[name]
        online = any(view.attributes.online and self._is_connected(node) for node, view in device.views.items())
        configuration = self.configurations[device.configuration]
        capacity = configuration.capacity if configuration.HasField("capacity") else 1
        if not device.shared:
            capacity = next(iter(device.views.values())).capacity
        self.ledger.open(name, device.configuration, capacity, online)

    # --- claims that agents report ---

    def _mirror(self, name: str, truth: Mapping[Slot, Claim]) -> None:
        held = self.ledger.claims(name)
        ended = [SlotChange(slot, claim, takes=False) for slot, claim in held.items() if truth.get(slot) != claim]
        self.ledger.apply(ended)
        for slot, claim in truth.items():
            self.restore(slot, claim)

    def restore(self, slot: Slot, claim: Claim) -> None:
        """If somebody else has it by now, the agent learns so with the truth that it is told next."""
        with suppress(SlotConflict):
            self.ledger.apply([SlotChange(slot, claim)], restore=True)

    def hold_unseen(self, node: str, changes: Iterable[grpc.SlotChange]) -> dict[Slot, Claim]:
        """Slots in use of devices that the node does not see now. If nobody does, the claims alone are recorded."""
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
        """End the claims of a node on shared devices but those kept; tells which devices that concerns."""
        ended = [
            SlotChange(slot, claim, takes=False)
            for slot, claim in self.ledger.claims_on(node).items()
            if kept.get(slot) != claim and self.is_shared(slot.instance)
        ]
        self.ledger.apply(ended)
        return {change.slot.instance for change in ended}

    # --- what the state says ---

    def refresh(self, name: str) -> tuple[base.DeviceInstance | None, base.DeviceInstance] | None:
        """Work out anew what the state says of a device: before and now, or None if that is the same."""
        if name not in self._devices:
            return None
        self._reopen(name)
        device = self._devices[name]
        before, device.public = device.public, self._public(name)
        return None if before == device.public else (before, device.public)

    def _public(self, name: str) -> base.DeviceInstance:
        """What the node with the smallest name says of it, and who uses it."""
        views = self._devices[name].views
        public = base.DeviceInstance()
        public.CopyFrom(views[min(views)])
        del public.nodes[:]
        public.nodes.extend(sorted(views))
        public.capacity = self.ledger.capacity(name)
        public.attributes.online = self.ledger.is_online(name)
        public.deviceUsage.values.clear()
        public.deviceUsage.values.update(self.ledger.usage(name))
        public.slotOwners.values.clear()
        public.slotOwners.values.update(self.ledger.owners(name))
        return public

    def __contains__(self, name: str) -> bool:
        return name in self._devices

    def is_shared(self, name: str) -> bool:
        """Only shared devices have claims on record that nobody sees."""
        return name not in self._devices or self._devices[name].shared

    def configuration_of(self, name: str) -> str:
        return self._devices[name].configuration

    def viewers(self, name: str) -> list[str]:
        return sorted(self._devices[name].views)

    def public(self, name: str) -> base.DeviceInstance | None:
        return self._devices[name].public if name in self._devices else None

    def instances_of(self, configuration: str) -> dict[str, base.DeviceInstance]:
        return {name: it for name in self.ledger.instances(configuration) if (it := self.public(name)) is not None}

    def instances(self) -> dict[str, base.DeviceInstance]:
        return {name: device.public for name, device in self._devices.items() if device.public is not None}
