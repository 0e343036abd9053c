import pytest

from ankaios.common.device_grant import DeviceMount, DeviceNode
from ankaios.common.errors import Rejected
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.device_messages import (
    change_from_pb,
    change_to_pb,
    claims_from_pb,
    instance_to_pb,
    slot_request,
)
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange

TAKE = SlotChange(Slot("cam-1", 0), Claim("a", "4", "web"))


@pytest.mark.parametrize("change", [TAKE, TAKE.reversed(), SlotChange(Slot("cam-1", 2), Claim("a"))])
def test_a_change_is_received_as_it_was_sent(change: SlotChange) -> None:
    assert change_from_pb(change_to_pb(change)) == change


def test_a_change_on_the_wire_has_the_texts_of_device_usage() -> None:
    """[utest->akri~device-usage-format~1]"""
    assert change_to_pb(TAKE) == grpc.SlotChange(instance="cam-1", slot="cam-1-0", after="C:4:a", owner="web")
    assert change_to_pb(TAKE.reversed()).before == "C:4:a"
    assert len(slot_request("7", [TAKE, TAKE]).changes) == 2


@pytest.mark.parametrize(
    "message",
    [
        grpc.SlotChange(instance="cam-1", slot="cam-1-0"),
        grpc.SlotChange(instance="cam-1", slot="cam-1-0", before="a", after="b"),
        grpc.SlotChange(instance="other", slot="cam-1-0", after="a"),
        grpc.SlotChange(instance="cam-1", slot="cam-1", after="C:x"),
    ],
)
def test_an_invalid_change_is_rejected(message: grpc.SlotChange) -> None:
    with pytest.raises(Rejected):
        change_from_pb(message)


def test_claims_are_read_with_their_owners() -> None:
    message = base.DeviceInstance(
        deviceUsage=base.StringMap(values={"cam-1-0": "", "cam-1-1": "a", "cam-1-2": "C:0:b"}),
        slotOwners=base.StringMap(values={"cam-1-2": "web"}),
    )
    assert claims_from_pb("cam-1", message) == {
        Slot("cam-1", 1): Claim("a"),
        Slot("cam-1", 2): Claim("b", "0", "web"),
    }
    with pytest.raises(Rejected, match="not one of its slots"):
        claims_from_pb("cam-2", message)


def test_a_device_is_reported_with_all_parts_that_its_handler_sent() -> None:
    device = DiscoveredDevice("foo0", {"A": "1"}, (DeviceMount("/c", "/h", True),), (DeviceNode("/d", "/e", "r"),))
    message = instance_to_pb(Instance.of("cam", device, True, "a"), "a", {"B": "2"}, online=False)
    assert message == base.DeviceInstance(
        configurationName="cam",
        cdiName="akri.sh/cam=8120fe",
        shared=True,
        nodes=["a"],
        brokerProperties=base.StringMap(values={"A": "1", "B": "2"}),
        attributes=base.DeviceAttributes(
            id="foo0",
            mounts=[base.DeviceMount(containerPath="/c", hostPath="/h", readOnly=True)],
            deviceSpecs=[base.DeviceNode(containerPath="/d", hostPath="/e", permissions="r")],
            online=False,
        ),
    )
