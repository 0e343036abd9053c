from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import InstanceName
from ankaios.devices.core.device_messages import change_to_pb, slot_request
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from ankaios.server.core.device_configurations import discovers
from ankaios.server.core.device_directory import (
    NODE_LOST_TICKS,
    SETTLE_TICKS,
    DeviceDirectory,
    DirectoryChanges,
)
from ankaios.server.core.placement import FreeDevices
from tests.support.examples import examples
from tests.unit.devices.ledgers import snapshot
from tests.unit.server.directories import (
    CAM,
    a_configuration,
    a_directory,
    a_report,
    an_instance_message,
    answers,
    claim_of,
    instances,
    request,
    updates,
    usage,
)


def ticks(directory: DeviceDirectory, number: int) -> list[DirectoryChanges]:
    return [directory.tick() for _ in range(number)]


NOTHING = DirectoryChanges()


# --- configurations ---


def test_an_agent_receives_device_configurations_with_its_hello_and_after_each_change() -> None:
    directory = DeviceDirectory()
    directory.configure({"cam": a_configuration(capacity=2)})
    (update,) = updates(directory.hello("a", {}, True), "a")
    assert update.complete
    assert list(update.configurations.deviceConfigurations) == ["cam"]
    (update,) = updates(directory.configure({"mic": a_configuration(), "cam": None}), "a")
    assert list(update.configurations.deviceConfigurations) == ["mic"]
    assert updates(directory.configure({"mic": a_configuration()}), "a") == []


def test_an_agent_does_not_receive_a_broker_but_its_policy_for_lost_devices() -> None:
    directory = DeviceDirectory()
    directory.configure({"cam": a_configuration()})
    directory.hello("a", {}, True)
    per_node = base.Broker(strategy=base.BROKER_PER_NODE)
    assert updates(directory.configure({"cam": a_configuration(broker=per_node)}), "a") == []
    anywhere = base.Broker(strategy=base.BROKER_PER_CONFIGURATION)
    (update,) = updates(directory.configure({"cam": a_configuration(broker=anywhere)}), "a")
    sent = update.configurations.deviceConfigurations["cam"]
    assert sent.onDeviceLost == base.ON_DEVICE_LOST_RESTART
    assert not sent.HasField("broker")


def test_an_agent_without_devices_receives_no_configurations() -> None:
    directory = DeviceDirectory()
    directory.configure({"cam": a_configuration()})
    assert directory.hello("old", {}, offers_devices=False).messages == []
    assert not directory.offers_devices("old")
    changes = directory.report("old", a_report())
    assert changes == DirectoryChanges(warnings=changes.warnings)
    assert len(changes.warnings) == 1


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        (None, ["a", "b"]),
        (base.DevicePlacement(), ["a", "b"]),
        (base.DevicePlacement(agents=["b"]), ["b"]),
        (base.DevicePlacement(tags=base.Tags(tags={"zone": "front"})), ["a"]),
        (base.DevicePlacement(agents=["b"], tags=base.Tags(tags={"zone": "front"})), ["a", "b"]),
    ],
)
def test_agents_that_discover_are_named_or_have_the_tags(
    placement: base.DevicePlacement | None, expected: list[str]
) -> None:
    configuration = a_configuration(placement=placement)
    tags = {"a": {"zone": "front"}, "b": {"zone": "rear"}}
    assert [agent for agent in tags if discovers(configuration, agent, tags[agent])] == expected


def test_new_tags_change_what_an_agent_discovers() -> None:
    directory = DeviceDirectory()
    directory.configure(
        {"cam": a_configuration(placement=base.DevicePlacement(tags=base.Tags(tags={"zone": "front"})))}
    )
    directory.hello("a", {}, True)
    (update,) = updates(directory.tags_changed("a", {"zone": "front"}), "a")
    assert list(update.configurations.deviceConfigurations) == ["cam"]
    assert directory.tags_changed("unknown", {}) == NOTHING


