"""Findings in manifests and their positions. Each test checks the findings of one manifest."""

from textwrap import dedent, indent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.cli.validation.checks import validate
from ankaios.cli.validation.device_checks import check_resources
from ankaios.cli.validation.findings import ERROR, WARNING, ManifestFinding, path_of, path_text
from ankaios.cli.validation.manifest_set import ManifestSet
from ankaios.common.errors import Rejected
from ankaios.common.manifest import change_of, load_manifest
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.yaml_text import dump_yaml
from ankaios.runtimes.registry import RUNTIME_NAMES
from ankaios.server.core.desired_state_draft import change_by_request
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.state_update import prepare_update
from ankaios.server.core.update_rejected import UpdateRejected
from tests.support.examples import examples

NAME_RULE = "Only a-z, A-Z, 0-9 chars, underscore (_), and hyphen (-) allowed. Maximum length is 63 characters."


def findings(*texts: str, complete: bool = True) -> list[ManifestFinding]:
    """Findings in the files 1.yaml, 2.yaml and so on."""
    named = [(f"{number}.yaml", dedent(text).encode()) for number, text in enumerate(texts, 1)]
    return validate(named, complete=complete)


def printed(*texts: str) -> list[str]:
    """The printed findings, without the file."""
    return [f"{one.line}: {one.severity}: {one.path}: {one.message}" for one in findings(*texts)]


def manifest(*parts: str) -> str:
    return "apiVersion: v1\n" + "".join(dedent(part) for part in parts)


def workload(text: str, name: str = "web") -> str:
    """One workload; its text begins in line 4."""
    return f"workloads:\n  {name}:\n{indent(dedent(text).strip(chr(10)), '    ')}\n"


GOOD = manifest(
    workload("""
        agent: node
        runtime: podman
        runtimeConfig: |
          image: nginx
        """)
)


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_good_manifest_has_no_findings() -> None:
    assert findings(GOOD) == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("apiVersion: v1\nworkloads: [\n", 3, "did not find expected node content"),
        ("apiVersion: v1\nworkloads:\n  a: {}\n b: {}\n", 4, "did not find expected key"),
        ("apiVersion: v1\nworkloads:\n \ta: {}\n", 3, "a tab cannot indent a line, use blanks: found character"),
        ("apiVersion: v1\nconfigs:\n  a: x\n  a: y\n", 4, "duplicate key 'a', first used in line 3"),
        ("apiVersion: v1\n---\napiVersion: v1\n", 2, "a manifest must be a single YAML document"),
        ("", 1, "the file contains no manifest"),
        ("- a\n", 1, 'is not of type "object"'),
    ],
)
def test_a_text_that_is_no_manifest_is_reported_with_its_line(text: str, line: int, message: str) -> None:
    (found,) = findings(text)
    assert (found.line, found.severity, found.path) == (line, ERROR, "")
    assert message in found.message


def test_bytes_that_are_no_text_are_reported_without_a_line() -> None:
    assert validate([("a", b"\xff")]) == [ManifestFinding("a", None, ERROR, "", "not UTF-8 at byte 0")]


def test_a_missing_version_does_not_hide_the_rest() -> None:
    text = "workloads:\n  web:\n    agent: n\n    runtime: podmen\n    runtimeConfig: 'image: x'\n"
    assert printed(text) == [
        '1: error: : "apiVersion" is a required property',
        "4: error: workloads.web.runtime: unknown runtime 'podmen'; did you mean 'podman'?",
    ]


def test_an_unknown_version_is_reported_with_the_text_of_the_server() -> None:
    assert printed("apiVersion: v2\n") == [
        "1: error: apiVersion: Unsupported API version. Received 'v2', expected 'v1'"
    ]


