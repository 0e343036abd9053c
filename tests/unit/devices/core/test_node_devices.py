import msgspec

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.devices.core.allocation import Denied
from ankaios.devices.core.claim_plan import DeviceTarget, ResourceNeed, SlotPlan
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.node_devices import NOT_CONNECTED, NOT_RECEIVED, HeldSlot, NodeDevices
from ankaios.devices.core.resource_views import Advertised, AdvertisedList, configuration_devices, instance_devices
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from tests.unit.devices.ledgers import snapshot

SHARED, LOCAL = "cam-8120fe", "cam-fbcb99"


def a_node(shared: bool = False, received: bool = True, capacity: int = 2, **more: object) -> NodeDevices:
    """Node `node-a` sees one camera `foo0`."""
    node = NodeDevices("node-a")
    node.session_began()
    node.configure({"cam": Configuration("cam", "fake", capacity=capacity, offline_grace=10, **more)})  # type: ignore[arg-type]
    node.observe("cam", "s", [DiscoveredDevice("foo0", {"URL": "x"})], shared, 0)
    if shared and received:
        node.update_shared({SHARED: base.DeviceInstance()})
    return node


def advertised(node: NodeDevices, target: str = "cam") -> AdvertisedList:
    view = configuration_devices if target in node.configurations else instance_devices
    return view(node.ledger, target, node.node)


def ids(node: NodeDevices, target: str = "cam") -> list[str]:
    return [device.id for device in advertised(node, target) if device.healthy]


def claim(node: NodeDevices, owner: str) -> tuple[list[SlotChange], list[SlotChange]]:
    plan = node.plan([ResourceNeed(None, "akri.sh/cam", 1)], owner)
    assert isinstance(plan, SlotPlan)
    return node.shared.begin(plan.changes)


def test_a_discovered_device_makes_both_kinds_of_resources() -> None:
    """[utest->akri~configuration-level-resource~1] [utest->akri~instance-level-resource~1]"""
    node = a_node()
    assert node.target("akri.sh/cam") == DeviceTarget("cam", by_configuration=True)
    assert node.target(f"akri.sh/{LOCAL}") == DeviceTarget(LOCAL, by_configuration=False)
    assert node.target("akri.sh/unknown") is None
    assert node.target("cam") is None
    assert (ids(node), ids(node, LOCAL)) == (["0"], [f"{LOCAL}-0", f"{LOCAL}-1"])


def test_a_shared_device_is_available_only_after_the_server_sent_its_slots() -> None:
    node = a_node(shared=True, received=False)
    assert ids(node) == []
    changes = node.update_shared(
        {SHARED: base.DeviceInstance(deviceUsage=base.StringMap(values={f"{SHARED}-0": "node-b"}))}
    )
    assert changes.instances == {SHARED}
    assert ids(node) == ["0"]
    assert ids(node, SHARED) == [f"{SHARED}-1"]


def test_in_a_new_session_the_server_must_send_the_slots_again() -> None:
    node = a_node(shared=True)
    before = snapshot(node.ledger)
    assert node.session_began().instances == {SHARED}
    assert (ids(node), list(node.reasons(["akri.sh/cam"]))) == ([], [NOT_RECEIVED])
    node.update_shared({SHARED: base.DeviceInstance()})
    assert (snapshot(node.ledger), list(node.reasons(["akri.sh/cam"]))) == (before, [])
    assert not a_node().session_began()


def test_local_slots_are_not_requested_from_the_server() -> None:
    new, requested = claim(a_node(), "w")
    assert ([str(change.slot) for change in new], requested) == ([f"{LOCAL}-0"], [])


def test_a_shared_slot_is_claimed_when_the_server_has_granted_it() -> None:
    node = a_node(shared=True)
    new, requested = claim(node, "w")
    assert new == requested
    assert list(node.shared.requested) == [Slot(SHARED, 0)]
    assert node.shared.finish(requested, granted=True)
    assert (list(node.shared.requested), list(node.ledger.claims_of("w"))) == ([], [Slot(SHARED, 0)])


