"""[utest->swdd~common-object-representation~1]"""

from typing import Any

import pytest

from ankaios.common.model.state import CONFIG_ITEM, DEVICE_CONFIGURATION, STATE, WORKLOAD
from ankaios.common.model.unions import MAX_CONFIG_DEPTH
from ankaios.common.model.values import Malformed

SMALL: dict[str, Any] = {"agent": "A", "runtime": "podman", "runtimeConfig": "image: alpine:3"}
SMALL_FORM = {"agent": "A", "restartPolicy": "NEVER", "runtime": "podman", "runtimeConfig": "image: alpine:3"}
FULL: dict[str, Any] = {
    **SMALL,
    "restartPolicy": "ALWAYS",
    "dependencies": {"db": "ADD_COND_RUNNING"},
    "tags": {"owner": "me"},
    "controlInterfaceAccess": {
        "allowRules": [{"type": "StateRule", "operation": "ReadWrite", "filterMasks": ["*"]}],
        "denyRules": [{"type": "LogRule", "workloadNames": ["x*"]}],
    },
    "configs": {"c": "key"},
    "files": [{"mountPoint": "/a", "data": "x"}, {"mountPoint": "/b", "binaryData": "eA=="}],
    "resources": [{"name": "cam", "quantity": 2, "container": "pod/c"}],
    "placement": {"tags": {"zone": "front"}},
}


def fault_of(workload: dict[str, Any]) -> Malformed:
    with pytest.raises(Malformed) as caught:
        WORKLOAD.read_at(workload, "workloads.web")
    return caught.value


def test_a_workload_gets_its_defaults_and_nothing_empty() -> None:
    assert WORKLOAD.read_at(SMALL, "w") == SMALL_FORM
    empty = {**SMALL, "tags": {}, "files": [], "dependencies": None, "controlInterfaceAccess": {"allowRules": []}}
    assert WORKLOAD.read_at(empty, "w") == SMALL_FORM


def test_a_full_workload_keeps_everything_in_the_order_of_the_form() -> None:
    form = WORKLOAD.read_at(FULL, "w")
    assert form == FULL
    assert list(form) == [
        "agent", "restartPolicy", "dependencies", "tags", "runtime", "runtimeConfig",
        "controlInterfaceAccess", "configs", "files", "resources", "placement",
    ]  # fmt: skip


def test_white_space_around_the_runtime_config_is_dropped() -> None:
    assert WORKLOAD.read_at({**SMALL, "runtimeConfig": "\u2003 a\n b \t\n"}, "w")["runtimeConfig"] == "a\n b"


@pytest.mark.parametrize("field", ["agent", "runtime", "runtimeConfig"])
def test_a_missing_field_is_reported_with_its_position(field: str) -> None:
    fault = fault_of({key: value for key, value in SMALL.items() if key != field})
    assert fault.reason == f"missing field `{field}`"
    assert str(fault) == f"workloads.web: missing field `{field}`"


