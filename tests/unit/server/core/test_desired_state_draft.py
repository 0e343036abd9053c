"""Which update masks change what. [utest->swdd~server-provides-update-desired-state-interface~1]"""

from typing import Any

import pytest

from ankaios.common.model.state import COMPLETE_STATE, STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.server.core.desired_state_draft import DesiredChange, change_by_request
from ankaios.server.core.update_rejected import UpdateRejected
from tests.unit.server.scenario import Form, a_form, a_state

WEB = {**a_form(tags={"a": "1"}), "restartPolicy": "NEVER"}
STORED = STATE.read({"apiVersion": "v1", "workloads": {"web": WEB}, "configs": {"lvl": "x", "net": {"host": "h"}}})


def change(new_state: Form, *masks: str, stored: Form = STORED) -> DesiredChange:
    request = base.UpdateStateRequest(newState=COMPLETE_STATE.from_form(new_state), updateMask=masks)
    return change_by_request(stored, request)


def fault(new_state: Form, *masks: str) -> str:
    with pytest.raises(UpdateRejected) as caught:
        change(new_state, *masks)
    return str(caught.value)


def unparsable(reason: str) -> str:
    return f"Update rejected: 'Resulting State is invalid, reason: 'Could not parse into CompleteState: '{reason}'''"


def partial(**parts: Any) -> Form:
    return {"desiredState": {"apiVersion": "v1", **parts}}


NOTHING: Form = {}

# --- without masks ----------------------------------------------------------------------------------------------------


def test_without_masks_the_new_state_replaces_everything() -> None:
    """[utest->swdd~update-desired-state-empty-update-mask~1]"""
    assert change(a_state({"db": a_form()}, configs={"new": "1"})) == DesiredChange(
        "v1",
        workloads={"web": None, "db": {**a_form(), "restartPolicy": "NEVER"}},
        configs={"lvl": None, "net": None, "new": "1"},
    )


def test_equal_entries_are_no_change() -> None:
    assert change({"desiredState": STORED}) == DesiredChange("v1")


def test_a_replacement_trims_the_runtime_config_like_every_update() -> None:
    new = change(a_state({"web": a_form(config="  x \n")})).workloads["web"]
    assert new is not None
    assert new["runtimeConfig"] == "x"


@pytest.mark.parametrize("field", ["agent", "runtime", "runtimeConfig"])
def test_a_replacement_must_have_all_required_fields(field: str) -> None:
    workload = a_form()
    del workload[field]
    text = {"runtimeConfig": "runtime_config"}.get(field, field)
    assert fault(a_state({"web": workload})) == unparsable(f"Missing field '{text}'")


def test_a_replacement_must_have_a_desired_state_with_workloads() -> None:
    assert fault(NOTHING) == unparsable("Missing field 'desired_state'")
    assert fault(partial()) == unparsable("Missing field 'workloads'")


def test_a_replacement_sets_agent_tags_if_they_are_given() -> None:
    request = base.UpdateStateRequest(newState=COMPLETE_STATE.from_form({"desiredState": STORED}))
    request.newState.agents.agents["n1"].tags.tags["zone"] = "front"
    request.newState.agents.agents["n2"].tags.SetInParent()
    assert change_by_request(STORED, request).agent_tags == {"n1": {"zone": "front"}, "n2": {}}
    request.newState.agents.agents["n3"].SetInParent()
    with pytest.raises(UpdateRejected, match="Missing field 'tags'"):
        change_by_request(STORED, request)


def test_a_request_without_state_is_rejected() -> None:
    for masks in ([], ["desiredState"]):
        with pytest.raises(UpdateRejected, match="Missing field 'new_state'"):
            change_by_request(STORED, base.UpdateStateRequest(updateMask=masks))


