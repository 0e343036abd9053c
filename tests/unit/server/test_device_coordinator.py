"""Devices in the state, brokers, and workloads that the server places, tested through an `AnkaiosServer`."""

from collections.abc import Iterable
from typing import Any

import pytest

from ankaios.common.execution_state import (
    PENDING_INITIAL,
    PENDING_STARTING,
    PENDING_WAITING_TO_START,
    REMOVED,
    RUNNING_OK,
    STOPPING,
    SUCCEEDED_OK,
    ExecutionState,
)
from ankaios.common.messages import ToAgent
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_to_pb
from ankaios.common.workload import InstanceName
from ankaios.devices.core.device_messages import slot_request
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from ankaios.server.core import brokers
from ankaios.server.core.device_directory import NODE_LOST_TICKS, SETTLE_TICKS
from ankaios.server.core.replies import Effect, HooksFinished, RunHooks, SecondPassed
from ankaios.server.core.update_rejected import UpdateRejected
from tests.unit.server.directories import an_instance_message
from tests.unit.server.scenario import (
    Scenario,
    a_form,
    a_state,
    altered,
    effects_as_lines,
    error_of,
    success_of,
    the_response,
    web,
)

CAM = "cam-8120fe"
HANDLER = {"discoveryHandler": {"name": "debugEcho"}}


class DeviceScenario(Scenario):
    def __init__(self, *agents: str, has_hooks: bool = False, ticks: int = SETTLE_TICKS, **configuration: Any) -> None:
        super().__init__(has_hooks=has_hooks)
        if ticks:
            self.join("early")
            self.second(ticks)
            self.gone("early")
        self.configure(**configuration)
        for agent in agents:
            self.join(agent)

    def configure(self, **configuration: Any) -> list[Effect]:
        return self.update(
            {"desiredState": {"apiVersion": "v1", "deviceConfigurations": {"cam": HANDLER | configuration}}},
            "desiredState.deviceConfigurations.cam",
        )

    def join(self, agent: str, devices: bool = True, knows: Iterable[InstanceName] | None = ()) -> list[Effect]:
        """The agent answers the request for its known workloads, unless `knows` is None."""
        hello = grpc.AgentHello(agentName=agent, protocolVersion="1.0.0", devices=devices)
        effects = self.from_agent(agent, agentHello=hello)
        if f"{agent}: tellWorkloads" in effects_as_lines(effects) and knows is not None:
            effects += self.reports_known(agent, *knows)
        return effects

    def reports_known(self, agent: str, *names: InstanceName) -> list[Effect]:
        message = grpc.KnownWorkloads(instanceNames=map(instance_name_to_pb, names))
        return self.from_agent(agent, knownWorkloads=message)

    def second(self, number: int = 1) -> list[Effect]:
        return [effect for _ in range(number) for effect in self.server.handle(SecondPassed())]

    def sees(self, agent: str, *names: str, complete: bool = True, owner: str = "", **fields: Any) -> list[Effect]:
        seen = {name: an_instance_message(agent, **fields) for name in names}
        for instance in seen.values() if owner else ():
            for slot in instance.slotOwners.values:
                instance.slotOwners.values[slot] = owner
        return self.from_agent(agent, deviceReport=grpc.DeviceReport(complete=complete, seen=seen))

    def loses(self, agent: str, name: str) -> list[Effect]:
        return self.from_agent(agent, deviceReport=grpc.DeviceReport(gone=[name]))

    def add(self, name: str, **form: Any) -> list[Effect]:
        return self.update(a_state({name: a_form(**form)}), f"desiredState.workloads.{name}")

    def brokers(self) -> dict[str, str]:
        """Workloads of the effective state, with their agents."""
        workloads = self.get("effectiveState.workloads").get("effectiveState", {}).get("workloads", {})
        return {name: form["agent"] for name, form in workloads.items()}

    def why(self, agent: str, workload: str) -> str:
        states = self.get("workloadStates")["workloadStates"][agent][workload]
        (state,) = states.values()
        return f"{state['state']}: {state['additionalInfo']}"


def a_broker(strategy: str, **more: Any) -> dict[str, Any]:
    workload = {"runtime": "podman", "runtimeConfig": "image: x"}
    return {"broker": {"strategy": strategy, "workload": workload, **more}}


def wants_cameras(quantity: int = 1) -> dict[str, Any]:
    return {"resources": [{"name": "cam", "quantity": quantity}]}


# --- devices in the state ---


def test_a_discovered_device_is_part_of_the_state_and_causes_an_event() -> None:
    """[utest->akri~instance-level-resource~1]"""
    scenario = DeviceScenario("n1")
    scenario.subscribe("deviceInstances")
    assert altered(scenario.sees("n1", CAM)) == (["deviceInstances"], [], [])
    instance = scenario.get("deviceInstances")["deviceInstances"][CAM]
    assert (instance["configurationName"], instance["nodes"]) == ("cam", ["n1"])
    assert instance["deviceUsage"] == {f"{CAM}-0": ""}


def test_a_claim_causes_an_event_for_its_slot() -> None:
    scenario = DeviceScenario("n1")
    scenario.sees("n1", CAM)
    scenario.subscribe("deviceInstances")
    change = SlotChange(Slot(CAM, 0), Claim("n1", "0", "web"))
    effects = scenario.from_agent("n1", slotRequest=slot_request("1", [change]))
    added, updated, _ = altered(effects) or ([], [], [])
    assert f"deviceInstances.{CAM}.deviceUsage.{CAM}-0" in updated
    assert any("slotOwners" in path for path in added)


def test_resources_of_a_node_are_part_of_the_state() -> None:
    scenario = DeviceScenario("n1")
    resource = base.NodeResource(name="akri.sh/cam", capacity=2, allocatable=1, allocated=1)
    scenario.from_agent("n1", deviceReport=grpc.DeviceReport(complete=True, resources=[resource]))
    assert scenario.get("agents.n1.resources")["agents"]["n1"]["resources"] == [
        {"name": "akri.sh/cam", "capacity": 2, "allocatable": 1, "allocated": 1}
    ]