def test_the_deprecated_version_is_a_warning_and_its_workloads_are_checked() -> None:
    found = printed("apiVersion: v0.1\nworkloads:\n  a b:\n    agent: n\n    runtime: podman\n    runtimeConfig: x\n")
    assert found[0].startswith("1: warning: apiVersion: The manifest API version 'v0.1' is deprecated")
    assert "Invalid mapping key 'a b'" in found[1]
    found = printed("apiVersion: v0.1\nworkloads:\n  a:\n    agent: n\n    runtime: native\n")
    assert found[1:] == ["3: error: workloads.a: missing field `runtimeConfig`"]
    found = printed("apiVersion: v0.1\nworkloads:\n  a:\n    tags: {a: b}\n")
    assert "tags must be a list" in found[1]
    found = printed("apiVersion: v0.1\ndeviceConfigurations:\n  a: {}\n")
    assert found[1:] == ['3: error: deviceConfigurations.a: "discoveryHandler" is a required property']
    found = printed("apiVersion: v0.1\nworkloads:\n  a: {agent: ~, runtime: native, runtimeConfig: 'command: [a]'}\n")
    assert found[1].startswith("3: error: workloads.a.agent: ")


def test_a_number_as_name_must_be_quoted() -> None:
    assert printed(GOOD.replace("web:", "5:") + "configs:\n  7: x\n") == [
        "3: error: workloads.5: the key '5' must be text, put it in quotes",
        "9: error: configs.7: the key '7' must be text, put it in quotes",
    ]


# --- schema and names -------------------------------------------------------------------------------------------------


def test_every_violation_of_the_schema_has_its_own_line() -> None:
    found = printed(
        manifest(
            workload("""
                agent: node
                runtime: 5
                restartPolicy: SOMETIMES
                runtimeConfig: x
                files:
                - mountPoint: /a
                  data: b
                - mountPoint: /c
                """),
            "configs:\n  port: 80\n",
        )
    )
    assert found == [
        '5: error: workloads.web.runtime: 5 is not of type "string", put it in quotes',
        '6: error: workloads.web.restartPolicy: "SOMETIMES" is not one of "NEVER", "ON_FAILURE" or "ALWAYS"',
        "11: error: workloads.web.files[1]: a file needs either 'data' or 'binaryData'",
        '13: error: configs.port: 80 is not of types "string", "array", "object", put it in quotes',
    ]


def test_an_invalid_name_is_reported_in_its_line() -> None:
    found = printed(GOOD.replace("web:", "my web:") + "configs:\n  ok: x\n  not.ok: y\n")
    assert found == [
        f'3: error: workloads.my web: "my web" does not match the rule for names: {NAME_RULE}',
        f'10: error: configs.not.ok: "not.ok" does not match the rule for names: {NAME_RULE}',
    ]


def test_keys_of_tags_are_restricted_to_the_characters_of_names() -> None:
    (found,) = findings(GOOD.replace("    agent:", "    tags: {a.b: c}\n    agent:"))
    assert (found.line, found.message) == (
        4,
        "Invalid mapping key 'a.b': Expected to have characters in [a-zA-Z0-9_-].",
    )


def test_a_config_nested_too_deep_and_a_number_too_large_are_reported() -> None:
    deep = "configs:\n  deep: " + "{a: " * 30 + "b" + "}" * 30 + "\n"
    (found,) = findings(manifest(deep))
    assert found.line == 3 and "nested 29 deep at most" in found.message
    (found,) = findings(GOOD.replace("    agent:", "    resources: [{name: a/b, quantity: 99999999999}]\n    agent:"))
    assert (found.path, found.line) == ("workloads.web.resources[0].quantity", 4)


# --- spelling ---------------------------------------------------------------------------------------------------------


def test_a_misspelled_key_is_a_warning_with_the_key_that_was_meant() -> None:
    text = GOOD.replace("    agent:", "    dependancies: {}\n    x-mine: 1\n    colour: red\n    agent:")
    assert printed("worklods: {}\n" + text) == [
        "1: warning: worklods: unknown key 'worklods'; did you mean 'workloads'?",
        "5: warning: workloads.web.dependancies: unknown key 'dependancies'; did you mean 'dependencies'?",
        "7: warning: workloads.web.colour: unknown key 'colour'; it has no effect",
    ]


