import json
from typing import Any

import pytest

from ankaios.common.errors import Rejected
from ankaios.common.model.state import COMPLETE_STATE, CONFIG_ITEM, DEVICE_CONFIGURATION
from ankaios.common.pb import ank_base_pb2 as base

WORKLOAD: dict[str, Any] = {
    "agent": "n1",
    "restartPolicy": "ON_FAILURE",
    "dependencies": {"a": "ADD_COND_FAILED", "db": "ADD_COND_RUNNING"},
    "tags": {"a": "1", "b": "2"},
    "runtime": "podman",
    "runtimeConfig": "image: alpine:3",
    "controlInterfaceAccess": {
        "allowRules": [{"type": "StateRule", "operation": "ReadWrite", "filterMasks": ["*"]}],
        "denyRules": [{"type": "LogRule", "workloadNames": ["x*"]}],
    },
    "configs": {"c": "key"},
    "files": [{"mountPoint": "/a", "data": "x"}, {"mountPoint": "/b", "binaryData": "eA=="}],
    "resources": [
        {"name": "cam", "quantity": 2, "where": {"VENDOR": "acme"}},
        {"name": "gpu", "quantity": 1, "container": "p/c"},
    ],
    "placement": {"tags": {"zone": "front"}, "replicas": 2, "spread": True, "everyAgent": False, "replicaOf": "web"},
}
CONFIGURATION: dict[str, Any] = {
    "discoveryHandler": {
        "name": "udev",
        "discoveryDetails": "x",
        "discoveryProperties": {"a": "b", "c": {"config": "key"}, "d": {"file": "/secret"}},
    },
    "capacity": 2,
    "brokerProperties": {"p": "q"},
    "broker": {"strategy": "perDevice", "workload": WORKLOAD, "replicas": 1, "quantity": 3},
    "placement": {"agents": ["n1"], "tags": {"zone": "front"}},
    "distinct": "preferred",
    "offlineGraceSeconds": 300,
    "onDeviceLost": "restart",
    "onDeviceChanged": "restart",
}
INSTANCE: dict[str, Any] = {
    "configurationName": "cam",
    "cdiName": "akri.sh/cam=abc",
    "capacity": 1,
    "shared": True,
    "nodes": ["n1"],
    "deviceUsage": {"cam-abc-0": "n1"},
    "brokerProperties": {"p": "q"},
    "attributes": {
        "id": "/dev/video0",
        "mounts": [{"containerPath": "/c", "hostPath": "/h", "readOnly": True}],
        "deviceSpecs": [{"containerPath": "/c", "hostPath": "/h", "permissions": "rw"}],
        "online": False,
    },
    "slotOwners": {"cam-abc-0": "web"},
    "onlineNodes": ["n1"],
    "offlineSinceMs": 1_700_000_000_000,
    "lost": False,
}
STATE: dict[str, Any] = {
    "apiVersion": "v1",
    "workloads": {"web": WORKLOAD},
    "configs": {"list": ["a", {"m": "n"}], "net": {"empty": {}, "host": "h", "none": []}, "text": "t"},
    "deviceConfigurations": {"cam": CONFIGURATION},
}
EVERYTHING: dict[str, Any] = {
    "desiredState": STATE,
    "workloadStates": {"": {"w": {"i": {"additionalInfo": "", "state": "NotScheduled", "subState": "NotScheduled"}}}},
    "agents": {
        "n1": {
            "status": {"cpuUsage": 7, "freeMemory": 2048},
            "tags": {"zone": "front"},
            "resources": [{"name": "akri.sh/cam", "capacity": 2, "allocatable": 1, "allocated": 1}],
        },
        "n2": {},
    },
    "effectiveState": {"apiVersion": "v1", "workloads": {}},
    "deviceInstances": {"cam-abc": INSTANCE},
}


def test_the_whole_form_is_unchanged_by_the_conversion_to_protobuf_and_back() -> None:
    """[utest->swdd~common-conversions-between-ankaios-and-proto~1]"""
    wire = COMPLETE_STATE.from_form(EVERYTHING).SerializeToString()
    assert COMPLETE_STATE.to_form(base.CompleteState.FromString(wire)) == EVERYTHING


