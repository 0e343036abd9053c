"""Rows of the tables of devices, slots and resources. Pure: protobuf messages in, tuples of cells out."""

from typing import NamedTuple

from ankaios.common.pb import ank_base_pb2 as base

DEVICES_HEADER = ("DEVICE", "CONFIGURATION", "AGENTS", "USED", "FREE", "USED BY")
RESOURCES_HEADER = ("AGENT", "RESOURCE", "CAPACITY", "ALLOCATABLE", "ALLOCATED")
SLOTS_HEADER = ("SLOT", "AGENT", "USED BY")


class SlotRow(NamedTuple):
    """A slot of a device. `agent` and `owner` are empty while the slot is free."""

    name: str
    agent: str
    owner: str

    @property
    def is_used(self) -> bool:
        return bool(self.agent)

    @property
    def user(self) -> str:
        """The workload, or the agent if the workload is unknown."""
        return self.owner or self.agent

    def cells(self) -> tuple[str, ...]:
        return self.name, self.agent, self.owner or ("unknown" if self.is_used else "free")


def slots_of(name: str, instance: base.DeviceInstance) -> list[SlotRow]:
    """All slots, including those that are not listed because they were never used.

    The usage is `<agent>` for a device that was requested by name, `C:<id>:<agent>` for one requested by configuration.
    """
    usage = instance.deviceUsage.values
    owners = instance.slotOwners.values
    names = {f"{name}-{index}" for index in range(instance.capacity)} | set(usage)
    return [
        SlotRow(slot, usage.get(slot, "").rpartition(":")[2], owners.get(slot, "").partition(".")[0])
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
        agents = ", ".join(agents_of(instance))
        rows.append((name, instance.configurationName, agents, str(len(used)), str(free), users))
    return rows


def agents_of(instance: base.DeviceInstance) -> list[str]:
    """The agents of the device; those that do not see it now are marked."""
    is_old = instance.attributes.online and not instance.onlineNodes  # reported by an earlier version
    if is_old or not instance.attributes.HasField("online"):
        return sorted(instance.nodes)
    word = "lost" if instance.lost else "offline"
    return [agent if agent in instance.onlineNodes else f"{agent} ({word})" for agent in sorted(instance.nodes)]


def resource_rows(agents: base.AgentMap) -> list[tuple[str, ...]]:
    return [
        (name, resource.name, str(resource.capacity), str(resource.allocatable), str(resource.allocated))
        for name, agent in sorted(agents.agents.items())
        for resource in sorted(agent.resources.resources, key=lambda resource: resource.name)
    ]


def slots_used_by(workload: str, instances: base.DeviceInstanceMap) -> list[tuple[str, ...]]:
    """Device, configuration, slot and agent of every slot that the workload uses."""
    return [
        (name, instance.configurationName, slot.name, slot.agent)
        for name, instance in sorted(instances.deviceInstances.items())
        for slot in slots_of(name, instance)
        if slot.is_used and slot.owner == workload
    ]
