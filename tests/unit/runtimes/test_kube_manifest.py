"""Manifests are queried and extended."""

from pathlib import Path
from typing import Any

import pytest
import ryaml
import yaml

from ankaios.common.device_grant import DeviceGrant, DeviceMount, DeviceNode
from ankaios.runtimes.podman.kube_manifest import (
    Target,
    add_control_interface,
    add_grants,
    dump_documents,
    exits_are_final,
    is_pod_of,
    load_documents,
)
from ankaios.runtimes.runtime_connector import Unsupported

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: shop}
spec:
  containers:
  - {name: web, image: a}
  - {name: side, image: b, volumeMounts: [{name: x, mountPath: /x}]}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  template:
    spec:
      containers: [{name: web, image: a}]
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop}\ndata: {a: b}\n"
FOLDER = Path("/run/ci")
MOUNT = {"name": "control-interface-volume", "mountPath": "/run/ankaios/control_interface"}
VOLUME = {"name": "control-interface-volume", "hostPath": {"path": "/run/ci", "type": "Directory"}}


def documents(text: str) -> list[Any]:
    return list(ryaml.loads_all(text))


def test_the_target_container_of_a_pod_gets_the_control_interface_and_no_other() -> None:
    (pod,) = documents(add_control_interface(POD, Target("shop", "web"), FOLDER))
    web, side = pod["spec"]["containers"]
    assert web["volumeMounts"] == [MOUNT]
    assert side["volumeMounts"] == [{"name": "x", "mountPath": "/x"}]
    assert pod["spec"]["volumes"] == [VOLUME]


def test_existing_lists_are_extended() -> None:
    (pod,) = documents(add_control_interface(POD, Target("shop", "side"), FOLDER))
    assert pod["spec"]["containers"][1]["volumeMounts"] == [{"name": "x", "mountPath": "/x"}, MOUNT]


def test_the_pod_of_a_deployment_is_named_with_a_suffix() -> None:
    (deployment,) = documents(add_control_interface(DEPLOYMENT, Target("shop-pod", "web"), FOLDER))
    spec = deployment["spec"]["template"]["spec"]
    assert spec["containers"][0]["volumeMounts"] == [MOUNT]
    assert spec["volumes"] == [VOLUME]


def test_all_documents_stay_and_only_the_first_match_is_changed() -> None:
    text = "\n---\n".join([CONFIG_MAP, POD, DEPLOYMENT, POD])
    found = documents(add_control_interface(text, Target("shop", "web"), FOLDER))
    originals = documents(text)
    assert [found[0], *found[2:]] == [originals[0], *originals[2:]]
    assert found[1]["spec"]["volumes"] == [VOLUME]


@pytest.mark.parametrize(
    ("manifest", "target", "why"),
    [
        (POD, "other/web", "Cannot add Control Interface. Target pod not found 'other'"),
        (POD, "shop/other", "Cannot add Control Interface. Target container 'other' not found."),
        (DEPLOYMENT, "shop/web", "Cannot add Control Interface. Target pod not found 'shop'"),
        ("kind: Pod\nmetadata: {}", "shop/web", "needs a text at 'metadata.name'"),
        ("metadata: {name: shop}", "shop/web", "needs a text at 'kind'"),
        ("kind: Pod\nmetadata: {name: shop}", "shop/web", "expected a mapping at 'spec'"),
        ("kind: Pod\nmetadata: {name: shop}\nspec: {}", "shop/web", "expected a list at 'spec.containers'"),
        (POD.replace("volumeMounts: [", "volumeMounts: 3, x: ["), "shop/side", "expected a list at 'volumeMounts'"),
        ("a: [", "shop/web", "cannot read the manifest"),
        ("3", "shop/web", "needs a text at 'kind'"),
    ],
)
def test_a_target_that_cannot_be_found_is_rejected(manifest: str, target: str, why: str) -> None:
    with pytest.raises(Unsupported) as caught:
        add_control_interface(manifest, Target.parse(target), FOLDER)
    assert why in str(caught.value)


@pytest.mark.parametrize("text", ["", "shop", "shop/", "/web", "a/b/c"])
def test_a_target_names_pod_and_container(text: str) -> None:
    with pytest.raises(Unsupported) as caught:
        Target.parse(text)
    expected = "Expected format: '<pod_name>/<container_name>'"
    assert str(caught.value) == f"Invalid control interface target format: '{text}'. {expected}"


def test_a_missing_target_is_rejected() -> None:
    with pytest.raises(Unsupported, match=r"Control interface target not specified in runtime config\."):
        Target.parse(None)


GRANT = DeviceGrant(
    envs={"CAMERA": "on"},
    mounts=(DeviceMount("/in", "/host", read_only=True),),
    devices=(DeviceNode("/dev/cam", "/dev/video0"), DeviceNode("/dev/disk", "/dev/sda")),
    annotations={"akri.sh/x": "1"},
    container="side",
)


def test_devices_are_added_to_the_container_that_requested_them() -> None:
    (pod,) = documents(add_grants(POD, [GRANT], frozenset({"/dev/sda"})))
    web, side = pod["spec"]["containers"]
    assert web == {"name": "web", "image": "a"}
    assert side["env"] == [{"name": "CAMERA", "value": "on"}]
    assert side["volumeMounts"][1:] == [
        {"name": "device-0-0", "mountPath": "/in", "readOnly": True},
        {"name": "device-0-1", "mountPath": "/dev/cam"},
        {"name": "device-0-2", "mountPath": "/dev/disk"},
    ]
    assert pod["spec"]["volumes"] == [
        {"name": "device-0-0", "hostPath": {"path": "/host"}},
        {"name": "device-0-1", "hostPath": {"path": "/dev/video0", "type": "CharDevice"}},
        {"name": "device-0-2", "hostPath": {"path": "/dev/sda", "type": "BlockDevice"}},
    ]
    assert pod["metadata"]["annotations"] == {"akri.sh/x": "1"}