def test_a_new_capacity_is_applied_to_running_devices() -> None:
    directory = a_directory("a", "b", capacity=1)
    changes = directory.configure({"cam": a_configuration(capacity=3)})
    assert list(usage(directory)) == [f"{CAM}-0", f"{CAM}-1", f"{CAM}-2"]
    assert [list(update.instances) for update in updates(changes, "b")] == [[CAM], []]


def test_the_devices_of_a_removed_configuration_are_removed() -> None:
    directory = a_directory("a")
    changes = directory.configure({"cam": None})
    assert changes.instances == {CAM: None}
    assert instances(directory) == {}


# --- reports ---


def test_a_shared_device_is_listed_once_with_all_nodes_that_see_it() -> None:
    """[utest->akri~instance-level-resource~1]"""
    directory = a_directory("b", "a", capacity=2)
    (instance,) = instances(directory).values()
    assert list(instance.nodes) == ["a", "b"]
    assert dict(instance.deviceUsage.values) == {f"{CAM}-0": "", f"{CAM}-1": ""}
    assert instance.attributes.online


def test_local_slots_are_mirrored_from_the_agent_that_owns_them() -> None:
    directory = DeviceDirectory(settled=True)
    directory.configure({"cam": a_configuration(capacity=2)})
    directory.hello("a", {}, True)
    report = a_report(cam_8120fe=an_instance_message("a", {f"{CAM}-1": "a"}, shared=False, capacity=2))
    directory.report("a", report)
    assert usage(directory) == {f"{CAM}-0": "", f"{CAM}-1": "a"}
    assert not request(directory, "a", claim_of("a"))
    again = an_instance_message("a", {f"{CAM}-0": "C:0:a"}, shared=False, capacity=2)
    directory.report("a", a_report(complete=False, cam_8120fe=again))
    assert usage(directory) == {f"{CAM}-0": "C:0:a", f"{CAM}-1": ""}


def test_a_device_is_removed_when_the_last_node_lost_it() -> None:
    directory = a_directory("a", "b")
    directory.report("a", grpc.DeviceReport(gone=[CAM]))
    assert list(instances(directory)[CAM].nodes) == ["b"]
    assert directory.report("b", grpc.DeviceReport(gone=[CAM])).instances == {CAM: None}


def test_a_node_that_discovers_a_device_receives_its_slots() -> None:
    directory = a_directory("a")
    request(directory, "a", claim_of("a"))
    directory.hello("b", {}, True)
    directory.report("b", a_report())
    changes = directory.report("b", a_report(complete=False, cam_8120fe=an_instance_message("b")))
    (update,) = updates(changes, "b")
    assert update.instances[CAM].deviceUsage.values[f"{CAM}-0"] == "C:0:a"
    assert updates(changes, "a") == []


def test_resources_of_a_node_are_kept_by_name() -> None:
    directory = a_directory("a")
    first = grpc.DeviceReport(resources=[base.NodeResource(name="x/b", capacity=2), base.NodeResource(name="x/a")])
    assert [resource.name for resource in directory.report("a", first).resources["a"]] == ["x/a", "x/b"]
    assert directory.report("a", first) == NOTHING
    changed = directory.report("a", grpc.DeviceReport(goneResources=["x/b"]))
    assert [resource.name for resource in changed.resources["a"]] == ["x/a"]


@pytest.mark.parametrize(
    "message",
    [
        base.DeviceInstance(configurationName="unknown", nodes=["a"]),
        base.DeviceInstance(configurationName="cam", nodes=["b"]),
        an_instance_message("a", {f"{CAM}-0": "C:x"}),
        an_instance_message("a", {"other-0": "a"}),
        an_instance_message("a", shared=False),
    ],
)
def test_an_invalid_device_is_ignored_and_the_others_are_kept(message: base.DeviceInstance) -> None:
    directory = a_directory("b")
    directory.hello("a", {}, True)
    changes = directory.report("a", a_report(cam_8120fe=message))
    assert (len(changes.warnings), changes.changes_supply, changes.messages) == (1, False, [])
    assert list(instances(directory)[CAM].nodes) == ["b"]


# --- slots of shared devices ---