def test_an_agent_receives_device_configurations_after_its_hello() -> None:
    scenario = DeviceScenario()
    assert effects_as_lines(scenario.join("n1")) == ["n1: hello +[]", "n1: deviceUpdate"]
    assert effects_as_lines(scenario.join("old", devices=False)) == ["old: hello +[]"]


@pytest.mark.parametrize(
    ("name", "why"), [("cam-8120fe", "device of 'cam'"), ("c" * 60, "at most 56"), ("-cam", "starts and ends")]
)
def test_a_configuration_with_ambiguous_resource_names_is_rejected(name: str, why: str) -> None:
    scenario = DeviceScenario()
    state = {"desiredState": {"apiVersion": "v1", "deviceConfigurations": {name: HANDLER}}}
    assert why in error_of(scenario.update(state, f"desiredState.deviceConfigurations.{name}"))
    assert list(scenario.get("desiredState")["desiredState"]["deviceConfigurations"]) == ["cam"]


# --- agents without device support ---


def test_a_workload_with_devices_is_never_sent_to_an_agent_without_device_support() -> None:
    scenario = DeviceScenario()
    scenario.join("old", devices=False)
    effects = scenario.add("web", agent="old", **wants_cameras())
    assert not [effect for effect in effects if isinstance(effect, ToAgent)]
    assert scenario.why("old", "web") == ("Pending: agent 'old' offers no devices, so the workload is not sent to it")


def test_the_server_hello_omits_workloads_that_the_agent_cannot_serve() -> None:
    scenario = DeviceScenario()
    scenario.add("web", agent="old", **wants_cameras())
    scenario.add("plain", agent="old")
    assert "old: hello +[plain]" in effects_as_lines(scenario.join("old", devices=False))
    assert "offers no devices" in scenario.why("old", "web")
    assert "old: hello +[plain, web]" in effects_as_lines(scenario.join("old"))


def test_a_workload_that_was_never_sent_is_deleted_without_the_agent() -> None:
    scenario = DeviceScenario()
    scenario.join("old", devices=False)
    scenario.add("web", agent="old", **wants_cameras())
    effects = scenario.update(a_state(), "desiredState.workloads.web")
    assert not [effect for effect in effects if isinstance(effect, ToAgent)]
    assert scenario.get("workloadStates") == {"workloadStates": {}}


def test_a_running_workload_that_now_needs_devices_is_deleted_on_an_agent_without_devices() -> None:
    """The instance has the same name before and after: only the new one is withheld."""
    scenario = DeviceScenario()
    scenario.join("old", devices=False)
    scenario.add("web", agent="old")
    scenario.report("old", {web("old"): RUNNING_OK})
    effects = scenario.add("web", agent="old", **wants_cameras())
    assert "old: update +[] -[web]" in effects_as_lines(effects)
    assert "offers no devices" in scenario.why("old", "web")
    scenario.report("old", {web("old"): REMOVED})
    assert "offers no devices" in scenario.why("old", "web")


def test_a_withheld_workload_is_sent_when_it_needs_no_devices_any_more() -> None:
    scenario = DeviceScenario()
    scenario.join("old", devices=False)
    scenario.add("web", agent="old", **wants_cameras())
    effects = scenario.add("web", agent="old")
    assert "old: update +[web] -[]" in effects_as_lines(effects)
    assert scenario.why("old", "web") == "Pending: "
    assert "old: update +[] -[web]" in effects_as_lines(scenario.update(a_state(), "desiredState.workloads.web"))


# --- placements ---


def test_an_agent_that_the_user_chose_takes_precedence_over_a_placement() -> None:
    scenario = DeviceScenario("n1", "n2")
    scenario.add("web", agent="n2", placement={}, **wants_cameras())
    assert (scenario.brokers(), scenario.why("n2", "web")) == ({"web": "n2"}, "Pending: ")
    scenario.sees("n1", CAM)
    assert scenario.brokers() == {"web": "n2"}


@pytest.mark.parametrize("more", [{"config": "image: new"}, {"tags": {"key": "value"}}])
def test_the_end_of_the_old_instance_leaves_the_device_of_the_new_one_reserved(more: dict[str, Any]) -> None:
    """The instance name may be the same or a different one."""
    scenario = DeviceScenario("n1")
    scenario.sees("n1", CAM)
    scenario.add("web", agent="", placement={}, **wants_cameras())
    scenario.add("web", agent="", placement={}, **wants_cameras(), **more)
    for state in (STOPPING, REMOVED):
        scenario.report("n1", {web("n1"): state})
    scenario.add("second", agent="", placement={}, **wants_cameras())
    assert scenario.brokers() == {"web": "n1", "second": ""}


@pytest.mark.parametrize("more", [{"config": "image: new"}, {"tags": {"key": "value"}}])
def test_an_update_of_a_started_workload_reserves_its_device_again(more: dict[str, Any]) -> None:
    """Otherwise a waiting workload is placed for the device between the two instances."""
    scenario = DeviceScenario("n1")
    scenario.sees("n1", CAM)
    scenario.add("web", agent="", placement={}, **wants_cameras())
    scenario.report("n1", {web("n1"): RUNNING_OK})
    scenario.add("second", agent="", placement={"tags": {"zone": "rear"}}, **wants_cameras())
    scenario.add("web", agent="", placement={}, **wants_cameras(), **more)
    for state in (STOPPING, REMOVED):
        scenario.report("n1", {web("n1"): state})
    scenario.add("third", agent="", placement={}, **wants_cameras())
    assert scenario.brokers() == {"web": "n1", "second": "", "third": ""}


