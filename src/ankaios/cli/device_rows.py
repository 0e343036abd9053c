"""Rows about devices and resources from a complete state. Pure: protobuf messages come in, plain tuples go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ankaios.common.pb import ank_base_pb2 as base

DEVICES_HEADER = ("DEVICE", "CONFIGURATION", "AGENTS", "USED", "FREE", "USED BY")
RESOURCES_HEADER = ("AGENT", "RESOURCE", "CAPACITY", "ALLOCATABLE", "ALLOCATED")
SLOTS_HEADER = ("SLOT", "AGENT", "USED BY")


class Slot:
    """A share of a device. `agent` and `owner` are empty while nobody uses it."""

    __slots__ = ("agent", "name", "owner")

    def __init__(self, name: str, agent: str, owner: str) -> None:
        self.name = name
        self.agent = agent
        self.owner = owner

    @property
    def is_used(self) -> bool:
        return bool(self.agent)

    @property
    def user(self) -> str:
        """The workload, or at least where it is."""
        return self.owner or self.agent

    def cells(self) -> tuple[str, ...]:
        return self.name, self.agent, self.owner or ("unknown" if self.is_used else "free")


def slots_of(name: str, instance: base.DeviceInstance) -> list[Slot]:
    """All slots, also those nobody has written down because they were never used.

    Usage is `<agent>` for a device asked for by its own name, `C:<id>:<agent>` for one asked for by its configuration.
    """
    usage = instance.deviceUsage.values
    owners = instance.slotOwners.values
    names = {f"{name}-{index}" for index in range(instance.capacity)} | set(usage)
    return [
        Slot(slot, usage.get(slot, "").rpartition(":")[2], owners.get(slot, "").partition(".")[0])
        for slot in sorted(names, key=_slot_order)
    ]


def _slot_order(slot: str) -> tuple[int, str]:
    index = slot.rpartition("-")[2]
    return (int(index) if index.isdigit() else 0, slot)


def device_rows(instances: base.DeviceInstanceMap) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, instance in sorted(instances.deviceInstances.items()):
        used = [slot for slot in slots_of(name, instance) if slot.is_used]
        users = ", ".join(sorted({slot.user for slot in used}))
        free = max(instance.capacity - len(used), 0)
        agents = ", ".join(sorted(instance.nodes))
        rows.append((name, instance.configurationName, agents, str(len(used)), str(free), users))
    return rows


def resource_rows(agents: base.AgentMap) -> list[tuple[str, ...]]:
    return [
        (name, resource.name, str(resource.capacity), str(resource.allocatable), str(resource.allocated))
        for name, agent in sorted(agents.agents.items())
        for resource in sorted(agent.resources.resources, key=lambda resource: resource.name)
    ]


def slots_used_by(workload: str, instances: base.DeviceInstanceMap) -> list[tuple[str, ...]]:
    """Device, configuration, slot and agent of everything the workload holds."""
    return [
        (name, instance.configurationName, slot.name, slot.agent)
        for name, instance in sorted(instances.deviceInstances.items())
        for slot in slots_of(name, instance)
        if slot.is_used and slot.owner == workload
    ]
