from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import InstanceName
from ankaios.devices.core.device_messages import change_to_pb, slot_request
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from ankaios.server.core.device_desk import (
    NODE_LOST_TICKS,
    SETTLE_TICKS,
    Complaint,
    DeviceDesk,
    InstanceChanged,
    NodeLost,
    ResourcesChanged,
    discovers,
)
from ankaios.server.core.placement import Options
from tests.unit.server.desks import (
    CAM,
    a_configuration,
    a_desk,
    a_report,
    an_instance_message,
    answers,
    ask,
    take,
    updates,
    usage,
)


def ticks(desk: DeviceDesk, number: int) -> list[object]:
    return [effect for _ in range(number) for effect in desk.tick()]


# --- configurations ---


def test_an_agent_is_told_what_to_discover_with_its_hello_and_when_that_changes() -> None:
    desk = DeviceDesk()
    desk.configure({"cam": a_configuration(capacity=2)})
    (update,) = updates(desk.hello("a", {}, True), "a")
    assert update.complete
    assert list(update.configurations.deviceConfigurations) == ["cam"]
    (update,) = updates(desk.configure({"mic": a_configuration(), "cam": None}), "a")
    assert list(update.configurations.deviceConfigurations) == ["mic"]
    assert updates(desk.configure({"mic": a_configuration()}), "a") == []


def test_a_broker_is_no_news_for_agents_except_what_happens_when_its_device_is_lost() -> None:
    desk = DeviceDesk()
    desk.configure({"cam": a_configuration()})
    desk.hello("a", {}, True)
    per_node = base.Broker(strategy=base.BROKER_PER_NODE)
    assert updates(desk.configure({"cam": a_configuration(broker=per_node)}), "a") == []
    anywhere = base.Broker(strategy=base.BROKER_PER_CONFIGURATION)
    (update,) = updates(desk.configure({"cam": a_configuration(broker=anywhere)}), "a")
    sent = update.configurations.deviceConfigurations["cam"]
    assert sent.onDeviceLost == base.ON_DEVICE_LOST_RESTART
    assert not sent.HasField("broker")


def test_an_agent_without_devices_is_told_nothing() -> None:
    desk = DeviceDesk()
    desk.configure({"cam": a_configuration()})
    assert desk.hello("old", {}, knows_devices=False) == []
    assert not desk.knows_devices("old")
    (complaint,) = desk.report("old", a_report())
    assert isinstance(complaint, Complaint)


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
def test_agents_that_discover_are_named_or_carry_the_tags(
    placement: base.DevicePlacement | None, expected: list[str]
) -> None:
    configuration = a_configuration(placement=placement)
    tags = {"a": {"zone": "front"}, "b": {"zone": "rear"}}
    assert [agent for agent in tags if discovers(configuration, agent, tags[agent])] == expected


def test_new_tags_change_what_an_agent_discovers() -> None:
    desk = DeviceDesk()
    desk.configure({"cam": a_configuration(placement=base.DevicePlacement(tags=base.Tags(tags={"zone": "front"})))})
    desk.hello("a", {}, True)
    (update,) = updates(desk.tags_changed("a", {"zone": "front"}), "a")
    assert list(update.configurations.deviceConfigurations) == ["cam"]
    assert desk.tags_changed("unknown", {}) == []


def test_a_new_capacity_is_applied_to_running_devices() -> None:
    desk = a_desk("a", "b", capacity=1)
    effects = desk.configure({"cam": a_configuration(capacity=3)})
    assert list(usage(desk)) == [f"{CAM}-0", f"{CAM}-1", f"{CAM}-2"]
    assert [list(update.instances) for update in updates(effects, "b")] == [[CAM], []]


def test_a_dropped_configuration_takes_its_devices_along() -> None:
    desk = a_desk("a")
    effects = desk.configure({"cam": None})
    assert InstanceChanged(CAM, None) in effects
    assert desk.instances() == {}


# --- reports ---


def test_a_shared_device_stands_once_with_all_nodes_that_see_it() -> None:
    """[utest->akri~instance-level-resource~1]"""
    desk = a_desk("b", "a", capacity=2)
    (instance,) = desk.instances().values()
    assert list(instance.nodes) == ["a", "b"]
    assert dict(instance.deviceUsage.values) == {f"{CAM}-0": "", f"{CAM}-1": ""}
    assert instance.attributes.online


def test_local_slots_are_mirrored_from_the_agent_that_owns_them() -> None:
    desk = DeviceDesk(settled=True)
    desk.configure({"cam": a_configuration(capacity=2)})
    desk.hello("a", {}, True)
    report = a_report(cam_8120fe=an_instance_message("a", {f"{CAM}-1": "a"}, shared=False, capacity=2))
    desk.report("a", report)
    assert usage(desk) == {f"{CAM}-0": "", f"{CAM}-1": "a"}
    assert not ask(desk, "a", take("a"))
    again = an_instance_message("a", {f"{CAM}-0": "C:0:a"}, shared=False, capacity=2)
    desk.report("a", a_report(complete=False, cam_8120fe=again))
    assert usage(desk) == {f"{CAM}-0": "C:0:a", f"{CAM}-1": ""}


