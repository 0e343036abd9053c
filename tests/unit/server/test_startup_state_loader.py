from pathlib import Path

import pytest

from ankaios.common.errors import StartupFailed
from ankaios.server.startup_state_loader import load_startup_state, parse_startup_manifest

MANIFEST = """
apiVersion: v1
workloads:
  web:
    agent: n1
    runtime: podman
    runtimeConfig: |
      image: alpine:3
    tags:
      owner: me
configs:
  net: {host: h, ports: ["80"]}
"""
WEB = {
    "agent": "n1",
    "restartPolicy": "NEVER",
    "tags": {"owner": "me"},
    "runtime": "podman",
    "runtimeConfig": "image: alpine:3",
}


def fault(text: str) -> StartupFailed:
    with pytest.raises(StartupFailed) as caught:
        parse_startup_manifest(text.encode())
    return caught.value


def test_a_manifest_is_read_from_its_file(tmp_path: Path) -> None:
    """[utest->swdd~stored-workload-spec-parses-yaml~1]"""
    path = tmp_path / "state.yaml"
    path.write_text(MANIFEST)
    assert load_startup_state(path) == {
        "apiVersion": "v1",
        "workloads": {"web": WEB},
        "configs": {"net": {"host": "h", "ports": ["80"]}},
    }


def test_json_is_yaml() -> None:
    assert parse_startup_manifest(b'{"apiVersion": "v1", "workloads": {}}') == {"apiVersion": "v1", "workloads": {}}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """[utest->swdd~server-fails-on-invalid-startup-state~1]"""
    for path in (tmp_path / "missing.yaml", tmp_path):
        with pytest.raises(StartupFailed) as caught:
            load_startup_state(path)
        assert caught.value.context == "Could not read the startup config"
        assert str(path) in caught.value.reason


def test_an_invalid_manifest_is_reported_with_the_command_that_shows_the_line(tmp_path: Path) -> None:
    path = tmp_path / "my state.yaml"
    path.write_text("apiVersion: v1\nworkloads: [a]\n")
    with pytest.raises(StartupFailed) as failure:
        load_startup_state(path)
    assert failure.value.context == "Parsing start config failed with error"
    assert failure.value.reason.endswith(f"; to see where: ank validate '{path}'")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "missing field `apiVersion`"),
        ("[]", "invalid type: sequence, expected a map"),
        ("workloads: {}", "missing field `apiVersion`"),
        ("apiVersion: v1\nworkloads: {web: {agent: a}}", "workloads.web: missing field `runtime`"),
        ("apiVersion: v1\nworkloads: []", "workloads: invalid type: sequence, expected a map"),
        ("apiVersion: v1\nworkloads: {web: 1}", "workloads.web: invalid type: integer `1`, expected a map"),
        ("apiVersion: v1\nconfigs: {k: 1}", "configs.k: invalid type: integer `1`"),
        ("apiVersion: v1\nworkloads: {web: {agent: a, runtime: r, runtimeConfig: c, tags: {a: 1}}}",
         "workloads.web.tags.a"),
        ("apiVersion: v1\nworkloads: {1: {}}", "expected a string as key"),
        ("a: b: c", "cannot read the startup manifest"),
        ("apiVersion: v1\n---\napiVersion: v1", "cannot read the startup manifest"),
        ("apiVersion: v1\nconfigs: {k: \"\\xZZ\"}", "cannot read the startup manifest"),
    ],
)  # fmt: skip
def test_a_manifest_that_is_no_state_is_rejected(text: str, why: str) -> None:
    """[utest->swdd~stored-workload-spec-checks-unique-name~1]
    [utest->swdd~server-fails-on-invalid-startup-state~1]
    """
    assert fault(text).context == "Parsing start config failed with error"
    assert why in fault(text).reason


def test_two_workloads_of_one_name_are_rejected() -> None:
    """[utest->swdd~stored-workload-spec-checks-unique-name~1]"""
    entry = "  web: {agent: a, runtime: r, runtimeConfig: c}\n"
    assert "duplicate" in fault(f"apiVersion: v1\nworkloads:\n{entry}{entry}").reason


def test_tags_of_v1_are_a_map_and_the_workload_is_named_if_not() -> None:
    text = MANIFEST.replace("      owner: me", "      - key: owner\n        value: me")
    assert fault(text).context == "Invalid tags format in startup manifest"
    assert "'web'" in fault(text).reason


def test_tags_of_the_deprecated_version_are_a_list_and_become_a_map() -> None:
    text = MANIFEST.replace("v1", "v0.1").replace("      owner: me", "      - key: owner\n        value: me")
    state = parse_startup_manifest(text.encode())
    assert state["apiVersion"] == "v0.1"
    assert state["workloads"]["web"] == WEB


@pytest.mark.parametrize("tags", ["{owner: me}", "text", "[owner]", "[{key: a}]"])
def test_other_tags_of_the_deprecated_version_are_rejected(tags: str) -> None:
    text = MANIFEST.replace("v1", "v0.1").replace("tags:\n      owner: me", f"tags: {tags}")
    assert fault(text).context == "Invalid tags format in startup manifest"
    assert "'web'" in fault(text).reason


def test_any_scalar_is_text_where_text_is_expected_of_the_main_fields() -> None:
    text = "apiVersion: v1\nworkloads: {web: {agent: , runtime: 1, runtimeConfig: true}}"
    web = parse_startup_manifest(text.encode())["workloads"]["web"]
    assert (web["agent"], web["runtime"], web["runtimeConfig"]) == ("", "1", "true")


def test_a_name_that_looks_like_a_number_is_taken_as_it_is_written() -> None:
    text = "apiVersion: v1\nworkloads: {web: {agent: 1e3, runtime: 1.10, runtimeConfig: 0x1f}}"
    web = parse_startup_manifest(text.encode())["workloads"]["web"]
    assert (web["agent"], web["runtime"], web["runtimeConfig"]) == ("1e3", "1.10", "0x1f")
    assert parse_startup_manifest(b"apiVersion: 1.10")["apiVersion"] == "1.10"
    unsure = fault("apiVersion: v1\nworkloads: {web: {agent: &a 1.10, runtime: r, runtimeConfig: c}}")
    assert unsure.context == "Parsing start config failed with error"
    assert "put it in quotes" in unsure.reason


def test_unknown_versions_are_left_for_the_checks_of_every_update() -> None:
    assert parse_startup_manifest(b"apiVersion: v9")["apiVersion"] == "v9"