def test_a_workload_does_not_move_while_hooks_check_its_deletion() -> None:
    """Otherwise its deletion would be sent to the wrong agent, and the workload would not stop."""
    scenario = DeviceScenario("n1", "n2", has_hooks=True)
    scenario.sees("n1", CAM)
    scenario.add("web", agent="", placement={}, **wants_cameras())
    scenario.server.handle(HooksFinished(None))
    scenario.report("n1", {web("n1"): RUNNING_OK})
    scenario.gone("n1")
    scenario.sees("n2", CAM)
    scenario.update(a_state(), "desiredState.workloads.web")
    scenario.second(NODE_LOST_TICKS)
    assert scenario.brokers() == {"web": "n1"}
    assert success_of(scenario.server.handle(HooksFinished(None))) == ([], [str(web("n1"))])
    assert scenario.brokers() == {}


def test_pending_broker_changes_are_applied_after_hooks_rejected_an_update() -> None:
    scenario = DeviceScenario("n1", has_hooks=True, **a_broker("perNode"))
    scenario.add("web", agent="n1")
    scenario.sees("n1", CAM)
    assert scenario.brokers() == {}
    effects = scenario.server.handle(HooksFinished(UpdateRejected("no")))
    assert "no" in error_of(effects)
    assert f"n1: update +[{CAM}-broker-n1] -[]" in effects_as_lines(effects)


def shown_to_hooks(effects: list[Effect]) -> list[grpc.UpdateWorkload]:
    return [effect.update for effect in effects if isinstance(effect, RunHooks)]


def test_hooks_receive_updates_of_the_desired_state_and_not_decisions_of_the_server() -> None:
    """The device configuration of a broker was accepted earlier, so no requester waits for a rejection."""
    scenario = DeviceScenario("n1", has_hooks=True)
    effects = scenario.configure(**a_broker("perNode"))
    effects += scenario.sees("n1", CAM)
    assert scenario.brokers() == {f"{CAM}-broker-n1": "n1"}
    effects += scenario.configure()
    assert (scenario.brokers(), shown_to_hooks(effects)) == ({}, [])


def test_hooks_receive_a_workload_before_its_placement_and_their_changes_move_with_it() -> None:
    scenario = DeviceScenario("n1", "n2", has_hooks=True)
    (shown,) = shown_to_hooks(scenario.add("web", agent="", placement={}))
    (added,) = shown.addedWorkloads
    assert added.workload.agent == added.instanceName.agentName == ""
    added.workload.tags.tags["checked"] = "yes"
    scenario.server.handle(HooksFinished(shown))
    assert scenario.brokers() == {"web": "n1"}
    scenario.gone("n1")
    assert shown_to_hooks(scenario.second(NODE_LOST_TICKS)) == []
    assert scenario.get("effectiveState.workloads.web")["effectiveState"]["workloads"]["web"] == a_form(
        "n2", restartPolicy="NEVER", tags={"checked": "yes"}, placement={}
    )


def test_the_server_places_a_workload_and_reports_the_reason() -> None:
    """[utest->akri~workload-requests-resources~1]"""
    scenario = DeviceScenario("n1", "n2")
    scenario.sees("n2", CAM)
    effects = scenario.add("web", agent="", placement={}, **wants_cameras())
    assert [name.split(".")[0::2] for name in success_of(effects)[0]] == [["web", "n2"]]
    assert "n2: update +[web] -[]" in effects_as_lines(effects)
    assert scenario.why("n2", "web") == "Pending: agent 'n2' has the most free devices for 1 x akri.sh/cam"
    assert scenario.get("desiredState.workloads.web.agent")["desiredState"]["workloads"]["web"]["agent"] == ""


def test_a_workload_without_placement_waits_until_a_device_appears() -> None:
    """[utest->akri~denied-workload-waits-and-recovers~1]"""
    scenario = DeviceScenario("n1")
    scenario.add("web", agent="", placement={}, **wants_cameras())
    assert scenario.why("", "web") == "NotScheduled: no agent has enough free devices for 1 x akri.sh/cam"
    effects = scenario.sees("n1", CAM)
    assert scenario.brokers() == {"web": "n1"}
    assert any(line.startswith("n1: update") for line in effects_as_lines(effects))
    assert list(scenario.get("workloadStates")["workloadStates"]) == ["n1"]


def test_two_workloads_are_not_placed_for_one_device() -> None:
    scenario = DeviceScenario("n1")
    scenario.sees("n1", CAM)
    scenario.add("first", agent="", placement={}, **wants_cameras())
    scenario.add("second", agent="", placement={}, **wants_cameras())
    assert scenario.brokers() == {"first": "n1", "second": ""}
    effects = scenario.update(a_state(), "desiredState.workloads.first")
    assert scenario.brokers() == {"second": "n1"}
    assert "n1: update +[second] -[]" in effects_as_lines(effects)


def test_a_placement_is_kept_until_the_agent_is_lost() -> None:
    scenario = DeviceScenario("n1", "n2")
    scenario.sees("n1", CAM)
    scenario.add("web", agent="", placement={}, **wants_cameras())
    scenario.report("n1", {InstanceName.of("web", "n1", "image: alpine:3"): RUNNING_OK})
    scenario.gone("n1")
    assert scenario.brokers() == {"web": "n1"}
    scenario.sees("n2", CAM)
    scenario.second(NODE_LOST_TICKS - 1)
    assert scenario.brokers() == {"web": "n1"}
    scenario.second()
    assert scenario.brokers() == {"web": "n2"}


def test_a_reservation_ends_when_the_workload_started() -> None:
    scenario = DeviceScenario("n1", capacity=2)
    scenario.sees("n1", CAM)
    for name, state in (("a", PENDING_WAITING_TO_START), ("b", PENDING_STARTING)):
        scenario.add(name, agent="", placement={}, **wants_cameras())
        scenario.report("n1", {InstanceName.of(name, "n1", "image: alpine:3"): state})
    assert scenario.brokers() == {"a": "n1", "b": "n1"}
    scenario.add("c", agent="", placement={}, **wants_cameras())
    assert scenario.brokers()["c"] == "n1"  # the claim of b is not reported yet; the agent will delay it