def test_a_device_is_gone_when_the_last_node_lost_it() -> None:
    desk = a_desk("a", "b")
    desk.report("a", grpc.DeviceReport(gone=[CAM]))
    assert list(desk.instances()[CAM].nodes) == ["b"]
    assert InstanceChanged(CAM, None) in desk.report("b", grpc.DeviceReport(gone=[CAM]))


def test_a_node_that_newly_sees_a_device_is_told_its_slots() -> None:
    desk = a_desk("a")
    ask(desk, "a", take("a"))
    desk.hello("b", {}, True)
    desk.report("b", a_report())
    effects = desk.report("b", a_report(complete=False, cam_8120fe=an_instance_message("b")))
    (update,) = updates(effects, "b")
    assert update.instances[CAM].deviceUsage.values[f"{CAM}-0"] == "C:0:a"
    assert updates(effects, "a") == []


def test_resources_of_a_node_are_kept_by_name() -> None:
    desk = a_desk("a")
    first = grpc.DeviceReport(resources=[base.NodeResource(name="x/b", capacity=2), base.NodeResource(name="x/a")])
    (changed,) = desk.report("a", first)
    assert isinstance(changed, ResourcesChanged)
    assert [resource.name for resource in changed.resources] == ["x/a", "x/b"]
    assert desk.report("a", first) == []
    (changed,) = desk.report("a", grpc.DeviceReport(goneResources=["x/b"]))
    assert isinstance(changed, ResourcesChanged)
    assert [resource.name for resource in changed.resources] == ["x/a"]


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
def test_a_device_that_cannot_be_is_left_out_alone(message: base.DeviceInstance) -> None:
    desk = a_desk("b")
    desk.hello("a", {}, True)
    effects = desk.report("a", a_report(cam_8120fe=message))
    assert [type(effect) for effect in effects] == [Complaint]
    assert list(desk.instances()[CAM].nodes) == ["b"]


# --- slots of shared devices ---


def test_a_slot_goes_to_the_first_who_asks() -> None:
    desk = a_desk("a", "b")
    assert ask(desk, "a", take("a"))
    effects = desk.slot_request("b", slot_request("7", [take("b")]))
    (answer,) = answers(effects, "b")
    assert (answer.requestId, answer.granted) == ("7", False)
    assert "held by 'w.a'" in answer.reason
    assert usage(desk) == {f"{CAM}-0": "C:0:a"}


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_of_a_thousand_claims_in_any_order_each_round_has_one_winner(seed: int) -> None:
    """Two agents, one slot, through either plugin, some asking twice; whoever won lets go before the next round."""
    desk, order = a_desk("a", "b"), Random(seed)
    for _ in range(3):
        claims = [take("ab"[n % 2], owner=f"w{n}", virtual_id=str(n) if n % 3 else None) for n in range(1000)]
        asked = order.sample(claims, k=len(claims))
        granted = [claim for claim in asked if ask(desk, claim.claim.node, claim)]
        assert granted == asked[:1]
        assert ask(desk, granted[0].claim.node, granted[0]), "who has it may ask again"
        assert desk.ledger.owners(CAM) == {f"{CAM}-0": granted[0].claim.owner}
        assert ask(desk, granted[0].claim.node, granted[0].reversed())
        assert usage(desk) == {f"{CAM}-0": ""}


def test_everybody_who_sees_a_device_learns_of_a_claim_before_the_answer() -> None:
    desk = a_desk("a", "b")
    effects = desk.slot_request("a", slot_request("1", [take("a")]))
    kinds = [effect.message.WhichOneof("FromServerEnum") for effect in effects if hasattr(effect, "message")]
    assert kinds == ["deviceUpdate", "deviceUpdate", "slotResponse"]
    assert updates(effects, "b")[0].instances[CAM].slotOwners.values[f"{CAM}-0"] == "w.a"


def test_who_is_refused_learns_the_truth_first() -> None:
    desk = a_desk("a", "b")
    ask(desk, "a", take("a"))
    effects = desk.slot_request("b", slot_request("1", [take("b")]))
    assert updates(effects, "b")[0].instances[CAM].deviceUsage.values[f"{CAM}-0"] == "C:0:a"
    assert updates(effects, "a") == []


