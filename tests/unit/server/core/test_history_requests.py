"""The answers of an `AnkaiosServer` to requests for history, rollback and conditional updates."""

import json
from typing import Any

import pytest

from ankaios.common.messages import FromClient, Respond
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from tests.unit.server.core.test_durable_decisions import StoredScenario, stored_form
from tests.unit.server.scenario import CLI, Scenario, a_form, a_state, error_of, success_of


class RevisionScenario(StoredScenario):
    """Revision 1 adds web and a config, 2 adds db, 3 changes web."""

    def __init__(self) -> None:
        super().__init__()
        self.change(a_state({"web": a_form()}, configs={"port": "80"}), sender="alice")
        self.change(a_state({"db": a_form()}), "desiredState.workloads.db", sender="bob")
        self.change(a_state({"web": a_form(config="new")}), "desiredState.workloads.web")

    def history(self, **wanted: Any) -> base.HistoryResponse:
        return response_of(self.ask(historyRequest=base.HistoryRequest(**wanted))).historyResponse

    def roll_back(self, revision: int, *workloads: str) -> base.Response:
        content = base.RollbackRequest(revision=revision, workloads=workloads)
        request = base.Request(requestId=f"{CLI}@r", rollbackRequest=content)
        return response_of(self.decide(FromClient(CLI, request)).effects)

    def desired(self) -> dict[str, Any]:
        desired: dict[str, Any] = self.get("desiredState")["desiredState"]
        return desired


def response_of(effects: list[Any]) -> base.Response:
    (response,) = [effect.response for effect in effects if isinstance(effect, Respond)]
    return response


def test_the_history_lists_revisions_without_values() -> None:
    response = RevisionScenario().history()
    assert response.current == 3
    assert [info.number for info in response.revisions] == [1, 2, 3]
    first = response.revisions[0]
    assert (first.requester, first.timeMs) == ("alice", 5000)
    assert [(entry.kind, entry.name, entry.HasField("before"), entry.after) for entry in first.entries] == [
        ("workload", "web", False, ""),
        ("config", "port", False, ""),
    ]
    assert list(response.revisions[1].updateMasks) == ["desiredState.workloads.db"]


def test_values_are_sent_on_request_and_revisions_are_selected() -> None:
    scenario = RevisionScenario()
    (third,) = scenario.history(workloads=["web"], first=2, values=True).revisions
    assert json.loads(third.entries[0].before) == stored_form()
    assert json.loads(third.entries[0].after) == stored_form(config="new")
    assert [info.number for info in scenario.history(last=2, limit=1).revisions] == [2]


def test_a_server_without_a_store_has_a_history_too() -> None:
    scenario = Scenario()
    scenario.update(a_state({"web": a_form()}))
    response = response_of(scenario.ask(historyRequest=base.HistoryRequest()))
    assert [info.number for info in response.historyResponse.revisions] == [1]


def test_a_rollback_restores_the_desired_state_as_a_new_revision() -> None:
    scenario = RevisionScenario()
    success = scenario.roll_back(1).UpdateStateSuccess
    assert success.revision == 4
    assert sorted(name.partition(".")[0] for name in success.addedWorkloads) == ["web"]
    assert sorted(name.partition(".")[0] for name in success.deletedWorkloads) == ["db", "web"]
    assert scenario.desired()["workloads"].keys() == {"web"}
    assert scenario.history(first=4).revisions[0].note == "restores revision 1"
    scenario.roll_back(3)
    assert scenario.desired()["workloads"]["web"]["runtimeConfig"] == "new"
    assert scenario.desired()["workloads"].keys() == {"web", "db"}
    scenario.roll_back(0)
    assert scenario.desired()["workloads"] == {}
    assert "configs" not in scenario.desired()


def test_a_rollback_of_one_workload_does_not_change_the_others() -> None:
    scenario = RevisionScenario()
    scenario.roll_back(2, "web")
    assert scenario.desired()["workloads"]["web"]["runtimeConfig"] == a_form()["runtimeConfig"]
    scenario.roll_back(1, "db")
    assert scenario.desired()["workloads"].keys() == {"web"}


