"""Workloads that cannot run twice reject the strategy that starts the new instance first."""

from typing import Any

import pytest

from tests.unit.server.core.test_change_plan import a_scenario, plan
from tests.unit.server.scenario import a_form, a_state, error_of

FIRST = {"startNewFirst": True}
CAMERA = {"discoveryHandler": {"name": "debugEcho"}}


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"config": "commandOptions: ['--name', 'web']"}, "both containers would have the name 'web'"),
        ({"config": "commandOptions: ['--name=web']"}, "both containers would have the name 'web'"),
        ({"config": "commandOptions: ['-p', '8080:80']"}, "both containers would use port 8080 of the node"),
        ({"config": "commandOptions: ['-p8080:80/udp']"}, "both containers would use port 8080 of the node"),
        ({"config": "commandOptions: ['--publish=127.0.0.1:81:80']"}, "both containers would use port 81 of the node"),
        ({"runtime": "podman-kube"}, "the pods of both instances would have the same names"),
        (
            {"resources": [{"name": "camera", "quantity": 1}]},
            "its devices 'camera' can be used by one instance only",
        ),
    ],
)
def test_resources_that_both_instances_would_need_are_named(form: dict[str, Any], reason: str) -> None:
    scenario = a_scenario({})
    config = form.pop("config", "image: x")
    state = a_state({"web": {**a_form(config=config), **form, "updateStrategy": FIRST}})
    text = error_of(scenario.update(state))
    assert f"workload 'web' cannot have the updateStrategy startNewFirst: {reason}" in text
    response = plan(scenario, state)
    assert (response.rejectedBy, response.rejection) == ("strategy", text)


@pytest.mark.parametrize(
    "form",
    [
        {"runtimeConfig": "commandOptions: ['-p', '80']"},
        {"runtimeConfig": "commandOptions: ['-p', ':80', '-e', 'A=1']"},
        {"runtimeConfig": "{not yaml"},
        {"runtime": "native", "runtimeConfig": "command: [sleep]"},
        {"resources": [{"name": "camera", "quantity": 1}]},
        {"updateStrategy": {"startNewFirst": False}, "runtimeConfig": "commandOptions: ['--name', 'web']"},
    ],
)
def test_workloads_that_can_run_twice_are_accepted(form: dict[str, Any]) -> None:
    workload = {**a_form(), "updateStrategy": FIRST, **form}
    configurations = {"camera": {**CAMERA, "capacity": 2}}
    assert plan(a_scenario({}), a_state({"web": workload}, deviceConfigurations=configurations)).accepted


def test_a_plan_announces_that_the_new_instance_starts_first_and_waits_for_no_dependent() -> None:
    before = {"web": a_form(updateStrategy=FIRST), "user": a_form(dependencies={"web": "ADD_COND_RUNNING"})}
    after = {**before, "web": a_form(config="image: alpine:4", updateStrategy=FIRST)}
    (workload,) = plan(a_scenario(before), a_state(after)).workloads
    assert (workload.startsNewFirst, list(workload.waitsFor)) == (True, [])


def test_a_workload_that_keeps_its_instance_name_or_moves_is_stopped_first() -> None:
    scenario = a_scenario({"web": a_form(updateStrategy=FIRST)})
    for form in (a_form(updateStrategy=FIRST, tags={"a": "b"}), a_form("n2", "image: 2", updateStrategy=FIRST)):
        (workload,) = plan(scenario, a_state({"web": form})).workloads
        assert not workload.startsNewFirst