def test_claims_and_releases_may_be_repeated() -> None:
    desk = a_desk("a", "b")
    for _ in range(2):
        assert ask(desk, "a", take("a"))
    for _ in range(2):
        assert ask(desk, "a", take("a").reversed())
    assert usage(desk) == {f"{CAM}-0": ""}
    assert ask(desk, "b", take("b"))
    assert ask(desk, "a", take("a").reversed())
    assert usage(desk) == {f"{CAM}-0": "C:0:b"}


def test_a_freed_slot_is_visible_for_the_other_nodes() -> None:
    """In Akri 0.13 other nodes never learn that a slot is free again."""
    desk = a_desk("a", "b")
    ask(desk, "a", take("a"))
    effects = desk.slot_request("a", slot_request("2", [take("a").reversed()]))
    assert updates(effects, "b")[0].instances[CAM].deviceUsage.values[f"{CAM}-0"] == ""
    assert ask(desk, "b", take("b"))


def test_all_slots_of_a_request_are_given_or_none() -> None:
    desk = a_desk("a", "b", capacity=2)
    ask(desk, "b", take("b", 1))
    before = desk.ledger.snapshot()
    assert not ask(desk, "a", take("a", 0), take("a", 1, virtual_id="1"))
    assert desk.ledger.snapshot() == before


@pytest.mark.parametrize(
    "change",
    [
        SlotChange(Slot(CAM, 0), Claim("b")),
        SlotChange(Slot("cam-000000", 0), Claim("a")),
        SlotChange(Slot(CAM, 9), Claim("a")),
    ],
)
def test_an_agent_speaks_for_itself_and_of_what_it_sees(change: SlotChange) -> None:
    desk = a_desk("a", "b")
    assert not ask(desk, "a", change)


def test_a_malformed_request_changes_nothing() -> None:
    desk = a_desk("a")
    both = grpc.SlotChange(instance=CAM, slot=f"{CAM}-0", before="a", after="b")
    effects = desk.slot_request("a", grpc.SlotRequest(requestId="1", changes=[both]))
    assert "this needs two steps" in answers(effects, "a")[0].reason


# --- absence and restarts ---


def test_an_agent_that_is_cut_off_keeps_what_it_uses() -> None:
    desk = a_desk("a", "b")
    ask(desk, "a", take("a"))
    desk.gone("a")
    assert not ask(desk, "b", take("b"))
    assert list(desk.instances()[CAM].nodes) == ["a", "b"]
    assert desk.gone("unknown") == []


def test_a_device_seen_only_by_a_node_that_is_cut_off_is_offline() -> None:
    desk = a_desk("a")
    desk.gone("a")
    assert not desk.instances()[CAM].attributes.online


def test_a_node_that_is_away_for_too_long_loses_its_slots() -> None:
    desk = a_desk("a", "b")
    ask(desk, "a", take("a"))
    desk.gone("a")
    assert ticks(desk, NODE_LOST_TICKS - 1) == []
    assert NodeLost("a") in desk.tick()
    assert list(desk.instances()[CAM].nodes) == ["b"]
    assert ask(desk, "b", take("b"))


def test_a_lost_node_can_claim_again_when_it_is_back() -> None:
    """In Akri a foreign entry in the ledger makes every later claim of the node fail."""
    desk = a_desk("a", "b")
    ask(desk, "a", take("a"))
    desk.gone("a")
    ticks(desk, NODE_LOST_TICKS)
    desk.hello("a", {}, True)
    effects = desk.report("a", a_report(cam_8120fe=an_instance_message("a", {f"{CAM}-0": "C:0:a"})))
    assert usage(desk) == {f"{CAM}-0": "C:0:a"}
    assert updates(effects, "a")[-1].instances[CAM].deviceUsage.values[f"{CAM}-0"] == "C:0:a"


def test_a_slot_given_to_another_stays_with_the_other() -> None:
    desk = a_desk("a", "b")
    ask(desk, "a", take("a"))
    desk.gone("a")
    ticks(desk, NODE_LOST_TICKS)
    ask(desk, "b", take("b"))
    desk.hello("a", {}, True)
    effects = desk.report("a", a_report(cam_8120fe=an_instance_message("a", {f"{CAM}-0": "C:0:a"})))
    assert updates(effects, "a")[-1].instances[CAM].deviceUsage.values[f"{CAM}-0"] == "C:0:b"


def test_a_complete_report_is_the_truth_about_what_a_node_uses() -> None:
    """A claim whose answer never arrived is not used, so it must not leak."""
    desk = a_desk("a", "b")
    ask(desk, "a", take("a"))
    desk.hello("a", {}, True)
    effects = desk.report("a", a_report(cam_8120fe=an_instance_message("a")))
    assert usage(desk) == {f"{CAM}-0": ""}
    assert updates(effects, "b")[0].instances[CAM].deviceUsage.values[f"{CAM}-0"] == ""