def test_keys_of_rules_depend_on_their_type_and_are_known_anyway() -> None:
    rules = """
        controlInterfaceAccess:
          allowRules:
          - {type: StateRule, operation: Read, filterMasks: [a], filterMask: [b]}
          - {type: LogRule, workloadNames: [a]}
    """
    found = findings(GOOD.replace("    agent:", indent(dedent(rules), "    ").strip("\n") + "\n    agent:"))
    assert [(one.line, one.message) for one in found] == [(6, "unknown key 'filterMask'; did you mean 'filterMasks'?")]


def test_keys_that_users_choose_are_never_unknown() -> None:
    assert findings(manifest("configs:\n  anything: {goes: {here: ok}}\n")) == []


# --- templates --------------------------------------------------------------------------------------------------------

TEMPLATED = manifest(
    workload("""
        agent: "{{node.name}}"
        runtime: podman
        configs:
          net: network
          node: node
        runtimeConfig: |

          image: nginx
          commandOptions: ["-p", "{{net.port}}:80"]
        files:
        - mountPoint: /etc/x
          data: |
            {{#each net}}
            {{@key}}={{this}}
            {{/each}}
        """),
    "configs:\n  network: {port: '8080'}\n  node: {name: n1}\n",
)


def test_templates_that_render_have_no_findings() -> None:
    assert findings(TEMPLATED) == []


def test_a_missing_variable_is_reported_in_its_line_with_a_similar_one() -> None:
    (found,) = findings(TEMPLATED.replace("{{net.port}}", "{{net.prot}}"))
    assert (found.line, found.path) == (12, "workloads.web.runtimeConfig")
    assert found.message == (
        "Failed to render field 'runtimeConfig': 'Error rendering \"Unnamed template\" line 2, col 25: "
        "Failed to access variable in strict mode Some(\"net.prot\")'; did you mean 'net.port'?"
    )


def test_every_broken_field_is_reported() -> None:
    text = TEMPLATED.replace("{{net.port}}", "{{nothing}}").replace("{{/each}}", "").replace("node.name", "nothing")
    found = findings(text)
    assert [(one.line, one.path) for one in found] == [
        (4, "workloads.web.agent"),
        (12, "workloads.web.runtimeConfig"),
        (16, "workloads.web.files[0].data"),
    ]


def test_an_unknown_config_is_an_error_at_its_alias() -> None:
    (found,) = findings(TEMPLATED.replace("net: network", "net: netwerk"))
    assert (found.line, found.path) == (7, "workloads.web.configs.net")
    assert found.message == (
        "Workload references config key 'netwerk' that does not exist in any of these files; did you mean 'network'?"
    )


def test_an_agent_that_renders_to_an_invalid_name_is_reported() -> None:
    (found,) = findings(TEMPLATED.replace("name: n1", "name: n 1"))
    assert (found.line, found.path) == (4, "workloads.web.agent")
    assert found.message == f"Unsupported agent name 'n 1'. {NAME_RULE}"


def test_braces_without_configs_are_reported() -> None:
    assert printed(GOOD.replace("nginx", "nginx:{{ tag }}")) == [
        "7: warning: workloads.web.runtimeConfig: looks like a template but is not rendered, "
        "because the workload has no 'configs'"
    ]
    assert findings(GOOD.replace("nginx", "nginx\n      commandOptions: ['--format={{.Names}}']")) == []


# --- runtimes ---------------------------------------------------------------------------------------------------------


def of_runtime(runtime: str, config: str, more: str = "") -> list[str]:
    """The runtimeConfig begins in line 7."""
    text = f"agent: node\nruntime: {runtime}\nruntimeConfig: |\n{indent(dedent(config).strip(chr(10)), '  ')}\n"
    return printed(manifest(workload(text + dedent(more))))


def test_an_unknown_runtime_is_an_error() -> None:
    assert of_runtime("docker", "image: x") == [
        f"5: error: workloads.web.runtime: unknown runtime 'docker'; known: {', '.join(RUNTIME_NAMES)}"
    ]