# --- with masks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "new_state", "expected"),
    [
        # set
        ("desiredState.workloads.web.tags.b", partial(workloads={"web": {"tags": {"b": "2", "c": "3"}}}),
         {"web": {**WEB, "tags": {"a": "1", "b": "2"}}}),
        ("desiredState.workloads.web.tags", partial(workloads={"web": {"tags": {"c": "3"}}}),
         {"web": {**WEB, "tags": {"c": "3"}}}),
        ("desiredState.workloads.web.agent", partial(workloads={"web": {"agent": ""}}), {"web": {**WEB, "agent": ""}}),
        ("desiredState.workloads.web.runtimeConfig", partial(workloads={"web": {"runtimeConfig": " y\n"}}),
         {"web": {**WEB, "runtimeConfig": "y"}}),
        ("desiredState.workloads.web.restartPolicy", partial(workloads={"web": {"restartPolicy": "ALWAYS"}}),
         {"web": {**WEB, "restartPolicy": "ALWAYS"}}),
        ("desiredState.workloads.web.controlInterfaceAccess.allowRules",
         partial(workloads={"web": {"controlInterfaceAccess": {
             "allowRules": [{"type": "LogRule", "workloadNames": ["*"]}],
             "denyRules": [{"type": "LogRule", "workloadNames": ["x"]}]}}}),
         {"web": {**WEB, "controlInterfaceAccess": {"allowRules": [{"type": "LogRule", "workloadNames": ["*"]}]}}}),
        ("desiredState.workloads.db", a_state({"db": a_form(), "web": a_form()}),
         {"db": {**a_form(), "restartPolicy": "NEVER"}}),
        ("desiredState.workloads", a_state({"db": a_form()}),
         {"web": None, "db": {**a_form(), "restartPolicy": "NEVER"}}),
        ("desiredState.workloads", a_state(), {"web": None}),
        # remove
        ("desiredState.workloads.web", NOTHING, {"web": None}),
        ("desiredState.workloads.unknown", NOTHING, {}),
        ("desiredState.workloads", NOTHING, {"web": None}),
        ("desiredState.workloads.web.tags", NOTHING, {"web": {k: v for k, v in WEB.items() if k != "tags"}}),
        ("desiredState.workloads.web.tags", partial(workloads={"web": {"tags": {}}}),
         {"web": {k: v for k, v in WEB.items() if k != "tags"}}),
        ("desiredState.workloads.web.tags.a", NOTHING, {"web": {k: v for k, v in WEB.items() if k != "tags"}}),
        ("desiredState.workloads.web.tags.unknown", NOTHING, {}),
        ("desiredState.workloads.web.restartPolicy", NOTHING, {}),
        ("desiredState.workloads.web.files", NOTHING, {}),
        ("desiredState.workloads.web.dependencies.x", NOTHING, {}),
        ("desiredState.workloads.web.controlInterfaceAccess.allowRules", NOTHING, {}),
        ("desiredState.workloads.web.unknown", NOTHING, {}),
    ],
)  # fmt: skip
def test_masks_of_workloads(mask: str, new_state: Form, expected: dict[str, Any]) -> None:
    """[utest->swdd~update-desired-state-with-update-mask~1]"""
    assert change(new_state, mask) == DesiredChange("v1", workloads=expected)


@pytest.mark.parametrize(
    ("mask", "new_state", "expected"),
    [
        ("desiredState.configs.lvl", partial(configs={"lvl": "y", "z": "z"}), {"lvl": "y"}),
        ("desiredState.configs.net.host", partial(configs={"net": {"host": "h2", "z": "z"}}), {"net": {"host": "h2"}}),
        ("desiredState.configs.net.new.deep", partial(configs={"net": {"new": {"deep": "d", "z": "z"}}}),
         {"net": {"host": "h", "new": {"deep": "d"}}}),
        ("desiredState.configs", partial(configs={"z": "z"}), {"lvl": None, "net": None, "z": "z"}),
        ("desiredState.configs", partial(configs={}), {"lvl": None, "net": None}),
        ("desiredState.configs", NOTHING, {"lvl": None, "net": None}),
        ("desiredState.configs.lvl", NOTHING, {"lvl": None}),
        ("desiredState.configs.unknown", NOTHING, {}),
        ("desiredState.configs.net.host", NOTHING, {"net": {}}),
    ],
)  # fmt: skip
def test_masks_of_configs(mask: str, new_state: Form, expected: dict[str, Any]) -> None:
    """[utest->swdd~update-desired-state-with-update-mask~1]"""
    assert change(new_state, mask) == DesiredChange("v1", configs=expected)


def test_the_whole_desired_state_is_set_or_reset() -> None:
    assert change(a_state(), "desiredState") == DesiredChange(
        "v1", workloads={"web": None}, configs={"lvl": None, "net": None}
    )
    assert change(NOTHING, "desiredState") == change(a_state(), "desiredState")


def test_device_configurations_are_set_and_removed_like_other_entries() -> None:
    device = {"discoveryHandler": {"name": "udev"}, "capacity": 2}
    new = change(partial(deviceConfigurations={"cam": device}), "desiredState.deviceConfigurations.cam")
    assert new.device_configurations == {"cam": device}
    stored = {**STORED, "deviceConfigurations": {"cam": device}}
    mask = "desiredState.deviceConfigurations.cam.capacity"
    assert change(NOTHING, mask, stored=stored).device_configurations == {"cam": {"discoveryHandler": {"name": "udev"}}}
    mask = "desiredState.deviceConfigurations.cam.discoveryHandler"
    with pytest.raises(UpdateRejected, match="missing field `discoveryHandler`"):
        change(NOTHING, mask, stored=stored)


def test_masks_take_effect_in_their_order() -> None:
    masks = ("desiredState.workloads.web", "desiredState.workloads.web.tags.a")
    assert change(a_state({"web": a_form(tags={"z": "9"})}), *masks).workloads == {"web": {**WEB, "tags": {"z": "9"}}}
    both = change(a_state({"web": a_form(tags={"a": "2", "b": "3"})}), "desiredState.workloads.web.tags.a",
                  "desiredState.workloads.web.tags.b")  # fmt: skip
    assert both.workloads == {"web": {**WEB, "tags": {"a": "2", "b": "3"}}}