def test_a_denied_slot_changes_nothing() -> None:
    node = a_node(shared=True)
    before = snapshot(node.ledger)
    _, requested = claim(node, "w")
    assert not node.shared.finish(requested, granted=False)
    assert snapshot(node.ledger) == before


def test_an_update_during_a_request_revokes_no_slot() -> None:
    node = a_node(shared=True)
    _, requested = claim(node, "w")
    assert node.update_shared({SHARED: base.DeviceInstance()}).revoked == {}
    node.shared.finish(requested, granted=True)
    assert node.ledger.claims_of("w") == {Slot(SHARED, 0): Claim("node-a", "0", "w")}


def test_a_claim_that_the_server_does_not_list_is_revoked() -> None:
    node = a_node(shared=True)
    _, requested = claim(node, "w")
    node.shared.finish(requested, granted=True)
    other = base.DeviceInstance(deviceUsage=base.StringMap(values={f"{SHARED}-0": "node-b"}))
    assert node.update_shared({SHARED: other}).revoked == {Slot(SHARED, 0): Claim("node-a", "0", "w")}
    assert node.ledger.usage(SHARED)[f"{SHARED}-0"] == "node-b"


def test_a_moved_virtual_id_of_another_node_is_updated_in_any_order() -> None:
    """The server sends one device after the other, so an id briefly belongs to two devices."""
    node = NodeDevices("node-a")
    node.configure({"cam": Configuration("cam", "fake", capacity=1, offline_grace=0)})
    node.observe("cam", "s", [DiscoveredDevice("foo0"), DiscoveredDevice("foo1")], True, 0)

    def slots_of(name: str, usage: str) -> dict[str, base.DeviceInstance]:
        return {name: base.DeviceInstance(deviceUsage=base.StringMap(values={f"{name}-0": usage}))}

    node.update_shared(slots_of(SHARED, "C:0:node-b"))
    node.update_shared(slots_of("cam-a19705", "C:0:node-b"))
    assert node.ledger.virtual_slot("cam", "node-b", "0") == Slot("cam-a19705", 0)
    node.observe("cam", "s", [DiscoveredDevice("foo0")], True, 1)
    node.update_shared(slots_of(SHARED, "C:0:node-b"))
    assert node.ledger.claims_on("node-b") == {Slot(SHARED, 0): Claim("node-b", "0")}


def test_updates_of_unknown_or_local_devices_are_ignored() -> None:
    node = a_node()
    assert not node.update_shared({"cam-000000": base.DeviceInstance(), LOCAL: base.DeviceInstance()})


def test_only_releases_of_shared_slots_are_sent() -> None:
    node = a_node(shared=True)
    _, requested = claim(node, "w")
    node.shared.finish(requested, granted=True)
    assert node.shared.release(node.ledger.claims_of("w")) == [requested[0].reversed()]
    assert node.shared.release({requested[0].slot: requested[0].claim}) == []
    local = a_node()
    claim(local, "w")
    assert local.shared.release(local.ledger.claims_of("w")) == []


def test_a_device_that_is_missing_briefly_changes_nothing() -> None:
    node = a_node()
    claim(node, "w")
    before, listed = snapshot(node.ledger), advertised(node)
    gone = node.observe("cam", "s", [], False, 1)
    assert gone.instances == {LOCAL}
    assert advertised(node) == (Advertised("0", False),)
    assert node.next_deadline() == 11
    node.observe("cam", "s", [DiscoveredDevice("foo0", {"URL": "x"})], False, 9)
    assert not node.expire(100)
    assert (snapshot(node.ledger), advertised(node)) == (before, listed)


def test_a_device_that_stays_missing_is_removed_and_its_users_are_returned() -> None:
    node = a_node()
    claim(node, "w")
    node.observe("cam", "s", [], False, 1)
    changes = node.expire(11)
    assert [instance.name for instance in changes.vanished] == [LOCAL]
    assert node.ledger.claims(LOCAL) == {Slot(LOCAL, 0): Claim("node-a", "0", "w")}
    assert LOCAL not in node.ledger


