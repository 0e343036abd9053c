"""The steps of an update: which updates are rejected and why, what changes, and what agents receive."""

from typing import Any

import pytest

from ankaios.common.execution_state import PENDING_INITIAL, RUNNING_OK
from ankaios.common.names import CONSTRAINT_TEXT
from ankaios.common.workload import InstanceName
from ankaios.server.core.delete_graph import DeleteGraph
from tests.unit.server.scenario import (
    H,
    Scenario,
    a_form,
    a_state,
    effects_as_lines,
    error_of,
    success_of,
    web,
)

WEB_N1 = f"web.{H}.n1"


def a_scenario() -> Scenario:
    """The stored state of the worked examples."""
    scenario = Scenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form(tags={"a": "1"})}, configs={"lvl": "x"}))
    return scenario


def invalid(reason: str) -> str:
    return f"Update rejected: 'Resulting State is invalid, reason: '{reason}''"


def partial(**parts: Any) -> dict[str, Any]:
    return {"desiredState": {"apiVersion": "v1", **parts}}


# --- the worked examples ----------------------------------------------------------------------------------------------


def test_setting_one_tag_changes_the_workload_and_keeps_the_other_tags() -> None:
    """[utest->swdd~server-detects-changed-workload~1]"""
    scenario = a_scenario()
    new = partial(workloads={"web": {"tags": {"b": "2", "c": "3"}}})
    assert success_of(scenario.update(new, "desiredState.workloads.web.tags.b")) == ([WEB_N1], [WEB_N1])
    assert scenario.get("desiredState.workloads.web.tags")["desiredState"]["workloads"]["web"]["tags"] == {
        "a": "1",
        "b": "2",
    }


def test_a_workload_missing_in_the_new_state_is_deleted() -> None:
    """[utest->swdd~server-detects-deleted-workload~1]"""
    scenario = a_scenario()
    assert success_of(scenario.update({}, "desiredState.workloads.web")) == ([], [WEB_N1])
    assert scenario.get("desiredState", "effectiveState") == {
        "desiredState": {"apiVersion": "v1", "workloads": {}, "configs": {"lvl": "x"}},
        "effectiveState": {"apiVersion": "v1", "workloads": {}},
    }


def test_an_unused_config_changes_no_workload() -> None:
    """[utest->swdd~server-state-updates-state-on-unmodified-workloads~1]"""
    scenario = a_scenario()
    assert success_of(scenario.update(partial(configs={"lvl": "y", "z": "z"}), "desiredState.configs.lvl")) == ([], [])
    assert scenario.get("desiredState.configs")["desiredState"]["configs"] == {"lvl": "y"}


@pytest.mark.parametrize(
    ("mask", "new", "text"),
    [
        (
            "desiredState.workloads.db.agent",
            partial(workloads={"db": {"agent": "n1"}}),
            invalid("Could not parse into CompleteState: 'missing field `runtime`'"),
        ),
        (
            "desiredState.workloads.db.tags.x",
            {},
            "Update rejected: 'Could not find field desiredState.workloads.db.tags.x'",
        ),
        (
            "desiredState.workloads.web.configs",
            partial(workloads={"web": {"configs": {"c": "nope"}}}),
            invalid("Workload references config key 'nope' that does not exist"),
        ),
    ],
)
def test_rejected_updates_of_the_worked_examples_change_nothing(mask: str, new: dict[str, Any], text: str) -> None:
    """[utest->swdd~server-continues-on-invalid-updated-state~1]"""
    scenario = a_scenario()
    before = scenario.get()
    assert error_of(scenario.update(new, mask)) == text
    assert scenario.get() == before
    assert success_of(scenario.update({}, "desiredState.workloads.web")) == ([], [WEB_N1])