def test_an_unknown_runtime_is_not_hidden_by_a_template_that_cannot_be_rendered() -> None:
    found = of_runtime("docker", "image: '{{a.b}}'", "configs: {a: nowhere}")
    assert any("unknown runtime 'docker'" in line for line in found) and len(found) == 2, found


@pytest.mark.parametrize(
    ("runtime", "config", "line", "message"),
    [
        ("podman", "imge: x", 7, "missing field `image`"),
        ("podman", "image: x\ncommandOptions:\n- a\n- 1", 10, "commandOptions[1]: expected a string, found number `1`"),
        ("containerd", "image: [x]", 7, "image: expected a string, found list"),
        ("podman", "image: x\nb: [", 9, "at line 3 column"),
        ("podman", "just text", 7, "expected a mapping"),
        ("native", "workingDir: /\ncommand: ls", 8, "command: expected a list of strings, found string"),
        ("native", "command: [a]\nenv:\n  A: 1", 9, "env.A: expected a string"),
        ("native", "command: [a]\nlimits: {speed: 1}", 8, "unknown limit 'speed'"),
        ("podman-kube", "generalOptions: []", 7, "missing field `manifest`"),
        ("podman-kube", "manifest: |\n  a: [", 6, "manifest: cannot read the manifest"),
        ("podman-kube", "manifest: just text", 6, "manifest: expected Kubernetes documents, each with a 'kind'"),
    ],
)
def test_a_runtime_config_is_read_like_the_runtime_does(runtime: str, config: str, line: int, message: str) -> None:
    first = of_runtime(runtime, config)[0]
    assert first.startswith(f"{line}: error: workloads.web.runtimeConfig: "), first
    assert message in first


def test_a_user_is_recommended_for_processes_that_would_run_as_root() -> None:
    why = "runs as the user of the agent, usually root; set 'user' to run it with fewer rights"
    assert of_runtime("native", "command: [a]") == [f"7: hint: workloads.web.runtimeConfig: {why}"]
    assert of_runtime("native", "command: [a]\nuser: nobody") == []


def test_hints_are_omitted_if_there_are_errors() -> None:
    found = of_runtime("native", "command: [a]", "restartPolicy: SOMETIMES")
    assert found and not any(": hint: " in line for line in found)


def test_unknown_keys_of_a_runtime_config_are_reported_by_runtime() -> None:
    assert of_runtime("podman", "image: x\ncommandOption: [a]\nplayOptions: []") == [
        "8: warning: workloads.web.runtimeConfig: unknown key 'commandOption'; did you mean 'commandOptions'?",
        "9: warning: workloads.web.runtimeConfig: unknown key 'playOptions'; it has no effect",
    ]
    assert of_runtime("native", "command: [a]\nworkingDir: /\nenv: {}\nuser: root\nlimits: {}") == []


POD = """
    manifest: |
      kind: Pod
      metadata: {name: p}
      spec:
        containers: [{name: a}, {name: b}]
    """
ACCESS = "controlInterfaceAccess: {allowRules: [{type: LogRule, workloadNames: [a]}]}\n"


def test_a_pod_names_the_container_for_the_control_interface_and_the_devices() -> None:
    assert of_runtime("podman-kube", POD) == []
    assert "Control interface target not specified" in of_runtime("podman-kube", POD, ACCESS)[0]
    targeted = dedent(POD) + "controlInterfaceTarget: p/c\n"
    assert "Target container 'c' not found" in of_runtime("podman-kube", targeted, ACCESS)[0]
    assert of_runtime("podman-kube", targeted.replace("p/c", "p/b"), ACCESS) == []
    (found,) = of_runtime("podman-kube", POD, "resources: [{name: a.b/c, container: p/a}, {name: a.b/d}]\n")
    assert "resources[1]: Cannot add devices. Expected exactly one container" in found


def test_pods_have_no_files() -> None:
    (found,) = of_runtime("podman-kube", POD, "files: [{mountPoint: /a, data: b}]\n")
    assert "Workload files are not supported" in found


