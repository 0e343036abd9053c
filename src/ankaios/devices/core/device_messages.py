"""Converts devices and slots to and from the messages between agents and the server.

Input that is not valid raises `Rejected`.
"""

from collections.abc import Iterable, Mapping

from ankaios.common.errors import Rejected
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.grants import broker_properties
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.slot_ledger import FREE, Claim, Slot, SlotChange, parse_usage


def instance_to_pb(instance: Instance, node: str, configured: Mapping[str, str], online: bool) -> base.DeviceInstance:
    """The report of a node about a device it sees; the owner of the slots adds them with the capacity."""
    device = instance.device
    return base.DeviceInstance(
        configurationName=instance.configuration,
        cdiName=instance.cdi_name,
        shared=instance.shared,
        nodes=[node],
        brokerProperties=base.StringMap(values=broker_properties(instance, configured)),
        attributes=base.DeviceAttributes(
            id=device.id,
            mounts=[
                base.DeviceMount(containerPath=it.container_path, hostPath=it.host_path, readOnly=it.read_only)
                for it in device.mounts
            ],
            deviceSpecs=[
                base.DeviceNode(containerPath=it.container_path, hostPath=it.host_path, permissions=it.permissions)
                for it in device.device_specs
            ],
            online=online,
        ),
    )


def claims_from_pb(name: str, message: base.DeviceInstance) -> dict[Slot, Claim]:
    """The slots in use; slots of other instances are rejected."""
    claims: dict[Slot, Claim] = {}
    for text, usage in message.deviceUsage.values.items():
        slot = Slot.parse(text)
        if slot.instance != name:
            raise Rejected(f"cannot use the device usage of '{name}': '{text}' is not one of its slots")
        if claim := parse_usage(usage, message.slotOwners.values.get(text, "")):
            claims[slot] = claim
    return claims


def change_to_pb(change: SlotChange) -> grpc.SlotChange:
    usage = change.claim.usage
    return grpc.SlotChange(
        instance=change.slot.instance,
        slot=str(change.slot),
        before=FREE if change.takes else usage,
        after=usage if change.takes else FREE,
        owner=change.claim.owner,
    )


def change_from_pb(message: grpc.SlotChange) -> SlotChange:
    """A slot is claimed or released; it cannot change from one claim to another in one step."""
    slot = Slot.parse(message.slot)
    before, after = parse_usage(message.before, message.owner), parse_usage(message.after, message.owner)
    claim = after or before
    if slot.instance != message.instance or claim is None or (before is not None and after is not None):
        raise Rejected(
            f"cannot change slot '{message.slot}' from '{message.before}' to '{message.after}': this needs two steps"
        )
    return SlotChange(slot, claim, takes=after is not None)


def slot_request(request_id: str, changes: Iterable[SlotChange]) -> grpc.SlotRequest:
    return grpc.SlotRequest(requestId=request_id, changes=map(change_to_pb, changes))