# --- rejections -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["", "v2", "v1.0"])
def test_a_wrong_api_version_is_reported_without_prefix(version: str) -> None:
    """[utest->swdd~update-desired-state-with-invalid-version~1]
    [utest->swdd~update-desired-state-with-missing-version~1]
    """
    new = {"desiredState": {"apiVersion": version, "workloads": {}}}
    expected = f"Unsupported API version. Received '{version}', expected 'v1'"
    for masks in ([], ["desiredState"], ["desiredState.apiVersion"]):
        assert error_of(a_scenario().update(new, *masks)) == expected


def test_masks_below_the_desired_state_keep_the_stored_version() -> None:
    scenario = a_scenario()
    new = {"desiredState": {"apiVersion": "v9", "configs": {"lvl": "y"}}}
    assert success_of(scenario.update(new, "desiredState.configs.lvl")) == ([], [])
    assert scenario.get("desiredState.apiVersion") == {"desiredState": {"apiVersion": "v1"}}


def test_the_deprecated_api_version_is_kept_in_both_states() -> None:
    scenario = Scenario()
    scenario.update({"desiredState": {"apiVersion": "v0.1", "workloads": {}}})
    assert [state["apiVersion"] for state in scenario.get("desiredState", "effectiveState").values()] == [
        "v0.1",
        "v0.1",
    ]


@pytest.mark.parametrize(
    ("new", "text"),
    [
        (a_state(configs={"a b": "x"}), f"Unsupported config item key 'a b'. {CONSTRAINT_TEXT}"),
        (a_state({"web": a_form(configs={"a b": "k"})}), f"Unsupported config alias 'a b'. {CONSTRAINT_TEXT}"),
        (a_state({"web": a_form(configs={"a": "k k"})}), f"Unsupported config reference key 'k k'. {CONSTRAINT_TEXT}"),
        (a_state(deviceConfigurations={"a b": {"discoveryHandler": {"name": "x"}}}),
         "Unsupported device configuration name 'a b'. Expected to have characters in [a-zA-Z0-9_-]."),
        (a_state({"a b": a_form()}),
         invalid("Unsupported workload name 'a b'. Expected to have characters in [a-zA-Z0-9_-].")),
        (a_state({"web": a_form(agent="a b")}), invalid(f"Unsupported agent name 'a b'. {CONSTRAINT_TEXT}")),
        (a_state({"web": a_form(agent="{{a}}", configs={"a": "k"})}, configs={"k": "a b"}),
         invalid(f"Unsupported agent name 'a b'. {CONSTRAINT_TEXT}")),
        (a_state({"web": a_form(config="{{no}}", configs={"a": "k"})}, configs={"k": "v"}),
         invalid("Failed to render field 'runtimeConfig': 'Error rendering \"Unnamed template\" line 1, col 1: "
                 "Failed to access variable in strict mode Some(\"no\")'")),
        (a_state({"a": a_form(dependencies={"b": "ADD_COND_RUNNING"}),
                  "b": a_form(dependencies={"a": "ADD_COND_FAILED"})}),
         "Update rejected: 'workload dependency 'a' is part of a cycle.'"),
        (a_state({"a": a_form(dependencies={"a": "ADD_COND_RUNNING"})}),
         "Update rejected: 'workload dependency 'a' is part of a cycle.'"),
    ],
)  # fmt: skip
def test_a_state_that_breaks_a_rule_is_rejected_with_the_message_of_the_rule(new: dict[str, Any], text: str) -> None:
    """[utest->swdd~server-state-rejects-state-with-cyclic-dependencies~1]
    [utest->swdd~server-state-triggers-validation-of-workload-fields~1]
    """
    scenario = Scenario()
    before = scenario.get()
    assert error_of(scenario.update(new)) == text
    assert scenario.get() == before


def test_a_config_that_is_still_used_cannot_be_removed() -> None:
    scenario = Scenario()
    scenario.update(a_state({"web": a_form(config="{{a}}", configs={"a": "k"})}, configs={"k": "v"}))
    text = invalid("Workload references config key 'k' that does not exist")
    assert error_of(scenario.update({}, "desiredState.configs.k")) == text
    assert success_of(scenario.update({}, "desiredState.configs.k", "desiredState.workloads.web"))[1]


