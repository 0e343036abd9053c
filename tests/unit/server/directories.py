"""Device directories for tests, and their changes in short form."""

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.device_messages import slot_request
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from ankaios.server.core.device_directory import DeviceDirectory, DirectoryChanges

CAM = "cam-8120fe"


def a_configuration(**fields: object) -> base.DeviceConfiguration:
    return base.DeviceConfiguration(discoveryHandler=base.DiscoveryHandler(name="fake"), **fields)  # type: ignore[arg-type]


def an_instance_message(
    node: str,
    usage: dict[str, str] | None = None,
    shared: bool = True,
    capacity: int = 1,
    online: bool = True,
    properties: dict[str, str] | None = None,
) -> base.DeviceInstance:
    owners = {slot: f"w.{node}" for slot, text in (usage or {}).items() if text}
    return base.DeviceInstance(
        configurationName="cam",
        cdiName="akri.sh/cam=8120fe",
        capacity=capacity,
        shared=shared,
        nodes=[node],
        deviceUsage=base.StringMap(values=usage or {}),
        slotOwners=base.StringMap(values=owners),
        brokerProperties=base.StringMap(values=properties or {}),
        attributes=base.DeviceAttributes(id="foo0", online=online),
    )


def a_report(complete: bool = True, **seen: base.DeviceInstance) -> grpc.DeviceReport:
    return grpc.DeviceReport(complete=complete, seen={name.replace("_", "-"): it for name, it in seen.items()})


def a_directory(*agents: str, capacity: int = 1, settled: bool = True) -> DeviceDirectory:
    """Every agent sees one shared camera."""
    directory = DeviceDirectory(settled)
    directory.configure({"cam": a_configuration(capacity=capacity)})
    for agent in agents:
        directory.hello(agent, {}, offers_devices=True)
        directory.report(agent, a_report(cam_8120fe=an_instance_message(agent)))
    return directory


def claim_of(node: str, index: int = 0, owner: str | None = None, virtual_id: str | None = "0") -> SlotChange:
    return SlotChange(Slot(CAM, index), Claim(node, virtual_id, f"w.{node}" if owner is None else owner))


def request(directory: DeviceDirectory, agent: str, *changes: SlotChange) -> bool:
    return answers(directory.slot_request(agent, slot_request("1", changes)), agent)[0].granted


def answers(changes: DirectoryChanges, agent: str) -> list[grpc.SlotResponse]:
    return [it.slotResponse for it in messages(changes, agent) if it.HasField("slotResponse")]


def messages(changes: DirectoryChanges, agent: str) -> list[grpc.FromServer]:
    return [it.message for it in changes.messages if it.agent == agent]


def updates(changes: DirectoryChanges, agent: str) -> list[grpc.DeviceUpdate]:
    return [it.deviceUpdate for it in messages(changes, agent) if it.HasField("deviceUpdate")]


def instances(directory: DeviceDirectory) -> dict[str, base.DeviceInstance]:
    return {name: it for name in directory._registry._devices if (it := directory._registry.public(name)) is not None}


def usage(directory: DeviceDirectory) -> dict[str, str]:
    return {slot: text for it in instances(directory).values() for slot, text in sorted(it.deviceUsage.values.items())}