def test_a_slot_is_granted_to_the_first_request() -> None:
    directory = a_directory("a", "b")
    assert request(directory, "a", claim_of("a"))
    changes = directory.slot_request("b", slot_request("7", [claim_of("b")]))
    (answer,) = answers(changes, "b")
    assert (answer.requestId, answer.granted) == ("7", False)
    assert "held by 'w.a'" in answer.reason
    assert usage(directory) == {f"{CAM}-0": "C:0:a"}


@examples(10)
@given(st.integers(0, 2**32))
def test_of_a_thousand_claims_in_any_order_each_round_has_one_winner(seed: int) -> None:
    """Two agents claim one slot through either plugin, some twice; the winner releases it before the next round."""
    directory, order = a_directory("a", "b"), Random(seed)
    for _ in range(3):
        claims = [claim_of("ab"[n % 2], owner=f"w{n}", virtual_id=str(n) if n % 3 else None) for n in range(1000)]
        requested = order.sample(claims, k=len(claims))
        granted = [claim for claim in requested if request(directory, claim.claim.node, claim)]
        assert granted == requested[:1]
        assert request(directory, granted[0].claim.node, granted[0]), "the holder may repeat its request"
        assert directory.ledger.owners(CAM) == {f"{CAM}-0": granted[0].claim.owner}
        assert request(directory, granted[0].claim.node, granted[0].reversed())
        assert usage(directory) == {f"{CAM}-0": ""}


def test_all_nodes_that_see_a_device_receive_a_claim_before_the_answer() -> None:
    directory = a_directory("a", "b")
    changes = directory.slot_request("a", slot_request("1", [claim_of("a")]))
    kinds = [it.message.WhichOneof("FromServerEnum") for it in changes.messages]
    assert kinds == ["deviceUpdate", "deviceUpdate", "slotResponse"]
    assert updates(changes, "b")[0].instances[CAM].slotOwners.values[f"{CAM}-0"] == "w.a"


def test_an_agent_whose_claim_is_denied_receives_the_slots_first() -> None:
    directory = a_directory("a", "b")
    request(directory, "a", claim_of("a"))
    changes = directory.slot_request("b", slot_request("1", [claim_of("b")]))
    assert updates(changes, "b")[0].instances[CAM].deviceUsage.values[f"{CAM}-0"] == "C:0:a"
    assert updates(changes, "a") == []


def test_claims_and_releases_may_be_repeated() -> None:
    directory = a_directory("a", "b")
    for _ in range(2):
        assert request(directory, "a", claim_of("a"))
    for _ in range(2):
        assert request(directory, "a", claim_of("a").reversed())
    assert usage(directory) == {f"{CAM}-0": ""}
    assert request(directory, "b", claim_of("b"))
    assert request(directory, "a", claim_of("a").reversed())
    assert usage(directory) == {f"{CAM}-0": "C:0:b"}


def test_a_freed_slot_is_visible_for_the_other_nodes() -> None:
    """In Akri 0.13 other nodes are never notified that a slot is free again."""
    directory = a_directory("a", "b")
    request(directory, "a", claim_of("a"))
    changes = directory.slot_request("a", slot_request("2", [claim_of("a").reversed()]))
    assert updates(changes, "b")[0].instances[CAM].deviceUsage.values[f"{CAM}-0"] == ""
    assert request(directory, "b", claim_of("b"))


def test_all_slots_of_a_request_are_given_or_none() -> None:
    directory = a_directory("a", "b", capacity=2)
    request(directory, "b", claim_of("b", 1))
    before = snapshot(directory.ledger)
    assert not request(directory, "a", claim_of("a", 0), claim_of("a", 1, virtual_id="1"))
    assert snapshot(directory.ledger) == before


@pytest.mark.parametrize(
    "change",
    [
        SlotChange(Slot(CAM, 0), Claim("b")),
        SlotChange(Slot("cam-000000", 0), Claim("a")),
        SlotChange(Slot(CAM, 9), Claim("a")),
    ],
)
def test_an_agent_can_only_claim_for_itself_and_for_devices_that_it_sees(change: SlotChange) -> None:
    directory = a_directory("a", "b")
    assert not request(directory, "a", change)