def test_a_cycle_through_existing_workloads_is_reported_like_a_cycle_of_new_ones() -> None:
    scenario = Scenario()
    scenario.update(a_state({"a": a_form(dependencies={"b": "ADD_COND_RUNNING"}), "b": a_form()}))
    closing = a_form(dependencies={"a": "ADD_COND_RUNNING"})
    assert "'b' is part of a cycle" in error_of(scenario.update(a_state({"b": closing}), "desiredState.workloads.b"))
    # Now a is changed as well, so the search begins there.
    both = a_state({"a": a_form(config="new", dependencies={"b": "ADD_COND_RUNNING"}), "b": closing})
    assert "'a' is part of a cycle" in error_of(scenario.update(both))


def test_dependencies_on_missing_workloads_are_accepted() -> None:
    """[utest->swdd~cycle-detection-ignores-non-existing-workloads~1]"""
    scenario = Scenario()
    assert success_of(scenario.update(a_state({"a": a_form(dependencies={"later": "ADD_COND_RUNNING"})})))[0]
    closing = a_state({"later": a_form(dependencies={"a": "ADD_COND_RUNNING"})})
    assert "part of a cycle" in error_of(scenario.update(closing, "desiredState.workloads.later"))


# --- what changes -----------------------------------------------------------------------------------------------------


def test_a_changed_config_changes_the_workloads_that_use_it_and_only_them() -> None:
    """[utest->swdd~server-state-compares-rendered-workloads~1]
    [utest->swdd~server-state-triggers-configuration-rendering-of-workloads~1]
    """
    scenario = Scenario()
    templated = a_form(config="{{a}}", configs={"a": "k"})
    unused = a_form(config="fixed", configs={"a": "k"})
    scenario.update(a_state({"web": templated, "unused": unused, "other": a_form()}, configs={"k": "1"}))
    added, deleted = success_of(scenario.update(partial(configs={"k": "2"}), "desiredState.configs.k"))
    assert added == [str(InstanceName.of("web", "n1", "2"))]
    assert deleted == [str(InstanceName.of("web", "n1", "1"))]
    assert scenario.get("effectiveState.workloads.web.runtimeConfig")["effectiveState"]["workloads"]["web"] == {
        "runtimeConfig": "2"
    }
    assert scenario.get("desiredState.workloads.web.runtimeConfig")["desiredState"]["workloads"]["web"] == {
        "runtimeConfig": "{{a}}"
    }


def test_a_different_notation_of_the_same_workload_is_no_change() -> None:
    """[utest->swdd~server-state-updates-state-on-unmodified-workloads~1]"""
    scenario = Scenario()
    scenario.update(a_state({"web": a_form(config="{{a}}", configs={"a": "k"})}, configs={"k": "1", "k2": "1"}))
    new = a_state({"web": a_form(config="{{b}}", configs={"b": "k2"})}, configs={"k": "1", "k2": "1"})
    assert success_of(scenario.update(new)) == ([], [])
    assert scenario.get("desiredState.workloads.web.configs")["desiredState"]["workloads"]["web"]["configs"] == {
        "b": "k2"
    }
    assert success_of(scenario.update(partial(configs={"k": "9"}), "desiredState.configs.k")) == ([], [])
    assert success_of(scenario.update(partial(configs={"k2": "9"}), "desiredState.configs.k2"))[0]