def test_files_must_have_an_absolute_path_and_valid_base64() -> None:
    files = "files:\n- {mountPoint: a, data: b}\n- mountPoint: /a\n  binaryData: '*'\n"
    files += "- {mountPoint: /b, binaryData: YQ==}\n"
    found = of_runtime("podman", "image: x", files)
    assert [line.partition(": Failed")[0] for line in found] == [
        "9: error: workloads.web.files[0].mountPoint",
        "11: error: workloads.web.files[1].binaryData",
    ]


def test_lines_of_a_rendered_text_are_reported_only_if_they_match_the_file() -> None:
    text = TEMPLATED.replace("image: nginx", "image: [nginx]")
    assert findings(text)[0].line == 11
    many = text.replace("image: [", "{{#each net}}\n      # {{this}}\n      {{/each}}\n      image: [")
    assert findings(many)[0].line == 9


# --- several workloads and files --------------------------------------------------------------------------------------


def test_an_unknown_dependency_is_a_warning_because_the_server_may_know_it() -> None:
    text = GOOD.replace("    agent:", "    dependencies:\n      dbase: ADD_COND_RUNNING\n    agent:")
    message = "5: warning: workloads.web.dependencies.dbase: depends on 'dbase', which is in none of these files"
    assert printed(text) == [message]
    other = GOOD.replace("web:", "database:")
    assert printed(text, other) == [f"{message}; did you mean 'database'?"]
    assert findings(text, complete=False) == []


def test_several_files_are_checked_together() -> None:
    configs = manifest("configs:\n  network: {port: '1'}\n  node: {name: n1}\n")
    assert findings(TEMPLATED.partition("configs:\n  network")[0], configs) == []


def test_an_unreadable_file_may_contain_missing_dependencies() -> None:
    (found,) = findings(TEMPLATED.partition("configs:\n  network")[0], "a: [\n")
    assert found.file == "2.yaml"


def test_a_name_in_two_files_is_reported_in_the_second_with_the_position_in_the_first() -> None:
    (found,) = findings(GOOD, "# a comment\n" + GOOD)
    assert found[:3] == ("2.yaml", 4, ERROR)
    assert found.message == "'web' is defined in two files, first in 1.yaml:3"


def chain(**dependencies: str) -> str:
    workloads = ""
    for name, others in dependencies.items():
        listed = ", ".join(f"{other}: ADD_COND_RUNNING" for other in others.split())
        workloads += f"  {name}: {{agent: n, runtime: podman, runtimeConfig: 'image: a', dependencies: {{{listed}}}}}\n"
    return f"apiVersion: v1\nworkloads:\n{workloads}"


def test_every_cycle_is_reported_once_and_completely() -> None:
    assert printed(chain(a="b", b="c d", c="a", d="", e="e")) == [
        "3: error: workloads.a.dependencies.b: workload dependency 'a' is part of a cycle: a -> b -> c -> a.",
        "7: error: workloads.e.dependencies.e: workload dependency 'e' is part of a cycle: e -> e.",
    ]
    assert findings(chain(a="b c", b="d", c="d", d="")) == []


def test_a_workload_without_agent_is_a_warning_unless_the_server_chooses_one() -> None:
    without = GOOD.replace("    agent: node\n", "")
    assert printed(without) == [
        "3: warning: workloads.web: has no agent: 'ank apply' needs '--agent' for it, "
        "and the server rejects it in a startup manifest"
    ]
    assert findings(without.replace("    runtime:", "    placement: {}\n    runtime:")) == []


# --- devices ----------------------------------------------------------------------------------------------------------

CAMERA = """\
deviceConfigurations:
  camera:
    discoveryHandler:
      name: debugEcho
      discoveryDetails: |
        descriptions: [a, b]
    capacity: 2
"""


def asking(request: str, configurations: str = CAMERA) -> list[str]:
    """The request is in line 4."""
    text = GOOD.replace("    agent:", f"    resources: [{request}]\n    agent:")
    return [line.removeprefix("4: ").replace("workloads.web.", "") for line in printed(text + configurations)]