def test_a_malformed_request_changes_nothing() -> None:
    directory = a_directory("a")
    both = grpc.SlotChange(instance=CAM, slot=f"{CAM}-0", before="a", after="b")
    changes = directory.slot_request("a", grpc.SlotRequest(requestId="1", changes=[both]))
    assert "this needs two steps" in answers(changes, "a")[0].reason


# --- disconnected agents and restarts ---


def test_a_disconnected_agent_keeps_the_slots_that_it_uses() -> None:
    directory = a_directory("a", "b")
    request(directory, "a", claim_of("a"))
    directory.gone("a")
    assert not request(directory, "b", claim_of("b"))
    assert list(instances(directory)[CAM].nodes) == ["a", "b"]
    assert directory.gone("unknown") == NOTHING


def test_a_device_seen_only_by_a_disconnected_node_is_offline() -> None:
    directory = a_directory("a")
    directory.gone("a")
    assert not instances(directory)[CAM].attributes.online


def test_a_node_that_is_disconnected_for_too_long_loses_its_slots() -> None:
    directory = a_directory("a", "b")
    request(directory, "a", claim_of("a"))
    directory.gone("a")
    assert ticks(directory, NODE_LOST_TICKS - 1) == [NOTHING] * (NODE_LOST_TICKS - 1)
    assert directory.tick().lost == ["a"]
    assert list(instances(directory)[CAM].nodes) == ["b"]
    assert request(directory, "b", claim_of("b"))


def test_a_lost_node_can_claim_again_after_it_reconnects() -> None:
    """In Akri an entry of another node makes every later claim of the node fail."""
    directory = a_directory("a", "b")
    request(directory, "a", claim_of("a"))
    directory.gone("a")
    ticks(directory, NODE_LOST_TICKS)
    directory.hello("a", {}, True)
    changes = directory.report("a", a_report(cam_8120fe=an_instance_message("a", {f"{CAM}-0": "C:0:a"})))
    assert usage(directory) == {f"{CAM}-0": "C:0:a"}
    assert updates(changes, "a")[-1].instances[CAM].deviceUsage.values[f"{CAM}-0"] == "C:0:a"


@pytest.mark.parametrize(("is_desired", "winner"), [(True, "C:0:a"), (False, "C:0:b")])
def test_of_two_holders_of_a_slot_the_older_one_keeps_it_if_it_is_still_desired(is_desired: bool, winner: str) -> None:
    """The agent was lost and its slot was granted to another one; the workload may have moved meanwhile."""
    directory = a_directory("a", "b")
    directory._is_desired = lambda owner: is_desired
    request(directory, "a", claim_of("a"))
    directory.gone("a")
    ticks(directory, NODE_LOST_TICKS)
    request(directory, "b", claim_of("b"))
    directory.hello("a", {}, True)
    changes = directory.report("a", a_report(cam_8120fe=an_instance_message("a", {f"{CAM}-0": "C:0:a"})))
    assert updates(changes, "a")[-1].instances[CAM].deviceUsage.values[f"{CAM}-0"] == winner
    assert updates(changes, "b")[-1:] == ([] if winner == "C:0:b" else updates(changes, "a")[-1:])
    assert bool(changes.warnings) == is_desired


def test_a_complete_report_replaces_the_recorded_claims_of_a_node() -> None:
    """A claim whose answer never arrived is not used, so it must be released."""
    directory = a_directory("a", "b")
    request(directory, "a", claim_of("a"))
    directory.hello("a", {}, True)
    changes = directory.report("a", a_report(cam_8120fe=an_instance_message("a")))
    assert usage(directory) == {f"{CAM}-0": ""}
    assert updates(changes, "b")[0].instances[CAM].deviceUsage.values[f"{CAM}-0"] == ""


def test_after_a_server_restart_agents_report_used_slots() -> None:
    directory = a_directory(settled=False)
    directory.hello("a", {}, True)
    directory.report("a", a_report(cam_8120fe=an_instance_message("a", {f"{CAM}-0": "C:0:a"})))
    assert usage(directory) == {f"{CAM}-0": "C:0:a"}


