"""Manifests: accepted ones, their meaning, and the rejection of all others."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.errors import Rejected
from ankaios.common.manifest import change_of, is_deprecated, load_manifest, violations
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.yaml_text import dump_yaml
from tests.support.examples import examples

WORKLOAD: dict[str, Any] = {"agent": "n1", "runtime": "podman", "runtimeConfig": "image: a"}

FULL = """\
apiVersion: v1
workloads:
  web:
    agent: "{{node.name}}-x"
    runtime: podman
    runtimeConfig: "image: {{img}}"
    restartPolicy: ON_FAILURE
    dependencies: {db: ADD_COND_RUNNING}
    tags: {owner: me}
    configs: {img: image, node: node}
    files:
    - {mountPoint: /a, data: text, note: unknown keys mean nothing}
    - {mountPoint: /b, binaryData: YQ==}
    controlInterfaceAccess:
      allowRules:
      - {type: StateRule, operation: ReadWrite, filterMasks: ["desiredState.workloads.*"]}
      denyRules:
      - {type: LogRule, workloadNames: ["a*"]}
    resources:
    - {name: cam}
    - {name: akri.sh/arm, quantity: 2}
    placement: {tags: {zone: front}}
configs:
  image: alpine:3
  node: {name: n1, ports: ["80", {x: "1"}]}
deviceConfigurations:
  cam:
    discoveryHandler: {name: udev, discoveryDetails: "udevRules: []"}
    capacity: 2
    broker:
      strategy: perDevice
      workload: {runtime: podman, runtimeConfig: "image: b", resources: [{name: x}]}
    placement: {agents: [n1]}
    distinct: preferred
    onDeviceLost: restart