def test_a_placement_may_require_tags() -> None:
    scenario = DeviceScenario("n1", "n2")
    scenario.sees("n1", CAM)
    scenario.sees("n2", CAM)
    scenario.add("web", agent="", placement={"tags": {"zone": "rear"}}, **wants_cameras())
    assert "has the tags zone=rear" in scenario.why("", "web")
    scenario.update(
        {"desiredState": {"apiVersion": "v1"}, "agents": {"n2": {"tags": {"zone": "rear"}}}}, "agents.n2.tags"
    )
    assert scenario.brokers() == {"web": "n2"}


# --- after a start of the server ---


def after_a_start(*workloads: str, broker: dict[str, Any] | None = None, **form: Any) -> DeviceScenario:
    """No second has passed yet, so agents may still reconnect."""
    scenario = DeviceScenario(ticks=0, capacity=1, **(broker or {}))
    for name in workloads:
        scenario.add(name, **form)
    return scenario


def greeted(effects: list[Effect]) -> list[str]:
    return [line for line in effects_as_lines(effects) if ": hello" in line]


def used_by(workload: str, node: str, config: str = "image: alpine:3") -> dict[str, Any]:
    return {"usage": {f"{CAM}-0": f"C:0:{node}"}, "owner": str(InstanceName.of(workload, node, config))}


def test_an_agent_is_greeted_when_its_report_determines_its_brokers() -> None:
    """The agent deletes the workloads that its greeting does not contain."""
    scenario = after_a_start(broker=a_broker("perNode"))
    assert effects_as_lines(scenario.join("n1")) == ["n1: tellWorkloads", "n1: deviceUpdate"]
    assert greeted(scenario.sees("n1", CAM)) == [f"n1: hello +[{CAM}-broker-n1]"]
    assert greeted(scenario.join("old", devices=False)) == ["old: hello +[]"]


def test_an_agent_that_reports_nothing_is_greeted_after_the_settle_time() -> None:
    scenario = after_a_start("web", agent="n1")
    assert greeted(scenario.join("n1") + scenario.second(SETTLE_TICKS - 1)) == []
    assert greeted(scenario.second()) == ["n1: hello +[web]"]
    assert greeted(scenario.second()) == []


def test_a_workload_stays_where_it_holds_a_device() -> None:
    """That device is in use, and another agent has a free device and is the first by name."""
    scenario = after_a_start("web", agent="", placement={}, **wants_cameras())
    scenario.join("n1")
    assert greeted(scenario.sees("n1", "cam-a19705", shared=False)) == ["n1: hello +[]"]
    assert scenario.brokers() == {"web": ""}
    scenario.join("n2")
    assert greeted(scenario.sees("n2", CAM, shared=False, **used_by("web", "n2"))) == ["n2: hello +[web]"]
    assert scenario.why("n2", "web") == "Pending: it uses devices of agent 'n2' already"
    scenario.second(SETTLE_TICKS)
    assert scenario.brokers() == {"web": "n2"}


def test_a_workload_that_now_requires_other_tags_leaves_its_device() -> None:
    scenario = after_a_start("web", agent="", placement={"tags": {"zone": "rear"}}, **wants_cameras())
    scenario.join("n1")
    scenario.sees("n1", CAM, **used_by("web", "n2"))
    assert scenario.brokers() == {"web": "n2"}, "the tags of n2 are not known yet, so it may stay there"
    other = after_a_start("web", agent="", placement={"tags": {"zone": "rear"}}, **wants_cameras())
    other.join("n2")
    other.sees("n2", CAM, **used_by("web", "n2"))
    assert other.brokers() == {"web": ""}


def test_a_changed_workload_is_placed_again() -> None:
    scenario = after_a_start("web", agent="", placement={}, **wants_cameras())
    scenario.join("n1")
    effects = scenario.sees("n1", CAM, shared=False, **used_by("web", "n1", config="image: old"))
    assert (greeted(effects), scenario.brokers()) == ([], {"web": ""})
    assert greeted(scenario.second(SETTLE_TICKS)) == ["n1: hello +[]"]


GPU = {"resources": [{"name": "example.com/gpu", "quantity": 1}]}


@pytest.mark.parametrize("resources", [{}, GPU])
@pytest.mark.parametrize("order", [("n1", "n2"), ("n2", "n1")])
def test_a_workload_stays_on_the_agent_that_reports_it(order: tuple[str, str], resources: dict[str, Any]) -> None:
    """Both agents are equal and the other one is the first by name; n2 receives no greeting without the workload."""
    scenario = after_a_start("web", agent="", placement={}, **resources)
    effects: dict[str, list[Effect]] = {}
    for agent in order:
        effects[agent] = scenario.join(agent, knows=[web("n2")]) + scenario.sees(agent)
    assert (greeted(effects["n1"]), greeted(effects["n2"])) == (["n1: hello +[]"], ["n2: hello +[web]"])
    assert not [line for line in effects_as_lines(effects["n2"]) if "update" in line], (
        "the greeting is the only message with workloads"
    )
    scenario.second(SETTLE_TICKS)
    assert scenario.brokers() == {"web": "n2"}
    assert scenario.why("n2", "web") == "Pending: it is on agent 'n2' already"


def test_the_request_for_known_workloads_is_the_first_message_to_an_agent() -> None:
    """With the first states that it receives, an agent drops the states of other agents that it knew."""
    scenario = after_a_start("web", "other", agent="", placement={})
    assert [line.partition(" [")[0] for line in effects_as_lines(scenario.join("n1", knows=None))] == [
        "n1: tellWorkloads",
        "n1: states",
        "n1: deviceUpdate",
    ]
    assert effects_as_lines(scenario.join("old", devices=False))[-1] == "old: hello +[]"