def test_workloads_that_use_devices_are_known_where_they_run() -> None:
    directory = a_directory("a", capacity=3)
    for index, owner in enumerate(("web.01.a", "far.02.b", "")):
        assert request(directory, "a", claim_of("a", index, owner, virtual_id=str(index)))
    assert directory.holders() == {"web": InstanceName("web", "01", "a")}


def test_after_a_server_restart_reports_about_a_disconnected_agent_are_used() -> None:
    directory = a_directory(settled=False)
    directory.hello("b", {}, True)
    directory.report("b", a_report(cam_8120fe=an_instance_message("b", {f"{CAM}-0": "C:0:a"})))
    assert usage(directory) == {f"{CAM}-0": "C:0:a"}
    ticks(directory, SETTLE_TICKS)
    assert not request(directory, "b", claim_of("b"))
    directory.hello("a", {}, True)
    directory.report("a", a_report(cam_8120fe=an_instance_message("a")))
    assert request(directory, "b", claim_of("b"))


def test_claims_reported_by_others_end_when_their_node_never_returns() -> None:
    directory = a_directory(settled=False)
    directory.hello("b", {}, True)
    directory.report("b", a_report(cam_8120fe=an_instance_message("b", {f"{CAM}-0": "C:0:a"})))
    ticks(directory, NODE_LOST_TICKS)
    assert usage(directory) == {f"{CAM}-0": ""}


def test_claims_reported_by_others_are_ignored_for_a_node_that_has_reported() -> None:
    directory = a_directory("a")
    directory.hello("b", {}, True)
    directory.report("b", a_report(cam_8120fe=an_instance_message("b", {f"{CAM}-0": "C:0:a"})))
    assert usage(directory) == {f"{CAM}-0": ""}


def test_a_server_that_has_just_started_grants_no_slots_but_accepts_releases() -> None:
    directory = a_directory("a", settled=False)
    changes = directory.slot_request("a", slot_request("1", [claim_of("a")]))
    assert "just started" in answers(changes, "a")[0].reason
    assert updates(changes, "a") == []
    assert request(directory, "a", claim_of("a").reversed())
    changes = ticks(directory, SETTLE_TICKS)[-1]
    assert [list(update.instances) for update in updates(changes, "a")] == [[CAM]]
    assert request(directory, "a", claim_of("a"))


def test_slots_in_use_of_a_device_that_the_node_does_not_see_stay_in_use() -> None:
    directory = a_directory("b", settled=False)
    ticks(directory, SETTLE_TICKS)
    directory.hello("a", {}, True)
    directory.report("a", grpc.DeviceReport(complete=True, held=[change_to_pb(claim_of("a"))]))
    assert not request(directory, "b", claim_of("b"))
    assert request(directory, "a", claim_of("a").reversed())
    assert request(directory, "b", claim_of("b"))


def test_used_slots_of_a_device_that_no_node_sees_are_kept_for_its_return() -> None:
    directory = a_directory()
    directory.hello("a", {}, True)
    directory.report(
        "a", grpc.DeviceReport(complete=True, held=[change_to_pb(claim_of("a")), grpc.SlotChange(slot="x")])
    )
    assert instances(directory) == {}
    directory.hello("b", {}, True)
    directory.report("b", a_report(cam_8120fe=an_instance_message("b")))
    assert usage(directory) == {f"{CAM}-0": "C:0:a"}


def test_an_agent_that_came_back_without_devices_holds_none() -> None:
    directory = a_directory("a", "b")
    request(directory, "a", claim_of("a"))
    directory.hello("a", {}, offers_devices=False)
    assert usage(directory) == {f"{CAM}-0": ""}
    assert list(instances(directory)[CAM].nodes) == ["b"]


# --- input of the placement ---


