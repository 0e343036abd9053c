"""Decisions about workload changes, before anything is committed."""

from collections.abc import Mapping
from typing import Any

from ankaios.common.execution_state import PENDING_INITIAL
from ankaios.common.workload import InstanceName
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.placement import FreeDevices, PlacementDecision, PlacementRequest, Placements
from ankaios.server.core.workload_plan import PlanningFacts, WorkloadChanges, plan_workloads

CAMERA: dict[str, Any] = {"resources": [{"name": "cam", "quantity": 1}]}


class Cluster:
    """Agent a offers one camera, `old` is connected and offers no devices, `new` is not greeted yet."""

    def __init__(self) -> None:
        self.free = 1
        self.placements = Placements()
        self.unsent: set[InstanceName] = set()
        self.fixed: PlacementDecision | None = None
        self.facts = PlanningFacts(
            placements=self.placements,
            supply=self,
            fixed=lambda name, request: self.fixed,
            lacks_devices=lambda agent: agent == "old",
            is_ungreeted=lambda agent: agent == "new",
            is_unsent=lambda name: name in self.unsent,
        )

    def candidates(self, with_devices: bool) -> Mapping[str, Mapping[str, str]]:
        return {"a": {}}

    def free_devices(self, agent: str, resource: str, where: Mapping[str, str]) -> FreeDevices:
        return FreeDevices({"c1": self.free})

    def all_devices(self, agent: str, resource: str, where: Mapping[str, str]) -> FreeDevices:
        return FreeDevices({"c1": 1})


def a_workload(name: str = "web", agent: str = "", **more: Any) -> RenderedWorkload:
    return RenderedWorkload.of(name, {"agent": agent, "runtime": "podman", "runtimeConfig": "x", **more})


def added(*workloads: RenderedWorkload, **deleted: InstanceName) -> WorkloadChanges:
    return WorkloadChanges({it.instance_name.workload: it for it in workloads}, deleted)


def test_a_workload_without_an_agent_gets_an_agent_and_the_reason_as_its_state() -> None:
    planned = plan_workloads(added(a_workload(placement={}, **CAMERA)), Cluster().facts)
    name = planned.changes.added["web"].instance_name
    assert name.agent == "a"
    assert planned.states == {name: PENDING_INITIAL.because("agent 'a' has the most free devices for 1 x akri.sh/cam")}
    assert planned.placements["web"] == PlacementDecision(
        PlacementRequest.from_form(a_workload(placement={}, **CAMERA).form),
        "a",
        "agent 'a' has the most free devices for 1 x akri.sh/cam",
        {"c1": 1},
    )
    assert planned.unsent == planned.never_sent == frozenset()


def test_a_workload_that_cannot_be_placed_waits_with_the_reason() -> None:
    planned = plan_workloads(
        added(a_workload("one", placement={}, **CAMERA), a_workload("two", placement={}, **CAMERA)), Cluster().facts
    )
    name = planned.changes.added["two"].instance_name
    assert (name.agent, str(planned.states[name])) == ("", "NotScheduled")
    assert planned.states[name].additional_info == "no agent has enough free devices for 1 x akri.sh/cam"


def test_planning_the_same_twice_gives_the_same_and_changes_nothing() -> None:
    cluster = Cluster()
    changes = added(a_workload(placement={}, **CAMERA), a_workload("db", "old", **CAMERA))
    assert plan_workloads(changes, cluster.facts) == plan_workloads(changes, cluster.facts)
    assert (cluster.placements.get("web"), cluster.placements.waiting()) == (None, [])


def test_a_waiting_workload_is_placed_if_possible_and_otherwise_reports_the_current_reason() -> None:
    cluster = Cluster()
    cluster.free = 0
    planned = plan_workloads(added(a_workload(placement={}, **CAMERA)), cluster.facts)
    cluster.placements.apply(planned.placements)
    waiting = planned.changes.added
    still = plan_workloads(WorkloadChanges(), cluster.facts, waiting)
    assert not still.changes
    assert list(still.states) == [waiting["web"].instance_name]
    cluster.free = 1
    moved = plan_workloads(WorkloadChanges(), cluster.facts, waiting)
    assert moved.changes.added["web"].instance_name.agent == "a"
    assert moved.changes.deleted == {"web": waiting["web"].instance_name}


def test_an_agent_chosen_by_the_user_ends_the_placement() -> None:
    cluster = Cluster()
    cluster.placements.apply(plan_workloads(added(a_workload(placement={}, **CAMERA)), cluster.facts).placements)
    planned = plan_workloads(added(a_workload(agent="b", placement={}, **CAMERA)), cluster.facts)
    assert planned.placements == {"web": None}
    assert (planned.changes.added["web"].instance_name.agent, planned.states) == ("b", {})


def test_a_workload_with_devices_is_not_sent_to_an_agent_without() -> None:
    workload = a_workload(agent="old", **CAMERA)
    planned = plan_workloads(added(workload, a_workload("plain", "old")), Cluster().facts)
    assert planned.unsent == {workload.instance_name}
    assert "offers no devices" in planned.states[workload.instance_name].additional_info


def test_a_workload_is_not_sent_before_its_agent_is_greeted() -> None:
    workload = a_workload(agent="new")
    planned = plan_workloads(added(workload), Cluster().facts)
    assert (planned.unsent, planned.states) == (frozenset([workload.instance_name]), {})


def test_a_deleted_workload_that_was_never_sent_needs_no_agent() -> None:
    cluster, gone = Cluster(), a_workload(agent="old", **CAMERA).instance_name
    cluster.unsent.add(gone)
    planned = plan_workloads(WorkloadChanges({}, {"web": gone}), cluster.facts)
    assert (planned.never_sent, planned.states) == (frozenset([gone]), {})


def test_an_instance_that_is_sent_now_and_was_not_before_starts_with_the_initial_state() -> None:
    cluster, workload = Cluster(), a_workload(agent="old")
    cluster.unsent.add(workload.instance_name)
    planned = plan_workloads(added(workload, web=workload.instance_name), cluster.facts)
    assert planned.states == {workload.instance_name: PENDING_INITIAL}
    assert (planned.unsent, planned.never_sent) == (frozenset(), frozenset([workload.instance_name]))