def test_an_agent_that_does_not_answer_is_greeted_after_the_settle_time() -> None:
    scenario = after_a_start("web", agent="", placement={})
    for agent in ("n2", "n1"):
        assert greeted(scenario.join(agent, knows=None) + scenario.sees(agent, CAM)) == []
    assert greeted(scenario.second(SETTLE_TICKS)) == ["n1: hello +[web]", "n2: hello +[]"]


def test_the_time_to_reconnect_begins_with_the_first_agent_that_reconnects() -> None:
    """All agents may have been disconnected from the server while it started."""
    scenario = after_a_start("web", agent="", placement={})
    scenario.second(10 * SETTLE_TICKS)
    assert scenario.why("", "web") == "NotScheduled: no connected agent offers devices"
    scenario.join("n1")
    assert (
        scenario.why("", "web") == "NotScheduled: the server has just started and waits for the reports of its agents"
    )
    scenario.second(SETTLE_TICKS - 1)
    assert greeted(scenario.join("n2", knows=[web("n2")]) + scenario.sees("n2")) == ["n2: hello +[web]"]
    scenario.second(SETTLE_TICKS)
    assert scenario.brokers() == {"web": "n2"}


def test_a_workload_waits_for_the_agent_on_which_another_agent_reports_it() -> None:
    scenario = after_a_start("web", agent="", placement={})
    scenario.join("n1", knows=[web("n2")])
    scenario.second(SETTLE_TICKS)
    assert (scenario.brokers(), scenario.why("n2", "web")) == (
        {"web": "n2"},
        "Pending: it was on agent 'n2' according to another agent",
    )
    scenario.second(NODE_LOST_TICKS - 1)
    assert greeted(scenario.join("n2")) == ["n2: hello +[web]"]


def test_a_workload_whose_agent_never_returns_is_placed_again() -> None:
    scenario = after_a_start("web", agent="", placement={})
    scenario.join("n1", knows=[web("n2")])
    scenario.second(SETTLE_TICKS + NODE_LOST_TICKS - 1)
    assert scenario.brokers() == {"web": "n2"}
    scenario.second()
    assert (scenario.brokers(), scenario.why("n1", "web")) == (
        {"web": "n1"},
        "Pending: agent 'n1' is the first by name",
    )


@pytest.mark.parametrize("knows_devices", [True, False])
def test_reports_about_a_connected_agent_are_ignored(knows_devices: bool) -> None:
    """The agent has reported no workloads, or the workload cannot be placed on it."""
    scenario = after_a_start("web", agent="", placement={})
    scenario.join("n1", knows=[web("n2")])
    scenario.join("n2", devices=knows_devices)
    scenario.second(SETTLE_TICKS)
    assert scenario.brokers() == {"web": "n1"}


@pytest.mark.parametrize(
    ("form", "reported"),
    [
        ({"placement": {}, "config": "image: new"}, web("n2")),
        ({"placement": {"tags": {"zone": "rear"}}}, web("n2")),
        ({"placement": {}}, InstanceName.of("other", "n2", "image: alpine:3")),
    ],
)
def test_a_workload_is_not_placed_on_an_agent_that_reports_another_instance(
    form: dict[str, Any], reported: InstanceName
) -> None:
    """The workload changed while the server was stopped, or is another one. The greeting waits for the settle time."""
    scenario = after_a_start("web", agent="", **form)
    scenario.join("n1")
    assert greeted(scenario.join("n2", knows=[reported]) + scenario.sees("n2")) == []
    assert "n2: hello +[]" in greeted(scenario.second(SETTLE_TICKS))
    assert scenario.brokers()["web"] != "n2"


def test_an_agent_that_reconnects_during_the_settle_time_reports_again() -> None:
    scenario = after_a_start("web", agent="", placement={})
    scenario.join("n2", knows=[InstanceName.of("web", "n2", "image: old")])
    scenario.gone("n2")
    assert greeted(scenario.join("n2", knows=[web("n2")]) + scenario.sees("n2")) == ["n2: hello +[web]"]


def test_of_two_agents_that_report_a_workload_the_first_one_keeps_it() -> None:
    scenario = after_a_start("web", agent="", placement={})
    scenario.join("n2", knows=[web("n2")])
    scenario.join("n1", knows=[web("n1")])
    scenario.sees("n1")
    assert scenario.brokers() == {"web": "n2"}
    assert greeted(scenario.second(SETTLE_TICKS)) == ["n1: hello +[]", "n2: hello +[web]"]


def test_known_workloads_are_ignored_after_the_settle_time() -> None:
    scenario = DeviceScenario()
    scenario.add("web", agent="", placement={})
    assert "n1: hello +[web]" in effects_as_lines(scenario.join("n1"))
    scenario.reports_known("n2", web("n2"))
    assert scenario.brokers() == {"web": "n1"}


def test_a_job_that_ended_is_not_run_again_on_another_agent() -> None:
    """The job holds no device any more, but its agent still has the job."""
    scenario = after_a_start(broker=a_broker("perDevice"))
    job = InstanceName.of(f"{CAM}-job", "n2", "image: x")
    scenario.join("n1")
    scenario.join("n2", knows=[job])
    scenario.sees("n1", CAM)
    assert greeted(scenario.sees("n2", CAM)) == [f"n2: hello +[{CAM}-job]"]
    scenario.second(SETTLE_TICKS)
    assert scenario.brokers() == {f"{CAM}-job": "n2"}


def test_a_workload_deleted_before_its_agent_is_greeted_leaves_no_state() -> None:
    scenario = after_a_start("web", "other", agent="n1")
    scenario.join("n1")
    scenario.add("late", agent="n1")
    for name in ("web", "late"):
        effects = scenario.update(a_state(), f"desiredState.workloads.{name}")
        assert not [effect for effect in effects if isinstance(effect, ToAgent)]
    assert list(scenario.get("workloadStates")["workloadStates"]["n1"]) == ["other"]
    assert greeted(scenario.sees("n1", CAM)) == ["n1: hello +[other]"]
    assert "n1: update +[] -[other]" in effects_as_lines(scenario.update(a_state(), "desiredState.workloads.other"))