def test_free_devices_are_those_that_a_container_could_get() -> None:
    directory = a_directory("a", capacity=2)
    directory.hello("b", {"zone": "x"}, True)
    directory.hello("old", {}, offers_devices=False)
    assert directory.candidates(with_devices=True) == {"a": {}, "b": {"zone": "x"}}
    assert directory.candidates(with_devices=False) == {"a": {}, "b": {"zone": "x"}, "old": {}}
    assert directory.free_devices("a", "akri.sh/cam", {}) == FreeDevices({CAM: 2}, distinct=True)
    assert directory.free_devices("a", f"akri.sh/{CAM}", {}) == FreeDevices({CAM: 2})
    assert directory.free_devices("b", "akri.sh/cam", {}) == FreeDevices({}, distinct=True)
    assert directory.free_devices("b", "x/gpu", {}) == FreeDevices()
    directory.report("b", grpc.DeviceReport(resources=[base.NodeResource(name="x/gpu", allocatable=3, allocated=1)]))
    assert directory.free_devices("b", "x/gpu", {}) == FreeDevices({"b:x/gpu": 2})


# --- lost devices that are still held ---


def a_lost_message(node: str, shared: bool = True) -> base.DeviceInstance:
    message = an_instance_message(node, {f"{CAM}-0": "C:0:" + node}, shared, online=False)
    message.lost = True
    message.offlineSinceMs = 1000
    return message


def test_a_lost_device_stays_in_the_state_as_long_as_a_workload_holds_it() -> None:
    directory = a_directory("a")
    request(directory, "a", claim_of("a"))
    changes = directory.report("a", a_report(complete=False, cam_8120fe=a_lost_message("a")))
    shown = changes.instances[CAM]
    assert shown is not None and shown.lost and not shown.attributes.online
    assert changes.unseen == [("a", CAM)]
    assert directory.instances_of("cam") == {}
    assert directory.free_devices("a", "akri.sh/cam", {}) == FreeDevices({}, distinct=True)
    gone = directory.report("a", grpc.DeviceReport(gone=[CAM]))
    assert gone.instances == {CAM: None}


def test_a_device_that_another_agent_sees_is_not_shown_as_lost() -> None:
    directory = a_directory("a", "b")
    request(directory, "a", claim_of("a"))
    changes = directory.report("a", a_report(complete=False, cam_8120fe=a_lost_message("a")))
    shown = changes.instances[CAM]
    assert shown is not None and not shown.lost and list(shown.nodes) == ["b"]
    lost = directory.report("b", grpc.DeviceReport(gone=[CAM])).instances[CAM]
    assert lost is not None and lost.lost
    back = directory.report("a", a_report(complete=False, cam_8120fe=an_instance_message("a"))).instances[CAM]
    assert back is not None and not back.lost and back.attributes.online


def test_a_lost_device_is_removed_with_its_agent() -> None:
    directory = a_directory("a")
    directory.report("a", a_report(complete=False, cam_8120fe=a_lost_message("a", shared=False)))
    directory.gone("a")
    changes = [directory.tick() for _ in range(NODE_LOST_TICKS)]
    assert changes[-1].instances == {CAM: None}


def test_a_lost_device_without_a_holder_is_rejected() -> None:
    directory = a_directory("a")
    message = a_lost_message("a")
    message.deviceUsage.values.clear()
    changes = directory.report("a", a_report(complete=False, cam_8120fe=message))
    assert "no workload holds the lost device" in changes.warnings[0]


# --- references in properties ---


def test_agents_receive_the_texts_of_configuration_items_and_the_paths_of_files() -> None:
    items: dict[str, object] = {"user": "admin", "list": ["x"]}
    directory = DeviceDirectory(True, items.get)
    handler = base.DiscoveryHandler(name="onvif")
    handler.discoveryProperties.configs.update({"username": "user", "other": "list"})
    handler.discoveryProperties.files["password"] = "/etc/secret"
    directory.configure({"cam": base.DeviceConfiguration(discoveryHandler=handler)})

    def sent(changes: DirectoryChanges) -> base.DiscoveryProperties:
        configurations = updates(changes, "a")[-1].configurations.deviceConfigurations
        return configurations["cam"].discoveryHandler.discoveryProperties

    assert sent(directory.hello("a", {}, True)) == base.DiscoveryProperties(
        values={"username": "admin"}, files={"password": "/etc/secret"}
    )
    items["user"] = "root"
    assert directory.configs_changed(["unrelated"]) == NOTHING
    assert sent(directory.configs_changed(["user"])).values["username"] == "root"
