"""Events change the form exactly as they change the state of the server."""

from typing import Any

import pytest
from msgspec.structs import replace

from ankaios.common.execution_state import HEALTHY, RUNNING_OK, UNHEALTHY, HealthState, exited
from ankaios.common.messages import Respond
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import UpdateWorkloadState
from ankaios.common.proto_conversion import workload_state_to_pb
from ankaios.dashboard.change_log import MAX_CHANGES, MAX_TIMELINE, ChangeLog
from ankaios.dashboard.cluster_form import ClusterForm
from tests.unit.server.scenario import Scenario, a_form, a_state, web


class Follower:
    """A real server core and a form that follows its events."""

    def __init__(self) -> None:
        self.scenario = Scenario()
        effects = self.scenario.ask("all", completeStateRequest=base.CompleteStateRequest(subscribeForEvents=True))
        self.form = ClusterForm(self._states(effects)[0].completeState)
        self.log = ChangeLog()
        self.changes: list[dict[str, Any]] = []

    @staticmethod
    def _states(effects: list[Any]) -> list[base.CompleteStateResponse]:
        found = [effect.response for effect in effects if isinstance(effect, Respond)]
        return [one.completeStateResponse for one in found if one.HasField("completeStateResponse")]

    def take(self, effects: list[Any]) -> None:
        for event in self._states(effects):
            names = self.form.names_changed_by(event)
            before = self.form.patch(names)
            self.form.apply(event)
            self.changes += self.log.compare(before, self.form.patch(names), 7)

    def matches(self) -> None:
        """Compared as entries: a form may keep empty maps."""
        response = self.scenario.ask("now", completeStateRequest=base.CompleteStateRequest())
        assert self.form.snapshot() == ClusterForm(self._states(response)[0].completeState).snapshot()

    def states(self, *states: Any) -> None:
        update = UpdateWorkloadState(workloadStates=[workload_state_to_pb(*state) for state in states])
        self.take(self.scenario.from_agent("n1", updateWorkloadState=update))


@pytest.fixture
def follower() -> Follower:
    return Follower()


def test_the_form_follows_every_event(follower: Follower) -> None:
    follower.take(
        follower.scenario.update(a_state({"web": a_form(), "db": a_form(dependencies={"web": "ADD_COND_RUNNING"})}))
    )
    follower.matches()
    follower.take(follower.scenario.hello("n1", {"kind": "edge"}))
    follower.matches()
    follower.states((web(), RUNNING_OK))
    follower.matches()
    follower.states((web(), exited(3)))
    follower.matches()
    follower.take(follower.scenario.update(a_state({"web": a_form(config="image: other")}), "desiredState.workloads"))
    follower.matches()
    follower.take(follower.scenario.gone("n1"))
    follower.matches()


def test_changes_are_described(follower: Follower) -> None:
    follower.take(follower.scenario.update(a_state({"web": a_form()})))
    follower.take(follower.scenario.hello("n1"))
    follower.states((web(), RUNNING_OK))
    follower.states((web(), exited(3)))
    follower.take(follower.scenario.gone("n1"))
    texts = [(one["kind"], one["name"], one["text"]) for one in follower.changes]
    assert texts == [
        ("workload", "web", "Pending(Initial)"),
        ("agent", "n1", "connected"),
        ("workload", "web", "Pending(Initial) → Running(Ok)"),
        ("workload", "web", "Running(Ok) → Failed(ExecFailed)"),
        ("workload", "web", "Failed(ExecFailed) → AgentDisconnected"),
        ("agent", "n1", "disconnected"),
    ]
    assert [one["state"] for one in follower.log.timeline("web")] == [
        "Pending(Initial)",
        "Running(Ok)",
        "Failed(ExecFailed)",
        "AgentDisconnected",
    ]
    assert [one["bad"] for one in follower.changes if one["text"].endswith("Failed(ExecFailed)")] == [True]