def test_a_rollback_restores_tags_of_agents() -> None:
    scenario = StoredScenario()
    scenario.hello("n1", {"zone": "a"})
    for zone in ("b", "c"):
        scenario.change({"agents": {"n1": {"tags": {"zone": zone}}}}, "agents.n1.tags")
    revisions = RevisionScenario.roll_back
    revisions(scenario, 1)  # type: ignore[arg-type]
    assert scenario.get("agents")["agents"]["n1"]["tags"] == {"zone": "b"}
    revisions(scenario, 0)  # type: ignore[arg-type]
    assert scenario.get("agents")["agents"]["n1"]["tags"] == {"zone": "a"}


@pytest.mark.parametrize(
    ("revision", "workloads", "reason"),
    [
        (9, (), "cannot restore revision 9: there is no revision 9, the newest is 3"),
        (1, ("nope",), "there is no workload 'nope', neither now nor in revision 1"),
    ],
)
def test_a_rollback_that_is_not_possible_is_rejected(revision: int, workloads: tuple[str, ...], reason: str) -> None:
    scenario = RevisionScenario()
    assert scenario.roll_back(revision, *workloads).error.message == f"Update rejected: '{reason}'"
    assert scenario.history().current == 3


def test_a_restored_workload_is_checked_like_every_update() -> None:
    scenario = StoredScenario()
    scenario.change(a_state({"web": a_form(config="{{p}}", configs={"p": "port"})}, configs={"port": "80"}))
    scenario.change(a_state())
    message = RevisionScenario.roll_back(scenario, 1, "web").error.message  # type: ignore[arg-type]
    assert "references config key 'port' that does not exist" in message


def conditional(scenario: StoredScenario, name: str, revision: int) -> list[Any]:
    content = base.UpdateStateRequest(
        newState=COMPLETE_STATE.from_form(a_state({name: a_form(config="mine")})),
        updateMask=[f"desiredState.workloads.{name}"],
        ifRevision=revision,
    )
    return scenario.ask(updateStateRequest=content)


def test_an_update_with_a_revision_is_rejected_if_the_entry_was_changed_since() -> None:
    scenario = RevisionScenario()
    assert error_of(conditional(scenario, "web", 2)) == (
        "Update rejected: 'workload 'web' was changed after revision 2, in revision 3 by unknown; look at it with "
        "'ank history show 3''"
    )
    assert error_of(conditional(scenario, "web", 7)) == "Update rejected: 'there is no revision 7, the newest is 3'"
    effects = conditional(scenario, "db", 2)
    assert success_of(effects)[0]
    assert response_of(effects).UpdateStateSuccess.revision == 4


def rights(*masks: str) -> dict[str, Any]:
    rule = {"type": "StateRule", "operation": "ReadWrite", "filterMasks": list(masks)}
    return {"allowRules": [rule]}


def test_a_workload_receives_only_the_entries_that_it_may_read() -> None:
    scenario = RevisionScenario()
    scenario.change(
        a_state({"app": a_form(controlInterfaceAccess=rights("desiredState.workloads.web"))}),
        "desiredState.workloads.app",
    )
    scenario.hello("n1")
    wanted = base.HistoryRequest(values=True)
    response = response_of(scenario.ask_through("n1", "n1@app@1", historyRequest=wanted)).historyResponse
    assert [(info.number, [entry.name for entry in info.entries]) for info in response.revisions] == [
        (1, ["web"]),
        (3, ["web"]),
    ]
    other = response_of(scenario.ask_through("n1", "n1@unknown@1", historyRequest=wanted)).historyResponse
    assert list(other.revisions) == []


def test_a_rollback_by_a_workload_cannot_exceed_its_rights() -> None:
    scenario = StoredScenario()
    app = a_form(controlInterfaceAccess=rights("desiredState.workloads.web"))
    strong = a_form(controlInterfaceAccess=rights("*"))
    scenario.change(a_state({"app": app, "web": strong}))
    scenario.change(a_state({"app": app, "web": a_form()}))
    scenario.hello("n1")
    content = base.RollbackRequest(revision=1, workloads=["web"])
    assert "Access denied" in error_of(scenario.ask_through("n1", "n1@app@1", rollbackRequest=content))
    assert "Access denied" in error_of(scenario.ask_through("n1", "n1@1", rollbackRequest=content))