@pytest.mark.parametrize(
    "part",
    [
        {"tags": {"x": "y"}},
        {"restartPolicy": "ALWAYS"},
        {"dependencies": {"x": "ADD_COND_FAILED"}},
        {"files": [{"mountPoint": "/a", "data": "x"}]},
        {"controlInterfaceAccess": {"denyRules": [{"type": "LogRule", "workloadNames": ["x"]}]}},
        {"runtime": "native"},
        {"resources": [{"name": "cam", "quantity": 1}]},
        {"placement": {"tags": {"zone": "front"}}},
    ],
)
def test_every_field_counts_as_a_change_even_if_the_name_stays(part: dict[str, Any]) -> None:
    """[utest->swdd~server-detects-changed-workload~1]"""
    scenario = Scenario()
    scenario.update(a_state({"web": a_form()}))
    assert success_of(scenario.update(a_state({"web": {**a_form(), **part}}))) == ([WEB_N1], [WEB_N1])


def test_white_space_around_the_runtime_config_does_not_change_the_workload() -> None:
    scenario = Scenario()
    assert success_of(scenario.update(a_state({"web": a_form(config="\n image: alpine:3 \n")}))) == ([WEB_N1], [])
    assert success_of(scenario.update(a_state({"web": a_form()}), "desiredState.workloads.web")) == ([], [])


def test_rendered_white_space_is_kept() -> None:
    scenario = Scenario()
    new = a_state({"web": a_form(config="{{a}}", configs={"a": "k"})}, configs={"k": " x "})
    assert success_of(scenario.update(new))[0] == [str(InstanceName.of("web", "n1", " x "))]


# --- states of added and deleted workloads ----------------------------------------------------------------------------


def test_new_workloads_are_pending_and_those_without_agent_not_scheduled() -> None:
    """[utest->swdd~server-sets-state-of-new-workloads-to-pending~1]"""
    scenario = Scenario()
    scenario.update(a_state({"web": a_form(), "idle": a_form(agent="")}))
    states = scenario.get("workloadStates.*.*.*.state")["workloadStates"]
    assert states["n1"]["web"][H] == {"state": "Pending", "subState": "Initial"}
    assert states[""]["idle"][H] == {"state": "NotScheduled", "subState": "NotScheduled"}


def test_an_instance_that_has_a_state_keeps_it() -> None:
    scenario = a_scenario()
    scenario.report("n1", {web(): RUNNING_OK})
    scenario.update(a_state({"web": {"tags": {"x": "y"}}}), "desiredState.workloads.web.tags")
    assert scenario.server.state.workload_states.get(web()) == RUNNING_OK


def test_a_changed_workload_of_a_disconnected_agent_keeps_its_state_if_its_name_stays() -> None:
    scenario = Scenario()
    scenario.update(a_state({"web": a_form(), "idle": a_form(agent="")}))
    effects = scenario.update(a_state({"web": a_form(tags={"a": "b"}), "idle": a_form(agent="", tags={"a": "b"})}))
    assert effects_as_lines(effects) == ["cli-conn-1@u: success +[idle., web.n1] -[idle., web.n1]"]
    assert scenario.server.state.workload_states.get(web()) == PENDING_INITIAL


def test_workloads_that_were_never_started_are_removed_by_the_server() -> None:
    """[utest->swdd~server-handles-not-started-deleted-workloads~1]"""
    scenario = Scenario()
    scenario.update(a_state({"web": a_form(), "idle": a_form(agent="")}))
    assert effects_as_lines(scenario.update(a_state())) == [
        "all: states [idle.=Removed, web.n1=Removed]",
        "cli-conn-1@u: success +[] -[idle., web.n1]",
    ]
    assert scenario.get("workloadStates") == {"workloadStates": {}}


def test_a_started_workload_waits_for_its_agent_even_if_the_agent_is_disconnected() -> None:
    """[utest->swdd~server-handles-not-started-deleted-workloads~1]"""
    scenario = a_scenario()
    scenario.report("n1", {web(): RUNNING_OK})
    scenario.gone("n1")
    assert effects_as_lines(scenario.update(a_state())) == ["cli-conn-1@u: success +[] -[web.n1]"]
    assert scenario.get("workloadStates")["workloadStates"]["n1"]["web"][H]["state"] == "AgentDisconnected"