def test_without_devices_and_placements_agents_are_greeted_immediately() -> None:
    scenario = after_a_start("web", agent="n1")
    scenario.update({"desiredState": {"apiVersion": "v1"}}, "desiredState.deviceConfigurations")
    assert greeted(scenario.join("n1")) == ["n1: hello +[web]"]


def test_an_agent_that_disconnected_before_its_greeting_gets_none() -> None:
    scenario = after_a_start("web", agent="n1")
    scenario.join("n1")
    scenario.gone("n1")
    assert greeted(scenario.second(SETTLE_TICKS)) == []
    assert greeted(scenario.join("n1")) == ["n1: hello +[web]"]


# --- brokers ---


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("perNode", {f"{CAM}-broker-n1": "n1"}),
        ("perDevice", {f"{CAM}-job": "n1"}),
        ("perConfiguration", {"cam-broker-0": "n1"}),
    ],
)
def test_a_broker_is_added_and_removed_with_its_device(strategy: str, expected: dict[str, str]) -> None:
    """[utest->akri~broker-per-node~1] [utest->akri~broker-job-per-device~1]
    [utest->akri~broker-on-configuration-level~1] [utest->akri~broker-removed-with-device~1]
    """
    scenario = DeviceScenario("n1", **a_broker(strategy))
    assert scenario.brokers() == {}
    effects = scenario.sees("n1", CAM)
    assert scenario.brokers() == expected
    assert any(line.startswith("n1: update +") for line in effects_as_lines(effects))
    assert scenario.get("desiredState.workloads")["desiredState"]["workloads"] == {}
    before = scenario.get("effectiveState")
    scenario.sees("n1", CAM, complete=False, online=False)
    assert scenario.get("effectiveState") == before
    effects = scenario.loses("n1", CAM)
    assert scenario.brokers() == {}
    assert any(line.startswith("n1: update") for line in effects_as_lines(effects))


def test_a_changed_broker_replaces_the_running_one() -> None:
    scenario = DeviceScenario("n1", **a_broker("perNode"))
    scenario.sees("n1", CAM)
    changed = a_broker("perNode")
    changed["broker"]["workload"]["runtimeConfig"] = "image: y"
    effects = scenario.configure(**changed)
    (line,) = [line for line in effects_as_lines(effects) if line.startswith("n1: update")]
    assert line.count(f"{CAM}-broker") == 2
    scenario.configure()
    assert scenario.brokers() == {}


def test_a_broker_is_rendered_with_configs() -> None:
    broker = a_broker("perNode")
    broker["broker"]["workload"] |= {"runtimeConfig": "image: {{image}}", "configs": {"image": "image"}}
    scenario = DeviceScenario("n1")
    scenario.update({"desiredState": {"apiVersion": "v1", "configs": {"image": "x"}}}, "desiredState.configs.image")
    scenario.configure(**broker)
    scenario.sees("n1", CAM)

    def image() -> str:
        workloads = scenario.get("effectiveState.workloads")["effectiveState"]["workloads"]
        return str(workloads[f"{CAM}-broker-n1"]["runtimeConfig"])

    assert image() == "image: x"
    scenario.update({"desiredState": {"apiVersion": "v1", "configs": {"image": "y"}}}, "desiredState.configs.image")
    assert image() == "image: y"
    refused = error_of(scenario.update({"desiredState": {"apiVersion": "v1"}}, "desiredState.configs.image"))
    assert "the broker of device configuration 'cam' references config key 'image' that does not exist" in refused
    assert image() == "image: y"


def test_a_broker_with_a_missing_config_is_rejected_like_a_workload() -> None:
    broker = a_broker("perNode")
    broker["broker"]["workload"] |= {"runtimeConfig": "image: {{image}}", "configs": {"image": "image"}}
    scenario = DeviceScenario("n1")
    refused = error_of(scenario.configure(**broker))
    assert "the broker of device configuration 'cam' references config key 'image' that does not exist" in refused
    assert "broker" not in scenario.get("desiredState")["desiredState"]["deviceConfigurations"]["cam"]


def test_a_workload_of_the_user_takes_precedence_over_a_broker_of_the_same_name() -> None:
    scenario = DeviceScenario("n1", **a_broker("perNode"))
    scenario.sees("n1", CAM)
    name = f"{CAM}-broker-n1"
    scenario.add(name, agent="n1", config="image: mine")
    effective = scenario.get("effectiveState.workloads")["effectiveState"]["workloads"]
    assert effective[name]["runtimeConfig"] == "image: mine"
    scenario.loses("n1", CAM)
    assert scenario.brokers() == {name: "n1"}
    scenario.update(a_state(), f"desiredState.workloads.{name}")
    scenario.sees("n1", CAM)
    assert scenario.brokers() == {name: "n1"}


def test_replicas_are_spread_over_the_agents_with_free_devices() -> None:
    scenario = DeviceScenario("n1", "n2", **a_broker("perConfiguration", replicas=3))
    scenario.sees("n1", CAM, shared=False)
    scenario.sees("n2", "cam-a19705", shared=False)
    assert scenario.brokers() == {"cam-broker-0": "n1", "cam-broker-1": "n2"}


def test_a_workload_that_waits_for_the_device_of_a_broker_gets_it_when_the_broker_is_removed() -> None:
    scenario = DeviceScenario("n1", **a_broker("perConfiguration"))
    scenario.sees("n1", CAM)
    scenario.add("web", agent="", placement={}, **wants_cameras())
    assert scenario.brokers() == {"cam-broker-0": "n1", "web": ""}
    scenario.configure()
    assert scenario.brokers() == {"web": "n1"}