def test_requests_that_can_be_satisfied_have_no_findings() -> None:
    for name in ("camera", "akri.sh/camera", "camera-0a1b2c", "nvidia.com/gpu"):
        assert asking(f"{{name: {name}, quantity: 2}}") == []


def test_requests_that_cannot_be_satisfied_are_reported() -> None:
    assert asking("{name: camra}") == [
        "warning: resources[0].name: no device configuration 'camra' is in these files; did you mean 'camera'?"
    ]
    assert asking("{name: camera, quantity: 0}") == ["error: resources[0].quantity: 0 is less than the minimum of 1"]
    assert asking("{name: camera-0a1b2c, quantity: 3}") == [
        "error: resources[0].name: requests 3 slots of one device, but 'camera' configures 2"
    ]
    assert asking("{name: kubernetes.io/x}") == [
        "error: resources[0].name: 'kubernetes.io/x' is no extended resource: the domain is reserved"
    ]
    assert asking("{name: camera}", CAMERA.replace("capacity: 2", "capacity: 0")) == [
        "error: resources[0].name: no workload can use a device of 'camera': its capacity is 0"
    ]


def test_several_requests_for_one_resource_count_together() -> None:
    assert asking("{name: camera, quantity: 2}, {name: akri.sh/camera}") == [
        "warning: resources[1].name: requests 3 different devices of 'camera', which makes 2: the workload will wait"
    ]
    preferred = CAMERA + "    distinct: preferred\n"
    assert asking("{name: camera, quantity: 4}", preferred) == []
    assert asking("{name: camera, quantity: 5}", preferred) == [
        "warning: resources[0].name: requests 5 slots of 'camera', which makes 4: the workload will wait"
    ]
    assert (
        asking(
            "{name: camera, quantity: 9}",
            CAMERA.replace("debugEcho", "udev").replace("descriptions: [a, b]", "udevRules: []"),
        )
        == []
    )


def test_an_invalid_configuration_causes_no_further_findings() -> None:
    (found,) = asking("{name: camera, quantity: 9}", CAMERA.replace("[a, b]", "a"))
    assert "Expected `array`, got `str` - at `$.descriptions`" in found


def configured(name: str, handler: str, more: str = "") -> list[str]:
    text = f"deviceConfigurations:\n  {name}:\n    discoveryHandler: {handler}\n{more}"
    return [line.partition(f"deviceConfigurations.{name}")[2] for line in printed(manifest(text))]


def test_configurations_are_read_like_the_devices_do() -> None:
    (found,) = configured("a", "{name: udev, discoveryDetails: 'udevRules: [FOO]'}")
    assert found.startswith(".discoveryHandler.discoveryDetails: cannot use udev rule 1")
    (found,) = configured("a", "{name: debugEcho}")
    assert "missing required field `descriptions`" in found
    (found,) = configured(
        "a", "{name: opcua, discoveryDetails: 'opcuaDiscoveryMethod: {standard: {discoveryUrls: [x]}}'}"
    )
    assert "write opc.tcp://" in found
    (found,) = configured("a", "{name: onvif, discoveryDetails: 'uuids: 5'}")
    assert "got `int` - at `$.uuids`" in found
    (found,) = configured("a", "{name: onvif, discoveryProperties: {device_credential_list: x}}")
    assert found.startswith(".discoveryHandler.discoveryProperties: ")
    (found,) = configured("a", "{name: Udev}")
    assert found == ".discoveryHandler.name: 'Udev' is no built-in discovery handler; did you mean 'udev'?"
    (found,) = configured("a", "{name: mine}")
    assert found.endswith(": one of this name must register with the agents")
    (found,) = configured("-a", "{name: udev, discoveryDetails: 'udevRules: []'}")
    assert "starts and ends with a letter or digit" in found