def test_a_workload_without_instance_and_state_is_removed(follower: Follower) -> None:
    follower.take(follower.scenario.update(a_state({"web": a_form()})))
    entry = follower.form.workload("web")
    assert entry is not None
    assert entry["instances"][0]["state"] == "Pending"
    assert follower.form.workload("other") is None
    assert follower.form.agent("other") is None
    assert follower.form.device("other") is None


def test_health_has_a_status_in_small_letters(follower: Follower) -> None:
    follower.take(follower.scenario.update(a_state({"web": a_form()})))
    follower.take(follower.scenario.hello("n1"))
    follower.states((web(), replace(RUNNING_OK, health=HealthState(UNHEALTHY, "no answer"))))
    entry = follower.form.workload("web")
    assert entry is not None
    assert entry["instances"][0]["health"] == {"status": "unhealthy", "text": "no answer"}


def test_a_change_of_the_health_is_a_change_with_its_reason(follower: Follower) -> None:
    follower.take(follower.scenario.update(a_state({"web": a_form()})))
    follower.take(follower.scenario.hello("n1"))
    for health in (HealthState(HEALTHY), HealthState(UNHEALTHY, "no answer"), HealthState(UNHEALTHY, "still none")):
        follower.states((web(), replace(RUNNING_OK, health=health)))
    last = follower.changes[-1]
    assert (last["text"], last["info"], last["bad"]) == ("healthy → unhealthy", "no answer", True)
    assert [(one["state"], one["health"]) for one in follower.log.timeline("web")] == [
        ("Pending(Initial)", ""),
        ("Running(Ok)", "healthy"),
        ("Running(Ok)", "unhealthy"),
    ]


def test_a_device_that_goes_offline_and_returns_is_a_change() -> None:
    log = ChangeLog()
    online, offline = {"online": True}, {"online": False}
    nothing: dict[str, Any] = {"workloads": {}, "agents": {}}
    for before, after in ((online, offline), (offline, offline), (offline, online)):
        log.compare({"devices": {"cam": before}, **nothing}, {"devices": {"cam": after}, **nothing}, 7)
    assert [(one["kind"], one["text"], one["bad"]) for one in log.changes] == [
        ("device", "offline", True),
        ("device", "online", False),
    ]


def test_definitions_are_as_written_and_as_rendered(follower: Follower) -> None:
    follower.take(
        follower.scenario.update(
            a_state({"web": a_form(config="{{x}}", configs={"x": "key"})}, configs={"key": "value"})
        )
    )
    written, rendered = follower.form.definition("web")
    assert written is not None and rendered is not None
    assert written["runtimeConfig"] == "{{x}}"
    assert rendered["runtimeConfig"] == "value"


def test_a_removed_map_removes_all_its_entries() -> None:
    state = COMPLETE_STATE.from_form({"agents": {"n1": {}, "n2": {}}})
    form = ClusterForm(state)
    event = base.CompleteStateResponse(alteredFields=base.AlteredFields(removedFields=["agents"]))
    assert form.names_changed_by(event).agents == {"n1", "n2"}
    form.apply(event)
    form.apply(event)
    assert form.snapshot()["agents"] == {}


def test_the_log_is_bounded() -> None:
    log = ChangeLog()
    entry = {"instances": [{"agent": "n1", "id": "1", "state": "Running", "sub": "Ok", "info": "", "health": None}]}
    other = {
        "instances": [{"agent": "n1", "id": "1", "state": "Failed", "sub": "Lost", "info": "gone", "health": None}]
    }
    nothing: dict[str, Any] = {"agents": {}, "devices": {}}
    for number in range(MAX_CHANGES):
        pair = (entry, other) if number % 2 else (other, entry)
        log.compare({"workloads": {"web": pair[0]}, **nothing}, {"workloads": {"web": pair[1]}, **nothing}, number)
        log.compare({"workloads": {"web": entry}, **nothing}, {"workloads": {"web": None}, **nothing}, number)
    assert len(log.changes) == MAX_CHANGES
    assert len(log.timeline("web")) == MAX_TIMELINE
    assert log.timeline("other") == []