def test_the_devices_of_a_removed_configuration_are_removed_with_it() -> None:
    node = a_node()
    changes = node.configure({})
    assert [instance.name for instance in changes.vanished] == [LOCAL]
    assert node.target("akri.sh/cam") is None
    assert (changes.instances, changes.configurations) == ({LOCAL}, {"cam"})


def test_a_new_capacity_is_applied_immediately() -> None:
    node = a_node(capacity=1)
    changes = node.configure({"cam": Configuration("cam", "fake", capacity=3, offline_grace=10)})
    assert changes.instances == {LOCAL}
    assert ids(node, LOCAL) == [f"{LOCAL}-{index}" for index in range(3)]
    assert not node.configure(node.configurations)


def test_claims_from_before_a_restart_are_kept_and_reported() -> None:
    node = NodeDevices("node-a")
    instance = Instance.of("cam", DiscoveredDevice("foo0"), True, "node-a")
    slot, held = Slot(SHARED, 1), Claim("node-a", "4", "w")
    node.restore(HeldSlot(slot, held, instance, 2))
    assert node.known().instances == {SHARED}
    node.configure({"cam": Configuration("cam", "fake", capacity=2)})
    node.observe("cam", "s", [DiscoveredDevice("foo0")], True, 0)
    node.update_shared(
        {
            SHARED: base.DeviceInstance(
                deviceUsage=base.StringMap(values={str(slot): held.usage}),
                slotOwners=base.StringMap(values={str(slot): "w"}),
            )
        }
    )
    assert node.ledger.claims_of("w") == {slot: held}
    assert ids(node) == ["0", "4"]


def test_a_workload_that_requests_too_many_devices_reports_the_reason() -> None:
    """[utest->akri~denied-workload-waits-and-recovers~1]"""
    node = a_node()
    wanted = [ResourceNeed(None, "akri.sh/cam", 2)]
    assert node.plan(wanted, "w") == Denied("waits for 2 x akri.sh/cam, 1 visible")
    node.observe("cam", "s", [DiscoveredDevice("foo0"), DiscoveredDevice("foo1")], False, 1)
    assert isinstance(node.plan(wanted, "w"), SlotPlan)


def test_a_shared_device_is_not_available_while_the_server_is_not_connected() -> None:
    """A local device is available; the reason of a waiting workload names the missing server connection."""
    node = a_node(shared=True, capacity=1)
    wanted = [ResourceNeed(None, "akri.sh/cam", 1)]
    assert node.session_ended().instances == {SHARED}
    assert node.plan(wanted, "w") == Denied(f"waits for akri.sh/cam: {NOT_CONNECTED}")
    two_cameras = [ResourceNeed(None, "akri.sh/cam", 2)]
    assert node.plan(two_cameras, "w") == Denied(f"waits for 2 x akri.sh/cam, 1 visible; {NOT_CONNECTED}")
    node.session_began()
    assert node.plan(wanted, "w") == Denied(f"waits for 1 x akri.sh/cam, 0 visible; {NOT_RECEIVED}")
    node.update_shared({SHARED: base.DeviceInstance()})
    assert isinstance(node.plan(wanted, "w"), SlotPlan)
    local = a_node()
    assert not local.session_ended()
    assert isinstance(local.plan(wanted, "w"), SlotPlan)