def test_after_a_server_restart_agents_say_what_is_in_use() -> None:
    desk = a_desk(settled=False)
    desk.hello("a", {}, True)
    desk.report("a", a_report(cam_8120fe=an_instance_message("a", {f"{CAM}-0": "C:0:a"})))
    assert usage(desk) == {f"{CAM}-0": "C:0:a"}


def test_workloads_that_use_devices_are_known_where_they_run() -> None:
    desk = a_desk("a", capacity=3)
    for index, owner in enumerate(("web.01.a", "far.02.b", "")):
        assert ask(desk, "a", take("a", index, owner, virtual_id=str(index)))
    assert desk.holders() == {"web": InstanceName("web", "01", "a")}


def test_after_a_server_restart_one_agent_speaks_for_another_that_is_not_back_yet() -> None:
    desk = a_desk(settled=False)
    desk.hello("b", {}, True)
    desk.report("b", a_report(cam_8120fe=an_instance_message("b", {f"{CAM}-0": "C:0:a"})))
    assert usage(desk) == {f"{CAM}-0": "C:0:a"}
    ticks(desk, SETTLE_TICKS)
    assert not ask(desk, "b", take("b"))
    desk.hello("a", {}, True)
    desk.report("a", a_report(cam_8120fe=an_instance_message("a")))
    assert ask(desk, "b", take("b"))


def test_hearsay_ends_when_its_node_never_returns() -> None:
    desk = a_desk(settled=False)
    desk.hello("b", {}, True)
    desk.report("b", a_report(cam_8120fe=an_instance_message("b", {f"{CAM}-0": "C:0:a"})))
    ticks(desk, NODE_LOST_TICKS)
    assert usage(desk) == {f"{CAM}-0": ""}


def test_hearsay_about_a_node_that_spoke_for_itself_is_ignored() -> None:
    desk = a_desk("a")
    desk.hello("b", {}, True)
    desk.report("b", a_report(cam_8120fe=an_instance_message("b", {f"{CAM}-0": "C:0:a"})))
    assert usage(desk) == {f"{CAM}-0": ""}


def test_a_server_that_has_just_started_gives_nothing_but_takes_back() -> None:
    desk = a_desk("a", settled=False)
    effects = desk.slot_request("a", slot_request("1", [take("a")]))
    assert "just started" in answers(effects, "a")[0].reason
    assert updates(effects, "a") == []
    assert ask(desk, "a", take("a").reversed())
    told = desk.tick() + desk.tick() + desk.tick()
    assert [list(update.instances) for update in updates(told, "a")] == [[CAM]]
    assert ask(desk, "a", take("a"))


def test_slots_in_use_of_a_device_that_the_node_does_not_see_stay_in_use() -> None:
    desk = a_desk("b", settled=False)
    ticks(desk, SETTLE_TICKS)
    desk.hello("a", {}, True)
    desk.report("a", grpc.DeviceReport(complete=True, held=[change_to_pb(take("a"))]))
    assert not ask(desk, "b", take("b"))
    assert ask(desk, "a", take("a").reversed())
    assert ask(desk, "b", take("b"))


def test_slots_in_use_of_a_device_that_nobody_sees_are_remembered_for_its_return() -> None:
    desk = a_desk()
    desk.hello("a", {}, True)
    desk.report("a", grpc.DeviceReport(complete=True, held=[change_to_pb(take("a")), grpc.SlotChange(slot="x")]))
    assert desk.instances() == {}
    desk.hello("b", {}, True)
    desk.report("b", a_report(cam_8120fe=an_instance_message("b")))
    assert usage(desk) == {f"{CAM}-0": "C:0:a"}


def test_an_agent_that_came_back_without_devices_holds_none() -> None:
    desk = a_desk("a", "b")
    ask(desk, "a", take("a"))
    desk.hello("a", {}, knows_devices=False)
    assert usage(desk) == {f"{CAM}-0": ""}
    assert list(desk.instances()[CAM].nodes) == ["b"]


# --- what placement wants to know ---


def test_room_is_what_a_container_could_get() -> None:
    desk = a_desk("a", capacity=2)
    desk.hello("b", {"zone": "x"}, True)
    desk.hello("old", {}, knows_devices=False)
    assert desk.candidates() == {"a": {}, "b": {"zone": "x"}}
    assert desk.options("a", "akri.sh/cam") == Options({CAM: 2}, distinct=True)
    assert desk.options("a", f"akri.sh/{CAM}") == Options({CAM: 2})
    assert desk.options("b", "akri.sh/cam") == Options({}, distinct=True)
    assert desk.options("b", "x/gpu") == Options()
    desk.report("b", grpc.DeviceReport(resources=[base.NodeResource(name="x/gpu", allocatable=3, allocated=1)]))
    assert desk.options("b", "x/gpu") == Options({"b:x/gpu": 2})