def test_a_configuration_must_not_have_the_name_of_a_device() -> None:
    second = CAMERA.partition("\n")[2].replace("camera:", "camera-0a1b2c:")
    (found,) = findings(manifest(CAMERA + second))
    assert (found.line, found.path) == (9, "deviceConfigurations.camera-0a1b2c")
    assert "the name could be that of a device of 'camera'" in found.message


def test_the_workload_of_a_broker_is_checked_at_its_position() -> None:
    broker = """\
    broker:
      strategy: perNode
      workload:
        runtime: podman
        runtimeConfig: |
          imge: x
        resources: [{name: nothing}]
"""
    assert [(one.line, one.severity, one.path) for one in findings(manifest(CAMERA + broker))] == [
        (14, ERROR, "deviceConfigurations.camera.broker.workload.runtimeConfig"),
        (14, WARNING, "deviceConfigurations.camera.broker.workload.runtimeConfig"),
        (15, WARNING, "deviceConfigurations.camera.broker.workload.resources[0].name"),
    ]
    templated = broker.replace("        runtime: ", "        configs: {a: b}\n        runtime: ").partition(
        "        res"
    )[0]
    (found,) = findings(manifest(CAMERA + templated))
    assert (found.severity, found.path) == (ERROR, "deviceConfigurations.camera.broker.workload.configs.a")
    assert found.message == "Workload references config key 'b' that does not exist in any of these files"


def test_the_placeholder_of_a_broker_is_not_checked() -> None:
    assert list(check_resources({"resources": [{"name": "{{PLACEHOLDER}}", "quantity": 1}]}, ManifestSet())) == []


# --- and the server ---------------------------------------------------------------------------------------------------


def server_rejection(text: str) -> str | None:
    """The rejection by `ank apply --agent` or the server; None if the manifest is accepted."""
    try:
        change = change_of([load_manifest(text, "it")], need_agent=False)
        if not change.masks:
            return None
        for one in change.desired_state.get("workloads", {}).values():
            one.setdefault("agent", "")
        new = COMPLETE_STATE.from_form({"desiredState": change.desired_state})
        state = ServerState()
        request = base.UpdateStateRequest(newState=new, updateMask=change.masks)
        prepare_update(state, change_by_request(state.desired, request))
    except Rejected as fault:
        return str(fault)
    return None


NAMES = st.sampled_from(["a", "b", "c", "a b", "x" * 64, ""])
TEXTS = st.sampled_from(["", "a", "{{c.d}}", "{{c.e}}", "{{c", "{{#if c}}x{{/if}}", "n 1", 5, None])
ITEMS: st.SearchStrategy[Any] = st.sampled_from(["x", "80", 80, {"d": "1"}, {"d e": "1"}, ["x"], [["x", {"a.b": "c"}]]])
CONDITIONS = st.sampled_from(["ADD_COND_RUNNING", "ADD_COND_FAILED", "ADD_COND"])
RULES = st.sampled_from(
    [
        {"type": "StateRule", "operation": "Read", "filterMasks": ["desiredState.*"]},
        {"type": "StateRule", "operation": "Read", "filterMasks": [""]},
        {"type": "LogRule", "workloadNames": ["a*"]},
        {"type": "LogRule", "workloadNames": ["a**"]},
    ]
)
WORKLOADS = st.fixed_dictionaries(
    {"runtime": st.just("native"), "runtimeConfig": TEXTS},
    optional={
        "agent": TEXTS,
        "configs": st.dictionaries(st.sampled_from(["c", "d", "d.e"]), NAMES, max_size=2),
        "dependencies": st.dictionaries(NAMES, CONDITIONS, max_size=2),
        "files": st.lists(st.fixed_dictionaries({"mountPoint": st.just("/a"), "data": TEXTS}), max_size=2),
        "controlInterfaceAccess": st.fixed_dictionaries({"allowRules": st.lists(RULES, max_size=2)}),
        "tags": st.sampled_from([{"a": "b"}, {"a": 1}, ["a"]]),
    },
)
MANIFESTS = st.fixed_dictionaries(
    {"apiVersion": st.sampled_from(["v1", "v1", "v1", "v1", "v2"])},
    optional={
        "workloads": st.dictionaries(NAMES, WORKLOADS, max_size=3),
        "configs": st.dictionaries(NAMES, ITEMS, max_size=3),
    },
)