@pytest.mark.parametrize(
    ("mask", "new_state", "reason"),
    [
        ("desiredState.workloads.db.agent", partial(workloads={"db": {"agent": "n1"}}), "missing field `runtime`"),
        ("desiredState.workloads.db.runtime", partial(workloads={"db": {"runtime": "x"}}), "missing field `agent`"),
        ("desiredState.workloads.web.agent", NOTHING, "missing field `agent`"),
        ("desiredState.workloads.web.runtimeConfig", NOTHING, "missing field `runtimeConfig`"),
        ("desiredState.apiVersion", NOTHING, "missing field `apiVersion`"),
    ],
)
def test_a_result_without_a_required_field_is_rejected(mask: str, new_state: Form, reason: str) -> None:
    assert fault(new_state, mask) == unparsable(reason)


@pytest.mark.parametrize(
    ("mask", "new_state"),
    [
        ("desiredState.workloads.db.tags.x", NOTHING),
        ("desiredState.workloads.db.agent", NOTHING),
        ("desiredState.workloads.web.runtime.x", NOTHING),
        ("desiredState.workloads.web.files.0", NOTHING),
        ("desiredState.configs.unknown.x", NOTHING),
        ("desiredState.configs.lvl.x", NOTHING),
        ("desiredState.configs.lvl.x", partial(configs={"lvl": {"x": "y"}})),
        ("desiredState.apiVersion.x", NOTHING),
        ("desiredState.unknown.x", NOTHING),
        ("unknown.x", NOTHING),
        ("agents.n1.tags", NOTHING),
        ("agents.n1.tags.k", NOTHING),
        ("agents.n1.tags", {"agents": {"n1": {}}}),
        ("a" + ".a" * 500, NOTHING),
    ],
)
def test_a_mask_of_a_missing_field_is_rejected(mask: str, new_state: Form) -> None:
    assert fault(new_state, mask) == f"Update rejected: 'Could not find field {mask}'"


@pytest.mark.parametrize(
    ("mask", "new_state"),
    [
        ("", NOTHING),
        ("unknown", NOTHING),
        ("desiredState.unknown", NOTHING),
        ("workloadStates", {"workloadStates": {}}),
        ("workloadStates.n1.web", NOTHING),
        ("effectiveState", {"effectiveState": {"apiVersion": "v9", "workloads": {}}}),
        ("effectiveState.workloads.web", NOTHING),
        ("deviceInstances.cam", NOTHING),
        ("desiredState.workloads.*", partial(workloads={"web": {"agent": "n2"}})),
        ("desiredState.workloads.*.agent", partial(workloads={"*": {"agent": "n2"}})),
        ("agents", NOTHING),
        ("agents.n1", NOTHING),
        ("agents.n1.status", {"agents": {"n1": {"status": {"cpuUsage": 9}}}}),
    ],
)
def test_masks_without_effect_change_nothing(mask: str, new_state: Form) -> None:
    if mask.endswith("*.agent"):
        # A wildcard has no meaning here: it would be the name of a workload, which lacks everything else.
        assert fault(new_state, mask) == unparsable("missing field `runtime`")
    else:
        assert change(new_state, mask) == DesiredChange("v1")


@pytest.mark.parametrize(
    ("mask", "agents", "expected"),
    [
        ("agents", {"n1": {"tags": {"k": "v"}}, "n2": {}}, {"n1": {"k": "v"}, "n2": {}}),
        ("agents.n1", {"n1": {"tags": {"k": "v"}}, "n2": {}}, {"n1": {"k": "v"}}),
        ("agents.n1", {"n1": {}}, {"n1": {}}),
        ("agents.n1.tags", {"n1": {"tags": {"k": "v"}}}, {"n1": {"k": "v"}}),
        ("agents.n1.tags.k", {"n1": {"tags": {"k": "v", "other": "o"}}}, {"n1": {"k": "v"}}),
        ("agents.n1.status.cpuUsage", {"n1": {"status": {"cpuUsage": 1}}}, {}),
    ],
)
def test_masks_of_agents_replace_their_tags(mask: str, agents: Form, expected: dict[str, Any]) -> None:
    assert change({"agents": agents}, mask).agent_tags == expected


def test_messages_that_are_no_valid_state_are_rejected() -> None:
    request = base.UpdateStateRequest(newState=COMPLETE_STATE.from_form(a_state({"web": a_form()})))
    request.newState.desiredState.workloads.workloads["web"].restartPolicy = 9  # type: ignore[assignment]
    with pytest.raises(UpdateRejected) as caught:
        change_by_request(STORED, request)
    assert str(caught.value) == unparsable("9 is no known RestartPolicy")
    request = base.UpdateStateRequest(updateMask=["desiredState.configs.k"])
    request.newState.desiredState.configs.configs["k"].SetInParent()
    with pytest.raises(UpdateRejected, match="neither a string, a list nor a map"):
        change_by_request(STORED, request)


def test_stored_values_are_not_changed() -> None:
    before = repr(STORED)
    change(partial(workloads={"web": {"tags": {"b": "2"}}}), "desiredState.workloads.web.tags.b")
    change(NOTHING, "desiredState.configs.net.host")
    assert repr(STORED) == before
