from ankaios.common.pb import ank_base_pb2 as base
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.node_devices import DeviceChanges, HeldSlot, NodeDevices
from ankaios.devices.core.node_reports import NodeReports, node_resource
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from tests.unit.devices.core.test_node_devices import LOCAL, SHARED, a_node, claim


def test_a_configuration_has_its_resource_before_it_has_devices() -> None:
    """[utest->akri~configuration-level-resource~1]"""
    node = NodeDevices("node-a")
    node.configure({"cam": Configuration("cam", "fake")})
    assert node_resource(node, "cam", True) == base.NodeResource(name="akri.sh/cam")
    assert node_resource(node, "unknown", True) is None


def test_instance_level_claims_are_counted_for_their_own_resource() -> None:
    node = a_node()
    node.shared.begin([SlotChange(Slot(LOCAL, 1), Claim("node-a", None, "w"))])
    assert node_resource(node, LOCAL, False) == base.NodeResource(
        name=f"akri.sh/{LOCAL}", capacity=2, allocatable=2, allocated=1
    )


def test_a_claim_is_reported_when_the_server_granted_it() -> None:
    node = a_node(shared=True)
    reports = NodeReports(node)
    _, requested = claim(node, "w")
    assert dict(reports.complete_report().seen[SHARED].deviceUsage.values) == {f"{SHARED}-1": ""}
    node.shared.finish(requested, granted=True)
    assert reports.complete_report().seen[SHARED].deviceUsage.values[f"{SHARED}-0"] == "C:0:node-a"


def test_claims_from_before_a_restart_are_reported_before_anything_is_discovered() -> None:
    node = NodeDevices("node-a")
    instance = Instance.of("cam", DiscoveredDevice("foo0"), True, "node-a")
    node.restore(HeldSlot(Slot(SHARED, 1), Claim("node-a", "4", "w"), instance, 2))
    assert NodeReports(node).complete_report().seen[SHARED].deviceUsage.values[f"{SHARED}-1"] == "C:4:node-a"


def test_a_used_slot_of_a_removed_shared_device_is_reported_separately() -> None:
    node = a_node(shared=True)
    _, requested = claim(node, "w")
    node.shared.finish(requested, granted=True)
    node.observe("cam", "s", [], True, 1)
    node.expire(11)
    report = NodeReports(node).complete_report()
    assert [change.slot for change in report.held] == [f"{SHARED}-0"]
    assert report.seen[SHARED].lost


def test_a_report_contains_each_change_and_removal_once() -> None:
    node = a_node()
    reports = NodeReports(node)
    complete = reports.complete_report()
    assert complete.complete
    assert complete.seen[LOCAL].brokerProperties.values == {"URL": "x"}
    assert complete.seen[LOCAL].attributes.online
    settled, _ = claim(node, "w")
    report = reports.report(DeviceChanges.of_slots(change.slot for change in settled))
    assert report.seen[LOCAL].slotOwners.values == {f"{LOCAL}-0": "w"}
    assert list(report.resources) == [
        base.NodeResource(name=f"akri.sh/{LOCAL}", capacity=2, allocatable=1),
        base.NodeResource(name="akri.sh/cam", capacity=2, allocatable=2, allocated=1),
    ]
    changes = node.configure({})
    first, second = reports.report(changes), reports.report(changes)
    assert list(first.goneResources) == [f"akri.sh/{LOCAL}", "akri.sh/cam"]
    assert (first.seen[LOCAL].lost, list(first.gone)) == (True, [])
    assert first.seen[LOCAL].slotOwners.values == {f"{LOCAL}-0": "w"}
    node.shared.release({change.slot: change.claim for change in settled})
    third, fourth = reports.report(changes), reports.report(changes)
    assert (list(second.gone), list(third.gone), list(fourth.gone)) == ([], [LOCAL], [])


def test_a_device_that_is_missing_is_reported_with_the_time() -> None:
    node = a_node()
    claim(node, "w")
    reports = NodeReports(node, lambda time: 1_700_000_000 + time)
    assert not reports.complete_report().seen[LOCAL].HasField("offlineSinceMs")
    offline = reports.report(node.observe("cam", "s", [], False, 5))
    assert offline.seen[LOCAL].offlineSinceMs == 1_700_000_005_000
    assert not offline.seen[LOCAL].attributes.online
    lost = reports.report(node.expire(100))
    assert lost.seen[LOCAL].lost and not lost.seen[LOCAL].attributes.online
    back = reports.report(node.observe("cam", "s", [DiscoveredDevice("foo0")], False, 101))
    assert not back.seen[LOCAL].lost and back.seen[LOCAL].attributes.online


def test_the_time_of_a_missing_device_does_not_change_with_the_wall_clock() -> None:
    node = a_node()
    difference = iter(range(1_700_000_000, 1_700_000_010))
    reports = NodeReports(node, lambda time: next(difference) + time)
    first = reports.report(node.observe("cam", "s", [], False, 5))
    assert first.seen[LOCAL].offlineSinceMs == 1_700_000_005_000
    assert reports.complete_report().seen[LOCAL].offlineSinceMs == 1_700_000_005_000
    reports.report(node.observe("cam", "s", [DiscoveredDevice("foo0")], False, 8))
    again = reports.report(node.observe("cam", "s", [], False, 9))
    assert again.seen[LOCAL].offlineSinceMs == 1_700_000_010_000