@pytest.mark.parametrize(("value", "text"), [(5, "5"), (1.5, "1.5"), (True, "true"), (None, ""), ("x", "x")])
def test_agent_runtime_and_its_config_take_any_scalar_as_text(value: Any, text: str) -> None:
    form = WORKLOAD.read_at({"agent": value, "runtime": value, "runtimeConfig": value}, "w")
    assert (form["agent"], form["runtime"], form["runtimeConfig"]) == (text, text, text)


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"agent": {}}, "invalid type: map, expected a string"),
        ({"agent": []}, "invalid type: sequence, expected a string"),
        ({"tags": {"a": 1}}, "invalid type: integer `1`, expected a string"),
        ({"tags": {"a": True}}, "invalid type: boolean `true`, expected a string"),
        ({"tags": {1: "a"}}, "invalid type: integer `1`, expected a string as key"),
        ({"tags": ["a"]}, "invalid type: sequence, expected a map"),
        ({"configs": {"a": 1.5}}, "invalid type: floating point `1.5`, expected a string"),
        ({"configs": {"a": None}}, "invalid type: unit value, expected a string"),
        ({"dependencies": "db"}, 'invalid type: string "db", expected a map'),
        ({"files": {}}, "invalid type: map, expected a sequence"),
        ({"files": [{"data": "x"}]}, "missing field `mountPoint`"),
        ({"files": [{"mountPoint": "/a"}]}, "expected one of `data` and `binaryData`"),
        ({"files": [{"mountPoint": "/a", "data": "x", "binaryData": "x"}]}, "expected one of `data` and `binaryData`"),
        ({"restartPolicy": "MAYBE"}, "unknown variant `MAYBE`, expected one of `NEVER`, `ON_FAILURE`, `ALWAYS`"),
        ({"restartPolicy": 1}, "invalid type: integer `1`, expected a string"),
        ({"dependencies": {"db": "ADD"}}, "unknown variant `ADD`, expected one of `ADD_COND_RUNNING`, "
         "`ADD_COND_SUCCEEDED`, `ADD_COND_FAILED`, `ADD_COND_HEALTHY`"),
        ({"controlInterfaceAccess": {"allowRules": [{}]}}, "missing field `type`"),
        ({"controlInterfaceAccess": {"allowRules": [{"type": "X"}]}},
         "unknown variant `X`, expected one of `StateRule`, `LogRule`"),
        ({"controlInterfaceAccess": {"allowRules": [{"type": "StateRule", "filterMasks": []}]}},
         "missing field `operation`"),
        ({"controlInterfaceAccess": {"denyRules": [{"type": "LogRule"}]}}, "missing field `workloadNames`"),
        ({"resources": [{"name": "cam", "quantity": -1}]},
         "invalid value: integer `-1`, expected a number from 0 to 4294967295"),
        ({"resources": [{"name": "cam", "quantity": True}]}, "invalid type: boolean `true`, expected a whole number"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_described(part: dict[str, Any], reason: str) -> None:
    assert fault_of({**SMALL, **part}).reason == reason


def test_the_position_of_an_error_in_a_list_is_reported() -> None:
    fault = fault_of({**SMALL, "files": [{"mountPoint": "/a", "data": "x"}, {"mountPoint": "/b", "data": 1}]})
    assert str(fault).startswith("workloads.web.files[1].data: ")


def test_the_old_name_of_filter_masks_is_accepted() -> None:
    rule = {"type": "StateRule", "operation": "Read", "filterMask": ["a"]}
    form = WORKLOAD.read_at({**SMALL, "controlInterfaceAccess": {"allowRules": [rule]}}, "w")
    expected = {"type": "StateRule", "operation": "Read", "filterMasks": ["a"]}
    assert form["controlInterfaceAccess"] == {"allowRules": [expected]}


def test_a_rule_without_masks_keeps_its_empty_list() -> None:
    access = {"allowRules": [{"type": "StateRule", "operation": "Read", "filterMasks": []}]}
    assert WORKLOAD.read_at({**SMALL, "controlInterfaceAccess": access}, "w")["controlInterfaceAccess"] == access


def test_a_workload_with_placement_need_not_name_an_agent() -> None:
    placed = {"runtime": "podman", "runtimeConfig": "x", "placement": {"tags": {"zone": "front"}}}
    for agent in ({}, {"agent": None}, {"agent": ""}):
        assert WORKLOAD.read_at({**placed, **agent}, "w")["agent"] == ""
    with pytest.raises(Malformed, match=r"^w: missing field `agent`$"):
        WORKLOAD.read_at({**placed, "placement": None}, "w")


def test_unknown_keys_are_ignored() -> None:
    assert WORKLOAD.read_at({**SMALL, "surprise": 1}, "w") == SMALL_FORM
    assert STATE.read({"apiVersion": "v1", "surprise": 1}) == {"apiVersion": "v1", "workloads": {}}


def test_a_quantity_not_given_is_one_and_an_empty_placement_is_kept() -> None:
    form = WORKLOAD.read_at({**SMALL, "resources": [{"name": "cam"}], "placement": {}}, "w")
    assert form["resources"] == [{"name": "cam", "quantity": 1}]
    assert form["placement"] == {}


@pytest.mark.parametrize("blank", [{}, {"workloads": None}, {"workloads": {}, "configs": None}, {"configs": {}}])
def test_blank_maps_of_a_state_are_empty(blank: dict[str, Any]) -> None:
    assert STATE.read({"apiVersion": "v1", **blank}) == {"apiVersion": "v1", "workloads": {}}


def test_a_state_needs_its_version_and_is_a_map() -> None:
    for wrong, reason in (({}, "missing field `apiVersion`"), ([], "invalid type: sequence, expected a map")):
        with pytest.raises(Malformed) as caught:
            STATE.read(wrong)
        assert str(caught.value) == reason


def test_a_state_keeps_workloads_configs_and_device_configurations() -> None:
    device = {"discoveryHandler": {"name": "udev"}}
    state = {
        "apiVersion": "v1",
        "workloads": {"web": SMALL},
        "configs": {"k": "v"},
        "deviceConfigurations": {"d": device},
    }
    assert STATE.read(state) == {**state, "workloads": {"web": SMALL_FORM}}


@pytest.mark.parametrize("wrong", [1, True, 1.5, None])
def test_config_items_are_strings_lists_and_maps_of_such(wrong: Any) -> None:
    item = {"a": ["b", {"c": []}], "d": {}}
    assert CONFIG_ITEM.read_at(item, "configs.k") == item
    with pytest.raises(Malformed, match=r"^configs\.k\.a\[0\]: invalid type"):
        CONFIG_ITEM.read_at({"a": [wrong]}, "configs.k")


def test_config_items_nested_deeper_than_messages_permit_are_rejected() -> None:
    item: Any = "leaf"
    for _ in range(MAX_CONFIG_DEPTH - 1):
        item = {"k": item}
    assert CONFIG_ITEM.read_at(item, "c") == item
    with pytest.raises(Malformed, match="nested 29 deep at most"):
        CONFIG_ITEM.read_at([item], "c")


def test_a_device_configuration_is_read_with_all_its_parts() -> None:
    full = {
        "discoveryHandler": {"name": "udev", "discoveryDetails": "x", "discoveryProperties": {"a": "b"}},
        "capacity": 2,
        "brokerProperties": {"p": "q"},
        "broker": {
            "strategy": "perDevice",
            "workload": {"restartPolicy": "NEVER", "runtime": "podman", "runtimeConfig": "x"},
            "replicas": 1,
            "quantity": 1,
        },
        "placement": {"agents": ["A"], "tags": {"zone": "front"}},
        "distinct": "preferred",
        "offlineGraceSeconds": 300,
        "onDeviceLost": "stop",
    }
    assert DEVICE_CONFIGURATION.read_at(full, "d") == full


def test_a_broker_may_name_its_agent() -> None:
    broker = {"strategy": "perNode", "workload": {**SMALL}}
    form = DEVICE_CONFIGURATION.read_at({"discoveryHandler": {"name": "x"}, "broker": broker}, "d")
    assert form["broker"]["workload"]["agent"] == "A"


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({}, "d: missing field `discoveryHandler`"),
        ({"discoveryHandler": {}}, "d.discoveryHandler: missing field `name`"),
        ({"discoveryHandler": {"name": "x"}, "broker": {"workload": SMALL}}, "d.broker: missing field `strategy`"),
        ({"discoveryHandler": {"name": "x"}, "capacity": 2**32},
         "d.capacity: invalid value: integer `4294967296`, expected a number from 0 to 4294967295"),
        ({"discoveryHandler": {"name": "x"}, "distinct": "no"},
         "d.distinct: unknown variant `no`, expected one of `required`, `preferred`"),
    ],
)  # fmt: skip
def test_a_wrong_device_configuration_is_described(wrong: dict[str, Any], fault: str) -> None:
    with pytest.raises(Malformed) as caught:
        DEVICE_CONFIGURATION.read_at(wrong, "d")
    assert str(caught.value) == fault