def test_a_request_without_container_is_for_the_only_one() -> None:
    grant = DeviceGrant(envs={"A": "b"}, annotations={"x": "y"})
    (deployment,) = documents(add_grants(DEPLOYMENT, [grant]))
    template = deployment["spec"]["template"]
    assert template["spec"]["containers"][0]["env"] == [{"name": "A", "value": "b"}]
    assert template["metadata"]["annotations"] == {"x": "y"}


@pytest.mark.parametrize(
    ("grant", "why"),
    [
        (DeviceGrant(envs={"A": "b"}), "Expected exactly one container, as the device request names none, found 2."),
        (DeviceGrant(envs={"A": "b"}, container="none"), "Expected exactly one container 'none', found 0."),
        (DeviceGrant(container="other/web"), "Expected exactly one container 'other/web', found 0."),
        (DeviceGrant(container="web", cdi_devices=("v/c=n",)), "podman-kube has no CDI devices, such as 'v/c=n'."),
    ],
)
def test_devices_that_cannot_be_placed_are_rejected(grant: DeviceGrant, why: str) -> None:
    with pytest.raises(Unsupported) as caught:
        add_grants(POD, [grant])
    assert why in str(caught.value)


def test_annotations_that_are_no_mapping_are_rejected() -> None:
    with pytest.raises(Unsupported, match=r"metadata\.annotations"):
        add_grants(POD.replace("{name: shop}", "{name: shop, annotations: 3}"), [GRANT])


@pytest.mark.parametrize(
    ("manifest", "final"),
    [
        (POD, False),
        (POD + "  restartPolicy: Never\n", True),
        (POD + "  restartPolicy: OnFailure\n", False),
        (CONFIG_MAP + "---\n" + POD + "  restartPolicy: Never\n", True),
        (DEPLOYMENT, False),
        (CONFIG_MAP, False),
        ("kind: DaemonSet\n---\n" + POD + "  restartPolicy: Never\n", False),
        ("a: [", False),
    ],
)
def test_exits_are_final_where_podman_restarts_nothing(manifest: str, final: bool) -> None:
    assert exits_are_final(manifest) is final


def test_pods_are_recognised_by_the_names_podman_gives_them() -> None:
    assert is_pod_of("shop", POD)
    assert is_pod_of("shop-pod", DEPLOYMENT)
    assert is_pod_of("shop-pod-0", DEPLOYMENT)
    assert not is_pod_of("shop-pod", POD)
    assert not is_pod_of("other", POD)
    assert not is_pod_of("shop", "a: [")
    assert not is_pod_of("shop", CONFIG_MAP)


TRICKY = """\
plain: [yes, no, on, off, 0644, 1_000, 12:30, 2024-01-01, y]
text: ["1", "true", "null", "3.5", "a: b", "# no comment", "", " x ", "it's", 'say "hi"', "\\u00e9\\U0001F600"]
number: [1, -2, 3.5, true, null]
1: key
block: |
  two
  lines
"""


def test_a_written_manifest_has_the_same_meaning_for_podman() -> None:
    """PyYAML reads YAML 1.1, as podman does."""
    written = dump_documents(load_documents(TRICKY), TRICKY)
    assert yaml.safe_load(written) == yaml.safe_load(TRICKY)


MERGED = """\
base: &base {image: bb, env: [{name: A, value: merged}], ports: [1]}
more: &more {image: other, tty: true}
nested: &nested {<<: *more, stdin: true}
containers:
- {<<: *base, name: first}
- {name: second, ports: [2], <<: [*base, *nested]}
"""


def test_merge_keys_keep_their_meaning_for_podman() -> None:
    written = dump_documents(load_documents(MERGED), MERGED)
    assert yaml.safe_load(written) == yaml.safe_load(MERGED)


def test_an_addition_does_not_replace_the_list_of_an_anchor() -> None:
    container = "{<<: {env: [{name: A, value: merged}]}, name: web, image: bb}"
    manifest = f"kind: Pod\nmetadata: {{name: shop}}\nspec:\n  containers:\n  - {container}\n"
    (pod,) = documents(add_grants(manifest, [DeviceGrant(envs={"B": "b"})]))
    names = [variable["name"] for variable in pod["spec"]["containers"][0]["env"]]
    assert names == ["A", "B"]


@pytest.mark.parametrize("source", ["3", "[{a: b}, text]", "null"])
def test_a_merge_key_without_mapping_is_rejected(source: str) -> None:
    with pytest.raises(Unsupported, match="'<<' requires a mapping or a list of mappings"):
        load_documents(f"kind: Pod\n<<: {source}\n")


def test_numbers_that_are_not_finite_are_still_rejected_by_podman() -> None:
    text = "a: [.inf, -.inf, .nan]\n"
    assert dump_documents(load_documents(text), text) == '{"a": [.inf, -.inf, .nan]}\n'


def test_quoted_words_stay_text_for_podman() -> None:
    text = 'command: ["yes", \'0644\', "12:30"]\n'
    written = dump_documents(load_documents(text), text)
    assert yaml.safe_load(written) == {"command": ["yes", "0644", "12:30"]}


def test_empty_documents_are_removed() -> None:
    assert len(load_documents("---\n---\na: b\n---\n")) == 1