def test_a_claim_and_a_workload_of_a_user_do_not_recompute_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = DeviceScenario("n1", **a_broker("perNode"))
    scenario.sees("n1", CAM)
    made: list[str] = []

    def seen_making(configuration: str, *_: Any) -> dict[str, Any]:
        made.append(configuration)
        return {}

    monkeypatch.setattr(brokers, "brokers_of", seen_making)
    change = SlotChange(Slot(CAM, 0), Claim("n1", "0", "web"))
    scenario.from_agent("n1", slotRequest=slot_request("1", [change]))
    scenario.add("web")
    scenario.update({"desiredState": {"apiVersion": "v1", "configs": {"other": "x"}}}, "desiredState.configs.other")
    assert (made, list(scenario.brokers())) == ([], [f"{CAM}-broker-n1", "web"])


def test_a_broker_is_added_when_the_workload_with_its_name_is_deleted() -> None:
    name = f"{CAM}-broker-n1"
    scenario = DeviceScenario("n1", **a_broker("perNode"))
    scenario.add(name, agent="n1", config="image: mine")
    scenario.sees("n1", CAM)
    scenario.update(a_state(), f"desiredState.workloads.{name}")
    workloads = scenario.get("effectiveState.workloads")["effectiveState"]["workloads"]
    assert workloads[name]["runtimeConfig"] == "image: x"


# --- released slots and lost devices ---


def test_a_placed_workload_gets_a_slot_that_was_reserved_and_not_needed() -> None:
    """The holder of a slot is replaced by two placed workloads; the first one claims before the holder is removed."""
    scenario = DeviceScenario("n1", capacity=2)
    holder = InstanceName.of("x", "n1", "image: x")
    scenario.add("x", agent="n1", config="image: x", **wants_cameras())
    scenario.sees("n1", CAM, capacity=2, shared=False, usage={f"{CAM}-0": "C:0:n1"}, owner=str(holder))
    new = {name: a_form(agent="", placement={}, **wants_cameras()) for name in ("p1", "p2")}
    scenario.update(a_state(new), *(f"desiredState.workloads.{name}" for name in ("x", "p1", "p2")))
    assert scenario.brokers() == {"p1": "n1", "p2": ""}
    first = InstanceName.of("p1", "n1", "image: alpine:3")
    usage = {f"{CAM}-0": "C:0:n1", f"{CAM}-1": "C:1:n1"}
    scenario.sees("n1", CAM, complete=False, capacity=2, shared=False, usage=usage, owner=str(first))
    usage = {f"{CAM}-1": "C:1:n1"}
    scenario.sees("n1", CAM, complete=False, capacity=2, shared=False, usage=usage, owner=str(first))
    assert scenario.brokers() == {"p1": "n1", "p2": ""}
    assert "n1: update +[p2] -[]" in effects_as_lines(scenario.report("n1", {first: RUNNING_OK}))
    assert scenario.brokers() == {"p1": "n1", "p2": "n1"}


def test_placement_counts_only_devices_that_the_agent_itself_sees_online() -> None:
    scenario = DeviceScenario("n1", "n2")
    scenario.sees("n1", CAM, online=False)
    scenario.sees("n2", CAM)
    assert scenario.get("deviceInstances")["deviceInstances"][CAM]["onlineNodes"] == ["n2"]
    scenario.add("web", agent="", placement={}, **wants_cameras())
    assert scenario.brokers() == {"web": "n2"}


def test_a_placed_workload_moves_when_its_agent_has_lost_the_device_and_another_one_has_it() -> None:
    scenario = DeviceScenario("n1", "n2", onDeviceLost="restart")
    scenario.sees("n1", CAM)
    scenario.sees("n2")
    scenario.add("web", agent="", placement={}, **wants_cameras())
    scenario.report("n1", {web("n1"): RUNNING_OK})
    scenario.loses("n1", CAM)
    scenario.report("n1", {web("n1"): PENDING_WAITING_TO_START})
    assert scenario.brokers() == {"web": "n1"}
    lines = effects_as_lines(scenario.sees("n2", CAM))
    assert "n1: update +[] -[web]" in lines and "n2: update +[web] -[]" in lines
    assert scenario.brokers() == {"web": "n2"}


@pytest.mark.parametrize(("policy", "state"), [("keep", PENDING_WAITING_TO_START), ("restart", RUNNING_OK)])
def test_a_workload_that_is_not_restarted_because_of_a_lost_device_stays(policy: str, state: ExecutionState) -> None:
    scenario = DeviceScenario("n1", "n2", onDeviceLost=policy)
    scenario.sees("n1", CAM)
    scenario.sees("n2")
    scenario.add("web", agent="", placement={}, **wants_cameras())
    scenario.loses("n1", CAM)
    scenario.report("n1", {web("n1"): state})
    scenario.sees("n2", CAM)
    assert scenario.brokers() == {"web": "n1"}


def test_a_workload_waits_for_a_device_that_is_offline_for_a_short_time() -> None:
    scenario = DeviceScenario("n1", "n2", onDeviceLost="restart")
    scenario.sees("n1", CAM)
    scenario.sees("n2")
    scenario.add("web", agent="", placement={}, **wants_cameras())
    scenario.sees("n1", CAM, complete=False, online=False)
    scenario.report("n1", {web("n1"): PENDING_WAITING_TO_START})
    scenario.sees("n2", "cam-a19705")
    assert scenario.brokers() == {"web": "n1"}


@pytest.mark.parametrize(("state", "agent"), [(RUNNING_OK, "n2"), (SUCCEEDED_OK, "n1")])
def test_the_broker_of_a_device_moves_to_an_agent_that_sees_the_device(state: ExecutionState, agent: str) -> None:
    """A job that has succeeded is not run again."""
    scenario = DeviceScenario("n1", "n2", **a_broker("perDevice"))
    scenario.sees("n1", CAM)
    scenario.sees("n2", CAM)
    assert scenario.brokers() == {f"{CAM}-job": "n1"}
    scenario.report("n1", {InstanceName.of(f"{CAM}-job", "n1", "image: x"): state})
    scenario.loses("n1", CAM)
    assert scenario.brokers() == {f"{CAM}-job": agent}