"""


def loaded(**sections: Any) -> dict[str, Any]:
    return load_manifest(dump_yaml({"apiVersion": "v1", **sections}), "test")


def refusal(text: str) -> str:
    with pytest.raises(Rejected) as caught:
        load_manifest(text, "test")
    return str(caught.value)


def faults(**workload: Any) -> list[str]:
    found = violations({"apiVersion": "v1", "workloads": {"w": WORKLOAD | workload}})
    return [f"{pointer}: {reason}" for pointer, reason in found]


def test_a_manifest_with_all_fields_is_accepted_and_matches_the_state() -> None:
    change = change_of([load_manifest(FULL, "test")])
    state = COMPLETE_STATE.from_form({"desiredState": change.desired_state}).desiredState
    web = state.workloads.workloads["web"]
    assert [(request.name, request.quantity) for request in web.resources.resources] == [("cam", 1), ("akri.sh/arm", 2)]
    assert [file.mountPoint for file in web.files.files] == ["/a", "/b"]
    broker = state.deviceConfigurations.deviceConfigurations["cam"].broker
    assert broker.workload.resources.resources[0].quantity == 1
    assert change.masks == (
        "desiredState.configs.image",
        "desiredState.configs.node",
        "desiredState.deviceConfigurations.cam",
        "desiredState.workloads.web",
    )


@pytest.mark.parametrize(
    "text", ["apiVersion: v1", "apiVersion: v1\nworkloads:\nconfigs:\n", '{"apiVersion": "v1", "x": 5}']
)
def test_sections_may_be_missing_or_blank_and_unknown_keys_are_ignored(text: str) -> None:
    assert change_of([load_manifest(text, "test")]).masks == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("apiVersion: v3", '\'/apiVersion\': "v3" does not match "^v1$"'),
        ("apiVersion: 1", "'/apiVersion': 1 is not of type \"string\""),
        ("workloads: {}", "'': \"apiVersion\" is a required property"),
        ("", "'': null is not of type \"object\""),
        ("[a]", '\'\': ["a"] is not of type "object"'),
        ("apiVersion: v1\nworkloads: []", '\'/workloads\': [] is not of types "object", "null"'),
        ("apiVersion: v1\nworkloads: {w: {}}", "'/workloads/w': \"runtime\" is a required property"),
        ("apiVersion: v1\nworkloads: {a.b: {}}", '\'/workloads\': "a.b" does not match "^[a-zA-Z0-9_-]+$"'),
        ("apiVersion: v1\nconfigs: {a: 5}", '\'/configs/a\': 5 is not of types "string", "array", "object"'),
        ("apiVersion: v1\nconfigs: {a: {b: [true]}}", "'/configs/a/b/0': true is not of types"),
    ],
)
def test_violations_of_the_schema_are_listed_by_position(text: str, expected: str) -> None:
    text = refusal(text)
    assert text.startswith("Manifest schema validation failed:\n")
    assert expected in text


def test_all_violations_are_listed_one_per_line() -> None:
    text = refusal("apiVersion: v2\nworkloads: {w: {runtime: 5}}")
    assert len(text.splitlines()) == 4


@pytest.mark.parametrize(
    ("workload", "position"),
    [
        ({"agent": "a b"}, "/agent"),
        ({"agent": "{{ x }}"}, "/agent"),
        ({"agent": "n1\n"}, "/agent"),
        ({"restartPolicy": "SOMETIMES"}, "/restartPolicy"),
        ({"dependencies": {"d": "RUNNING"}}, "/dependencies/d"),
        ({"tags": [{"key": "a", "value": "b"}]}, "/tags"),
        ({"tags": {"a": 1}}, "/tags/a"),
        ({"configs": {"a": "b c"}}, "/configs/a"),
        ({"configs": {"a" * 64: "b"}}, "/configs"),
        ({"files": [{"mountPoint": "/x"}]}, "/files/0"),
        ({"files": [{"mountPoint": "/x", "data": "a", "binaryData": "b"}]}, "/files/0"),
        ({"controlInterfaceAccess": {"allowRules": [{"type": "Rule"}]}}, "/controlInterfaceAccess/allowRules/0/type"),
        ({"controlInterfaceAccess": {"denyRules": [{"type": "StateRule"}]}}, "/controlInterfaceAccess/denyRules/0"),
        (
            {"controlInterfaceAccess": {"allowRules": [{"type": "LogRule", "workloadNames": ["**"]}]}},
            "/controlInterfaceAccess/allowRules/0/workloadNames/0",
        ),
        (
            {
                "controlInterfaceAccess": {
                    "allowRules": [{"type": "StateRule", "operation": "Read", "filterMasks": ["a."]}]
                }
            },
            "/controlInterfaceAccess/allowRules/0/filterMasks/0",
        ),
        ({"resources": [{"name": "x", "quantity": 0}]}, "/resources/0/quantity"),
    ],
)
def test_wrong_parts_of_a_workload_are_found_where_they_are(workload: dict[str, Any], position: str) -> None:
    assert any(fault.startswith(f"/workloads/w{position}: ") for fault in faults(**workload)), faults(**workload)


@pytest.mark.parametrize("agent", ["", "n-1_A", "{{a.b}}", "x{{a}}y{{b-c.d_e}}"])
def test_agents_may_be_empty_or_contain_templates(agent: str) -> None:
    assert faults(agent=agent) == []


def test_keys_at_any_depth_must_be_valid_in_paths() -> None:
    with pytest.raises(
        Rejected, match=re.escape("Invalid mapping key 'a.b': Expected to have characters in [a-zA-Z0-9_-].")
    ):
        loaded(workloads={"w": WORKLOAD | {"tags": {"a.b": "c"}}})


def test_numbers_are_no_names() -> None:
    assert refusal("apiVersion: v1\nconfigs: {5: x}").startswith("The provided path does not exist! ")
    assert refusal("apiVersion: v1\nworkloads: {5: {runtime: r, runtimeConfig: c}}").startswith(
        "The provided path does"
    )
    assert "put it in quotes" in refusal("apiVersion: v1\nconfigs: {a: {5: x}}")


@pytest.mark.parametrize("text", ["a: [", "a: 1\na: 2", "a: 1\n---\nb: 2", "\x00", "a: *b", "[" * 1000])
def test_text_that_is_no_yaml_is_rejected(text: str) -> None:
    assert refusal(text).startswith("Invalid manifest data provided: ")


def test_aliases_are_not_expanded_without_limit() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
    assert refusal(bomb).startswith("Invalid manifest data provided: ")


def test_agents_are_required_overwritten_or_left_to_the_server() -> None:
    homeless = {key: value for key, value in WORKLOAD.items() if key != "agent"}
    manifest = loaded(workloads={"w": homeless})
    with pytest.raises(Rejected, match="No agent name specified -> use '--agent' option to specify!"):
        change_of([manifest])
    assert change_of([manifest], "").desired_state["workloads"]["w"]["agent"] == ""
    assert change_of([loaded(workloads={"w": WORKLOAD})], "n2").desired_state["workloads"]["w"]["agent"] == "n2"
    assert change_of([manifest], need_agent=False).masks == ("desiredState.workloads.w",)
    placed = loaded(workloads={"w": homeless | {"placement": {"tags": {"a": "b"}}}})
    assert change_of([placed]).desired_state["workloads"]["w"]["agent"] == ""


def test_several_manifests_are_merged_unless_they_contain_the_same_name() -> None:
    first, second = loaded(configs={"a": "1"}), loaded(workloads={"a": WORKLOAD})
    assert change_of([second, first]).masks == ("desiredState.configs.a", "desiredState.workloads.a")
    with pytest.raises(Rejected, match="Multiple workloads with the same name 'a' found!"):
        change_of([first, first])


def test_the_result_is_always_of_the_current_version() -> None:
    old = load_manifest("apiVersion: v0.1\nworkloads: {w: {agent: n, runtime: r, runtimeConfig: c}}", "test")
    assert is_deprecated(old)
    assert change_of([old]).desired_state["apiVersion"] == "v1"


def test_tags_of_deprecated_manifests_become_a_map() -> None:
    text = "apiVersion: v0.1\nworkloads: {w: {agent: n, tags: [{key: a, value: b}, {key: c, value: d}]}}"
    assert load_manifest(text, "test")["workloads"]["w"]["tags"] == {"a": "b", "c": "d"}


@pytest.mark.parametrize(
    ("workloads", "expected"),
    [
        ("{w: {tags: {a: b}}}", "Invalid tags of workload 'w'"),
        ("{w: {tags: [a]}}", "Invalid tags of workload 'w'"),
        ("{w: {tags: [{key: a}]}}", "Invalid tags of workload 'w'"),
        ("{w: 5}", "workload 'w' must be a map"),
        ("5", "'workloads' must be a map"),
        ("{1: {}}", "The provided path does not exist!"),
    ],
)
def test_invalid_workloads_of_deprecated_manifests_are_rejected(workloads: str, expected: str) -> None:
    assert expected in refusal(f"apiVersion: v0.1\nworkloads: {workloads}")


def test_values_of_deprecated_manifests_that_fit_no_message_are_rejected_with_their_position() -> None:
    manifest = load_manifest("apiVersion: v0.1\nworkloads: {w: {agent: n, files: [{mountPoint: 5}]}}", "test")
    with pytest.raises(Rejected) as caught:
        COMPLETE_STATE.from_form({"desiredState": change_of([manifest]).desired_state})
    position = "desiredState.workloads.w.files[0].mountPoint"
    assert str(caught.value) == f"{position}: invalid type: integer `5`, expected a string"


KEYS = st.sampled_from(
    [
        *(
            "apiVersion",
            "workloads",
            "configs",
            "deviceConfigurations",
            "w",
            "agent",
            "runtime",
            "runtimeConfig",
            "tags",
        ),
        *(
            "files",
            "resources",
            "placement",
            "dependencies",
            "controlInterfaceAccess",
            "allowRules",
            "type",
            "operation",
        ),
        *("filterMasks", "broker", "workload", "discoveryHandler", "name"),
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["v1", "v0.1", "StateRule"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@examples(100)
@given(st.dictionaries(KEYS, VALUES, max_size=4), st.sampled_from(["v1", "v0.1", "v2"]))
def test_any_text_is_accepted_or_rejected_with_a_reason(value: dict[str, Any], version: str) -> None:
    try:
        change = change_of([load_manifest(dump_yaml(value | {"apiVersion": version}), "test")], "n1")
        COMPLETE_STATE.from_form({"desiredState": change.desired_state})
    except Rejected as fault:
        assert str(fault)


@examples(100)
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_loaded_or_rejected(text: str | bytes) -> None:
    try:
        load_manifest(text, "test")
    except Rejected as fault:
        assert str(fault)


def test_a_broker_may_name_its_device_by_the_placeholder() -> None:
    manifest = {
        "apiVersion": "v1",
        "deviceConfigurations": {
            "cam": {
                "discoveryHandler": {"name": "debugEcho"},
                "broker": {
                    "strategy": "perDevice",
                    "workload": {
                        "runtime": "native",
                        "runtimeConfig": "command: [cat]",
                        "resources": [{"name": "{{PLACEHOLDER}}", "quantity": 1}],
                    },
                },
            }
        },
    }
    assert violations(manifest) == []


@pytest.mark.parametrize("tag", ["{key: [], value: b}", "{key: a, value: {}}", "{key: a}", "a"])
def test_a_deprecated_tag_that_is_no_pair_of_texts_is_rejected(tag: str) -> None:
    text = f"apiVersion: v0.1\nworkloads: {{w: {{runtime: r, runtimeConfig: c, tags: [{tag}]}}}}"
    with pytest.raises(Rejected, match="Invalid tags of workload 'w'"):
        load_manifest(text, "it")