def test_a_workload_of_a_connected_agent_is_deleted_by_it_even_if_it_did_not_report_yet() -> None:
    assert effects_as_lines(a_scenario().update(a_state())) == [
        "n1: update +[] -[web]",
        "cli-conn-1@u: success +[] -[web.n1]",
    ]


# --- what agents receive ----------------------------------------------------------------------------------------------


def test_each_connected_agent_gets_one_message_with_its_part() -> None:
    """[utest->swdd~server-detects-new-workload~1]"""
    scenario = Scenario()
    scenario.hello("n1")
    scenario.hello("n2")
    first = scenario.update(a_state({"a": a_form("n1"), "b": a_form("n2"), "c": a_form("n2"), "d": a_form("n3")}))
    assert effects_as_lines(first) == [
        "n1: update +[a] -[]",
        "n2: update +[b, c] -[]",
        "cli-conn-1@u: success +[a.n1, b.n2, c.n2, d.n3] -[]",
    ]
    moved = scenario.update(
        a_state({"a": a_form("n2"), "b": a_form("n2", config="new"), "c": a_form("n2"), "d": a_form("n3")})
    )
    assert effects_as_lines(moved) == [
        "n1: update +[] -[a]",
        "n2: update +[a, b] -[b]",
        "cli-conn-1@u: success +[a.n2, b.n2] -[a.n1, b.n2]",
    ]


def test_a_deleted_workload_names_the_dependents_that_must_end_before_it() -> None:
    """[utest->swdd~server-state-adds-delete-conditions-to-deleted-workload~1]
    [utest->swdd~server-state-stores-delete-condition~1]
    """
    scenario = Scenario()
    scenario.hello("n1")
    needs = {"db": "ADD_COND_RUNNING", "init": "ADD_COND_SUCCEEDED"}
    scenario.update(a_state({"web": a_form(dependencies=needs), "db": a_form(), "init": a_form()}))
    assert effects_as_lines(scenario.update(a_state()))[0] == "n1: update +[] -[db['web'], init, web]"


def test_a_workload_that_was_never_started_delays_no_deletion() -> None:
    scenario = Scenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form("away", dependencies={"db": "ADD_COND_RUNNING"}), "db": a_form()}))
    scenario.update({}, "desiredState.workloads.web")
    assert effects_as_lines(scenario.update(a_state()))[0] == "n1: update +[] -[db]"
    assert vars(scenario.server.state.delete_graph) == vars(DeleteGraph())


def test_a_state_with_too_many_workloads_is_rejected_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.server.core.state_update.MAX_WORKLOADS", 3)
    scenario = Scenario()
    text = "4 workloads are more than the limit of 3; divide them among several servers"
    assert error_of(scenario.update(a_state({f"w{number}": a_form() for number in range(4)}))) == (
        f"Update rejected: '{text}'"
    )
    scenario.update(a_state({f"w{number}": a_form() for number in range(3)}))
    assert "4 workloads" in error_of(scenario.update(a_state({"w3": a_form()}), "desiredState.workloads.w3"))
    scenario.update(a_state({"w3": a_form()}), "desiredState.workloads.w3", "desiredState.workloads.w0")
    assert scenario.get()["desiredState"]["workloads"].keys() == {"w1", "w2", "w3"}


def test_a_state_that_has_too_many_workloads_already_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario()
    scenario.update(a_state({f"w{number}": a_form() for number in range(4)}))
    monkeypatch.setattr("ankaios.server.core.state_update.MAX_WORKLOADS", 3)
    scenario.update(a_state({"w0": a_form(config="image: y")}), "desiredState.workloads.w0")
    assert scenario.get()["desiredState"]["workloads"]["w0"]["runtimeConfig"] == "image: y"


def test_a_request_with_too_many_masks_is_rejected_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.server.core.ankaios_server.MAX_MASKS", 2)
    masks = [f"desiredState.workloads.w{number}" for number in range(3)]
    assert "3 field masks are more than the limit of 2" in error_of(Scenario().update(a_state({}), *masks))