def test_a_waiting_workload_reports_that_the_handler_rejected_the_details() -> None:
    node = a_node()
    assert node.discovery_failed("cam", "s", "no such key").configurations == {"cam"}
    assert not node.discovery_failed("unknown", "s", "no such key")
    assert node.plan([ResourceNeed(None, "akri.sh/cam", 2)], "w") == Denied(
        "waits for 2 x akri.sh/cam, 1 visible; no such key"
    )
    node.configure({"cam": Configuration("cam", "fake", capacity=3, offline_grace=10)})
    assert list(node.reasons(["akri.sh/cam"])) == ["no such key"]  # the details are the same
    assert node.observe("cam", "s", [DiscoveredDevice("foo0")], False, 1).configurations == {"cam"}
    assert list(node.reasons(["akri.sh/cam"])) == []
    for configurations in ({"cam": Configuration("cam", "fake", "other")}, {}):
        node.discovery_failed("cam", "s", "no such key")
        node.configure(configurations)
        assert list(node.reasons(["akri.sh/cam"])) == []


def test_devices_of_a_configuration_deleted_during_a_disconnection_are_removed() -> None:
    """It will not be discovered again; a workload that uses it keeps its claim until it releases it."""
    node = NodeDevices("node-a")
    slot, held = Slot(LOCAL, 0), Claim("node-a", "0", "w")
    instance = Instance.of("cam", DiscoveredDevice("foo0"), False, "node-a")
    node.restore(HeldSlot(slot, held, instance, 1))
    changes = node.configure({"mic": Configuration("mic", "fake")})
    assert [instance.name for instance in changes.vanished] == [LOCAL]
    assert LOCAL not in node.ledger
    assert node.ledger.claims_of("w") == {slot: held}
    assert node.known().instances == {LOCAL}  # it is shown as lost
    node.shared.release({slot: held})
    assert node.known().instances == set()


def test_an_invalid_part_of_an_update_is_ignored_and_the_others_are_used() -> None:
    node = NodeDevices("node-a")
    node.configure({"cam": Configuration("cam", "fake")})
    node.observe("cam", "s", [DiscoveredDevice("foo0"), DiscoveredDevice("foo1")], True, 0)
    bad = base.DeviceInstance(deviceUsage=base.StringMap(values={"other-0": "node-b"}))
    changes = node.update_shared({SHARED: bad, "cam-a19705": base.DeviceInstance()})
    assert [text.partition(":")[0] for text in changes.warnings] == [
        f"the server's update of device '{SHARED}' is ignored"
    ]
    assert ids(node) == ["0"]


def test_a_selector_gets_only_devices_with_the_properties() -> None:
    node = a_node(capacity=1)
    devices = [DiscoveredDevice("foo0", {"VENDOR": "acme"}), DiscoveredDevice("foo1", {"VENDOR": "other"})]
    node.observe("cam", "s", devices, False, 1)
    acme = ResourceNeed(None, "akri.sh/cam", 1, (("VENDOR", "acme"),))
    plan = node.plan([acme], "w")
    assert isinstance(plan, SlotPlan)
    assert [slot.instance for it in plan.assignments for slot in it.values()] == ["cam-fbcb99"]
    two = node.plan([msgspec.structs.replace(acme, quantity=2)], "w")
    assert two == Denied("waits for 2 x akri.sh/cam with VENDOR=acme, 1 visible")
    named = ResourceNeed(None, "akri.sh/cam-d2981e", 1, (("VENDOR", "acme"),))
    assert isinstance(node.plan([named], "w"), Denied)


def test_two_requests_of_one_container_get_different_devices() -> None:
    """The request with a selector has only one possible device, so the other request uses another one."""
    node = a_node(capacity=2)
    devices = [DiscoveredDevice("foo0", {"VENDOR": "acme"}), DiscoveredDevice("foo1")]
    node.observe("cam", "s", devices, False, 1)
    needs = [ResourceNeed(None, "akri.sh/cam", 1), ResourceNeed(None, "akri.sh/cam", 1, (("VENDOR", "acme"),))]
    plan = node.plan(needs, "w")
    assert isinstance(plan, SlotPlan)
    assert [slot.instance for it in plan.assignments for slot in it.values()] == ["cam-d2981e", "cam-fbcb99"]
    assert isinstance(node.plan([msgspec.structs.replace(needs[0], quantity=2), needs[1]], "w"), Denied)