def test_maps_are_in_the_order_of_their_keys_and_fields_in_the_order_of_the_message() -> None:
    """[utest->swdd~common-object-serialization~1]"""
    backwards = json.loads(json.dumps(EVERYTHING), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    ordered = COMPLETE_STATE.to_form(COMPLETE_STATE.from_form(backwards))
    assert json.dumps(ordered) == json.dumps(EVERYTHING)


def test_unset_parts_and_empty_collections_are_omitted() -> None:
    state = base.CompleteState()
    assert COMPLETE_STATE.to_form(state) == {}
    state.desiredState.apiVersion = "v1"
    assert COMPLETE_STATE.to_form(state) == {"desiredState": {"apiVersion": "v1"}}
    state.desiredState.workloads.workloads["web"].tags.SetInParent()
    state.desiredState.configs.SetInParent()
    assert COMPLETE_STATE.to_form(state) == {"desiredState": {"apiVersion": "v1", "workloads": {"web": {}}}}


def test_rules_without_masks_and_names_keep_their_empty_lists() -> None:
    rules = [
        {"type": "StateRule", "operation": "Nothing", "filterMasks": []},
        {"type": "LogRule", "workloadNames": []},
    ]
    form = {"desiredState": {"apiVersion": "", "workloads": {"web": {"controlInterfaceAccess": {"denyRules": rules}}}}}
    assert COMPLETE_STATE.to_form(COMPLETE_STATE.from_form(form)) == form


def test_blank_maps_of_a_state_are_empty_and_other_blank_values_are_rejected() -> None:
    blank = {"desiredState": {"apiVersion": "v1", "workloads": None, "configs": None}}
    assert COMPLETE_STATE.to_form(COMPLETE_STATE.from_form(blank)) == {
        "desiredState": {"apiVersion": "v1", "workloads": {}}
    }
    for wrong in ({"tags": None}, {"agent": None}, {"files": None}):
        with pytest.raises(Rejected, match=r"^desiredState\.workloads\.web\.\w+: invalid type: unit value"):
            COMPLETE_STATE.from_form({"desiredState": {"workloads": {"web": wrong}}})


def test_empty_states_and_agents_are_shown_empty() -> None:
    form: dict[str, Any] = {"workloadStates": {}, "agents": {}}
    assert COMPLETE_STATE.to_form(COMPLETE_STATE.from_form(form)) == form


@pytest.mark.parametrize(
    "picked",
    [
        {"workloadStates": {"n1": {"web": {"i": {"additionalInfo": "x"}}}}},
        {"workloadStates": {"n1": {"web": {"i": {"state": "Running", "subState": "Ok"}}}}},
        {"agents": {"n1": {"status": {"cpuUsage": 0}}}},
        {"agents": {"n1": {"status": {"freeMemory": 0}}}},
        {"desiredState": {"apiVersion": "v1", "workloads": {"web": {"tags": {"a": "b"}}}}},
        {"desiredState": {"apiVersion": "v1", "configs": {"net": {"host": "h"}}}},
    ],
)
def test_parts_selected_by_masks_are_unchanged(picked: dict[str, Any]) -> None:
    """[utest->swdd~common-conversions-between-ankaios-and-proto~1]"""
    assert COMPLETE_STATE.to_form(COMPLETE_STATE.from_form(picked)) == picked


def test_a_part_of_a_device_configuration_can_be_shown() -> None:
    assert DEVICE_CONFIGURATION.from_form({"capacity": 2}).capacity == 2
    assert not DEVICE_CONFIGURATION.from_form({"capacity": 2}).HasField("discoveryHandler")
    assert DEVICE_CONFIGURATION.from_form({"broker": {"replicas": 2}}).broker.replicas == 2


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (base.Workload(restartPolicy=9), "9 is no known RestartPolicy"),  # type: ignore[arg-type]
        (base.Workload(files=base.Files(files=[base.File(mountPoint="/a")])), "'/a' has neither data nor binaryData"),
        (
            base.Workload(controlInterfaceAccess=base.ControlInterfaceAccess(allowRules=[base.AccessRightsRule()])),
            "AccessRightsRule is neither StateRule nor LogRule",
        ),
        (
            base.Workload(
                controlInterfaceAccess=base.ControlInterfaceAccess(
                    denyRules=[base.AccessRightsRule(stateRule=base.StateRule(operation=4))]  # type: ignore[arg-type]
                )
            ),
            "4 is no known ReadWriteEnum",
        ),
    ],
)
def test_unset_oneofs_and_unknown_numbers_are_rejected(message: base.Workload, reason: str) -> None:
    state = base.CompleteState()
    state.desiredState.workloads.workloads["web"].CopyFrom(message)
    with pytest.raises(Rejected, match=reason):
        COMPLETE_STATE.to_form(state)


def test_unknown_conditions_and_unset_config_items_are_rejected() -> None:
    state = base.CompleteState()
    state.desiredState.workloads.workloads["web"].dependencies.dependencies["db"] = 7  # type: ignore[assignment]
    with pytest.raises(Rejected, match="7 is no known AddCondition"):
        COMPLETE_STATE.to_form(state)
    with pytest.raises(Rejected, match="neither a string, a list nor a map"):
        CONFIG_ITEM.to_form(base.ConfigItem())
    with pytest.raises(Rejected, match="7 is no known Distinct"):
        DEVICE_CONFIGURATION.to_form(base.DeviceConfiguration(distinct=7))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("form", "place"),
    [
        ({"desiredState": {"apiVersion": "v1", "workloads": {"web": {"agent": 1}}}}, r"workloads\.web"),
        ({"desiredState": {"apiVersion": "v1", "workloads": {"web": {"restartPolicy": "X"}}}}, r"workloads\.web"),
        ({"desiredState": {"apiVersion": "v1", "configs": {"k": 1}}}, r"configs\.k"),
        ({"agents": {"n1": {"status": {"cpuUsage": -1}}}}, r"agents\.n1"),
        ({"agents": "n1"}, "agents"),
        ({"agents": {5: {}}}, "agents"),
        ({"deviceInstances": {"cam-abc": 5}}, "deviceInstances"),
        ({"deviceInstances": []}, "deviceInstances"),
        ({"workloadStates": {"a": {"w": {"i": {"state": "X", "subState": "Y"}}}}}, "workloadStates"),
        (
            {
                "desiredState": {
                    "apiVersion": "v1",
                    "workloads": {"web": {"controlInterfaceAccess": {"allowRules": [{"type": "X"}]}}},
                }
            },
            r"workloads\.web\.controlInterfaceAccess\.allowRules\[0\]\.type: unknown variant `X`, expected one of",
        ),
    ],
)
def test_a_form_that_is_no_state_is_rejected_with_the_position(form: dict[str, Any], place: str) -> None:
    with pytest.raises(Rejected, match=place):
        COMPLETE_STATE.from_form(form)
