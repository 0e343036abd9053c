"""Manifests, plans and revisions between browsers and the server."""

import pytest

from ankaios.common.errors import Rejected
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.dashboard.browser_forms import history_form, manifest_update, plan_form, record_form


def test_a_manifest_becomes_an_update_of_its_entries() -> None:
    update = manifest_update("apiVersion: v1\nconfigs: {a: b}\n")
    assert list(update.updateMask) == ["desiredState.configs.a"]
    assert update.newState.desiredState.configs.configs["a"].String == "b"


@pytest.mark.parametrize("manifest", ["", "a: [", "apiVersion: v9", "apiVersion: v1\nworkloads: {a b: {}}"])
def test_other_texts_are_rejected(manifest: str) -> None:
    with pytest.raises(Rejected):
        manifest_update(manifest)


def test_a_plan_has_short_words_for_actions() -> None:
    planned = base.PlannedWorkload(name="web", action=base.PLANNED_DELETE)
    plan = plan_form(base.PlanResponse(accepted=True, workloads=[planned]))
    assert plan["accepted"] is True
    assert plan["workloads"][0]["action"] == "delete"
    assert plan["workloads"][0]["fields"] == []


def test_revisions_are_listed_newest_first_with_their_differences() -> None:
    change = base.EntryChange(kind="workload", name="web", after='{"agent":"n1"}')
    history = base.HistoryResponse(
        current=2,
        revisions=[
            base.RevisionInfo(number=1),
            base.RevisionInfo(number=2, timeMs=7, note="rollback", entries=[change]),
        ],
    )
    form = history_form(history)
    assert form["current"] == 2
    assert [one["number"] for one in form["revisions"]] == [2, 1]
    assert form["revisions"][0]["entries"] == [
        {"kind": "workload", "name": "web", "before": None, "after": "agent: n1\n"}
    ]


def test_a_record_has_the_words_of_its_state_and_health() -> None:
    record = base.WorkloadRecord(
        timeMs=7,
        instanceName=base.WorkloadInstanceName(workloadName="web", agentName="n1", id="1"),
        executionState=base.ExecutionState(
            running=base.RUNNING_OK,
            additionalInfo="slow",
            health=base.HealthState(status=base.HEALTH_UNHEALTHY, text="no answer"),
        ),
        output=["last line"],
    )
    assert record_form(record) == {
        "time": 7,
        "agent": "n1",
        "state": "Running(Ok)",
        "info": "slow",
        "health": "unhealthy",
        "exitCode": None,
        "output": ["last line"],
    }