@examples(100)
@given(MANIFESTS)
def test_the_errors_are_those_of_the_server_and_of_runtimes(made: dict[str, Any]) -> None:
    text = dump_yaml(made)
    errors = [one for one in validate([("it", text.encode())]) if one.severity == ERROR]
    refused = server_rejection(text)
    others = [one for one in errors if not one.path.endswith(("runtimeConfig", "files", "mountPoint"))]
    assert bool(errors) >= bool(refused), refused
    assert bool(refused) >= bool(others), others


def test_a_rejection_by_the_server_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise UpdateRejected("not today")

    monkeypatch.setattr("ankaios.cli.validation.checks.prepare_update", refuse)
    assert findings(GOOD) == [ManifestFinding("1.yaml", 1, ERROR, "", "Update rejected: 'not today'")]


def test_paths_can_be_written_and_read() -> None:
    path = ("workloads", "web", "files", 0, "data")
    assert path_text(path) == "workloads.web.files[0].data"
    assert path_of("workloads.web.files[0].data") == path


def test_an_allow_rule_that_begins_with_a_wildcard_is_a_warning() -> None:
    rule = "      - {type: StateRule, operation: Read, filterMasks: ['*.workloads.me.tags', desiredState.configs.c]}\n"
    access = f"    controlInterfaceAccess:\n      allowRules:\n{rule}"
    (found,) = printed(GOOD.replace("    agent:", f"{access}    agent:"))
    assert "warning: workloads.web.controlInterfaceAccess.allowRules" in found
    assert "'*.workloads.me.tags' begins with a wildcard" in found


# --- health -----------------------------------------------------------------------------------------------------------


def test_health_checks_that_an_agent_cannot_perform_are_errors() -> None:
    text = manifest(
        workload("""
            agent: node
            runtime: native
            runtimeConfig: |
              command: [sleep, "1"]
            health:
              image: true
              exec: {command: []}
              tcp: {port: 80, host: localhost}
              notify: {interval: 1ms, timeout: 2h}
              file: {path: /a, container: pod/c}
            """)
    )
    image = "the HEALTHCHECK of an image cannot be used with the runtime 'native', declare a check"
    assert printed(text) == [
        f"8: error: workloads.web.health: {image}",
        "10: error: workloads.web.health.exec.command: the command is empty",
        "11: error: workloads.web.health.tcp.host: 'localhost' is not an IP address",
        "12: warning: workloads.web.health.notify.interval: 1ms is out of range, 100ms is used instead",
        "12: warning: workloads.web.health.notify.timeout: 2h is out of range, 1h is used instead",
        "13: warning: workloads.web.health.file.container: has no effect with the runtime 'native'",
    ]


def test_a_wrong_health_check_is_reported_where_it_is() -> None:
    text = GOOD + "    health: {http: {port: 99999, interval: soon}, onUnhealthy: panic}\n"
    messages = [line.partition("health.")[2] for line in printed(text)]
    assert messages == [
        "http.port: 99999 is greater than the maximum of 65535",
        'http.interval: "soon" is not a duration such as 5s or 500ms',
        'onUnhealthy: "panic" is not one of "restart", "stop" or "none"',
    ]
    assert printed(GOOD + "    health: image\n") == []


def test_a_dependency_on_the_health_of_a_workload_without_checks_is_a_warning() -> None:
    other = "  db:\n    agent: node\n    runtime: podman\n    runtimeConfig: 'image: x'\n"
    found = printed(GOOD + "    dependencies: {db: ADD_COND_HEALTHY}\n" + other)
    assert [line.partition("db: ")[2] for line in found] == ["'db' has no health checks, so it never becomes healthy"]
    assert printed(GOOD + "    dependencies: {db: ADD_COND_HEALTHY}\n" + other + "    health: image\n") == []