# --- selectors ---


def test_a_workload_is_placed_on_the_agent_whose_device_has_the_properties() -> None:
    scenario = DeviceScenario("n1", "n2")
    scenario.sees("n1", CAM, shared=False, properties={"VENDOR": "other"})
    scenario.sees("n2", "cam-a19705", shared=False, properties={"VENDOR": "acme"})
    resources = [{"name": "cam", "quantity": 1, "where": {"VENDOR": "acme"}}]
    scenario.add("web", agent="", placement={}, resources=resources)
    scenario.add("none", agent="", placement={}, resources=[{**resources[0], "where": {"VENDOR": "unknown"}}])
    assert scenario.brokers() == {"none": "", "web": "n2"}
    assert scenario.why("", "none").endswith("no agent has enough free devices for 1 x akri.sh/cam with VENDOR=unknown")


def test_the_state_of_a_running_workload_names_its_device_that_is_offline() -> None:
    scenario = DeviceScenario("n1")
    scenario.add("web", agent="n1", **wants_cameras())
    usage = {f"{CAM}-0": "C:0:n1"}
    scenario.sees("n1", CAM, shared=False, usage=usage, owner=str(web("n1")))
    scenario.report("n1", {web("n1"): RUNNING_OK})
    assert scenario.why("n1", "web") == "Running: "
    scenario.sees("n1", CAM, complete=False, shared=False, usage=usage, owner=str(web("n1")), online=False)
    assert scenario.why("n1", "web") == f"Running: its device '{CAM}' is offline"
    scenario.report("n1", {web("n1"): RUNNING_OK})
    assert scenario.why("n1", "web") == f"Running: its device '{CAM}' is offline"
    lost = an_instance_message("n1", usage, shared=False, online=False)
    lost.slotOwners.values[f"{CAM}-0"] = str(web("n1"))
    lost.lost, lost.offlineSinceMs = True, 1_700_000_000_000
    scenario.from_agent("n1", deviceReport=grpc.DeviceReport(seen={CAM: lost}))
    assert scenario.why("n1", "web") == f"Running: its device '{CAM}' is lost since 2023-11-14T22:13:20Z"
    assert scenario.get("deviceInstances")["deviceInstances"][CAM]["lost"] is True
    scenario.sees("n1", CAM, complete=False, shared=False, usage=usage, owner=str(web("n1")))
    assert scenario.why("n1", "web") == "Running: "


def test_a_broker_is_removed_with_its_device_although_its_claim_keeps_the_device_visible() -> None:
    """[utest->akri~broker-removed-with-device~1]"""
    scenario = DeviceScenario("n1", **a_broker("perNode"))
    usage, owner = {f"{CAM}-0": "C:0:n1"}, f"{CAM}-broker.0.n1"
    scenario.sees("n1", CAM, shared=False, usage=usage, owner=owner)
    assert scenario.brokers() == {f"{CAM}-broker": "n1"}
    lost = an_instance_message("n1", usage, shared=False, online=False)
    lost.slotOwners.values[f"{CAM}-0"] = owner
    lost.lost = True
    scenario.from_agent("n1", deviceReport=grpc.DeviceReport(seen={CAM: lost}))
    assert scenario.get("deviceInstances")["deviceInstances"][CAM]["lost"] is True
    assert scenario.brokers() == {}
    scenario.sees("n1", CAM, complete=False, shared=False, usage=usage, owner=owner)
    assert scenario.brokers() == {f"{CAM}-broker": "n1"}


def test_why_names_the_devices_that_the_agent_lacks_unless_the_instance_has_them() -> None:
    scenario = DeviceScenario("n1")
    scenario.add("web", agent="n1", **wants_cameras())
    scenario.report("n1", {web("n1"): PENDING_INITIAL})
    missing = "waits for devices: 1 x akri.sh/cam, agent 'n1' has not enough free ones"
    assert causes(scenario, "web") == [missing]
    scenario.sees("n1", CAM)
    assert causes(scenario, "web") == ["is starting"]
    scenario.sees("n1", CAM, usage={f"{CAM}-0": "C:0:n1"}, owner=str(web("n1")))
    assert causes(scenario, "web") == [missing]  # another instance may have claimed it
    scenario.report("n1", {web("n1"): PENDING_STARTING})
    assert causes(scenario, "web") == ["is starting"]


def causes(scenario: DeviceScenario, workload: str) -> list[str]:
    response = the_response(scenario.ask("w", whyRequest=base.WhyRequest(workload=workload)))
    return [cause.text for cause in response.whyResponse.causes]


@pytest.mark.parametrize("is_desired", [True, False])
def test_the_older_of_two_claims_is_kept_if_its_workload_is_still_desired(
    is_desired: bool, caplog: pytest.LogCaptureFixture
) -> None:
    scenario = DeviceScenario("n1", "n2")
    scenario.add("web", agent="n1", **wants_cameras())
    older, newer = Claim("n1", "0", str(web("n1"))), Claim("n2", "0", "other.1.n2")
    for agent in ("n1", "n2"):
        scenario.sees(agent, CAM)
    scenario.from_agent("n1", slotRequest=slot_request("1", [SlotChange(Slot(CAM, 0), older)]))
    scenario.gone("n1")
    scenario.second(NODE_LOST_TICKS)
    scenario.from_agent("n2", slotRequest=slot_request("1", [SlotChange(Slot(CAM, 0), newer)]))
    if not is_desired:
        scenario.update(a_state(), "desiredState.workloads.web")
    scenario.join("n1")
    scenario.sees("n1", CAM, usage={f"{CAM}-0": "C:0:n1"}, owner=str(web("n1")))
    owners = scenario.get("deviceInstances")["deviceInstances"][CAM]["slotOwners"]
    assert owners == {f"{CAM}-0": older.owner if is_desired else newer.owner}
    assert ("is held twice" in caplog.text) == is_desired
