"""The configuration of containers and the command lines made of it."""

from pathlib import Path

import pytest

from ankaios.common.device_grant import DeviceGrant, DeviceMount, DeviceNode
from ankaios.common.workload import InstanceName
from ankaios.runtimes.container_config import (
    ContainerConfig,
    create_arguments,
    is_restarted_by_runtime,
    log_arguments,
    run_arguments,
)
from ankaios.runtimes.runtime_connector import Extras, LogOptions, Unsupported

NAME = InstanceName("web", "0123456789abcdef", "agent_A")
FULL = """
image: docker.io/nginx:1
generalOptions: [--log-level, debug]
commandOptions: [-p, "8081:80", --name, mine]
commandArgs: [nginx, -g, daemon off;]
unknownKey: ignored
"""


def test_a_minimal_configuration_gives_the_documented_run_command() -> None:
    """[utest->swdd~podman-create-workload-runs-workload~1]
    [utest->swdd~podman-create-workload-creates-labels~1]
    [utest->swdd~podman-workload-creates-container~1]
    [utest->swdd~podman-workload-pulls-container~2]
    """
    arguments = run_arguments(ContainerConfig.parse("image: alpine"), NAME, Extras())
    assert arguments == [
        "run",
        "--detach",
        "--name",
        "web.0123456.agent_A",
        "--label=name=web.0123456789abcdef.agent_A",
        "--label=agent=agent_A",
        "alpine",
    ]


def test_all_parts_of_a_run_command_have_their_documented_position() -> None:
    """[utest->swdd~podman-create-workload-mounts-fifo-files~1]
    [utest->swdd~podman-create-workload-sets-optionally-container-name~1]
    [utest->swdd~podman-adapt-mount-interface-pipes-into-workload~2]
    """
    extras = Extras(
        control_interface=Path("/run/a/ci"),
        files={Path("/run/a/files/etc/x.conf"): "/etc/x.conf", Path("/run/a/files/y"): "/y"},
        grants=(
            DeviceGrant(
                envs={"CAMERA": "/dev/video0"},
                mounts=(DeviceMount("/in", "/host", read_only=True), DeviceMount("/in2", "/host2")),
                devices=(DeviceNode("/dev/cam", "/dev/video0", "rw"),),
                annotations={"akri.sh/c": "1"},
                cdi_devices=("vendor.com/camera=c1",),
            ),
        ),
    )
    arguments = run_arguments(ContainerConfig.parse(FULL), NAME, extras)
    assert arguments == [
        *("--log-level", "debug"),
        *("run", "--detach", "--name", "web.0123456.agent_A"),
        *("-p", "8081:80", "--name", "mine"),
        "--mount=type=bind,source=/run/a/ci,destination=/run/ankaios/control_interface",
        "--mount=type=bind,source=/run/a/files/etc/x.conf,destination=/etc/x.conf,readonly=true",
        "--mount=type=bind,source=/run/a/files/y,destination=/y,readonly=true",
        *("--env", "CAMERA=/dev/video0"),
        *("--volume", "/host:/in:ro"),
        *("--volume", "/host2:/in2"),
        *("--device", "/dev/video0:/dev/cam:rw"),
        *("--annotation", "akri.sh/c=1"),
        *("--device", "vendor.com/camera=c1"),
        "--label=name=web.0123456789abcdef.agent_A",
        "--label=agent=agent_A",
        "docker.io/nginx:1",
        *("nginx", "-g", "daemon off;"),
    ]


@pytest.mark.parametrize(
    "grant",
    [
        DeviceGrant(devices=(DeviceNode("/dev/cam", "/dev/v4l/by-path/pci-0000:00:14.0"),)),
        DeviceGrant(devices=(DeviceNode("/dev/v4l/by-path/pci-0000:00:14.0", "/dev/video0"),)),
        DeviceGrant(mounts=(DeviceMount("/in", "/dev/v4l/by-path/pci-0000:00:14.0"),)),
        DeviceGrant(mounts=(DeviceMount("/dev/v4l/by-path/pci-0000:00:14.0", "/host"),)),
    ],
)
def test_a_path_that_the_runtime_would_split_is_rejected(grant: DeviceGrant) -> None:
    with pytest.raises(Unsupported, match=r"The path '/dev/v4l/by-path/pci-0000:00:14.0' contains a colon"):
        run_arguments(ContainerConfig.parse(FULL), NAME, Extras(grants=(grant,)))


def test_starting_again_uses_the_general_options_only() -> None:
    """[utest->swdd~podman-workload-starts-container~1]"""
    assert create_arguments(ContainerConfig.parse(FULL), NAME, Extras(reuse="c1")) == [
        "--log-level",
        "debug",
        "start",
        "c1",
    ]


def test_log_options_keep_their_order_and_are_omitted_when_unset() -> None:
    assert log_arguments("c1", LogOptions()) == ["logs", "c1"]
    options = LogOptions(follow=True, tail=-1, since="2024-01-01T00:00:00Z", until="u")
    expected = ["logs", "-f", "--since", "2024-01-01T00:00:00Z", "--until", "u", "--tail", "-1", "c1"]
    assert log_arguments("c1", options) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a mapping"),
        ("- image", "expected a mapping"),
        ("image: [", "cannot read the runtimeConfig"),
        ("commandArgs: [a]", "missing field `image`"),
        ("image: 3", "image: expected a string, found number `3`; write it in quotes"),
        ("image: null", "image: expected a string, found null"),
        ("image: {a: b}", "image: expected a string, found mapping"),
        ("image: a\ncommandArgs: null", "commandArgs: expected a list of strings, found null"),
        ("image: a\ncommandArgs: text", "commandArgs: expected a list of strings, found string"),
        ("image: a\ncommandArgs: [sleep, 10]", r"commandArgs\[1\]: expected a string, found number `10`"),
        ("image: a\ncommandOptions: [true]", r"commandOptions\[0\]: expected a string, found boolean"),
        ("image: a\ngeneralOptions: [[a]]", r"generalOptions\[0\]: expected a string, found list"),
    ],
)
def test_an_invalid_configuration_is_rejected_with_error_and_position(text: str, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        ContainerConfig.parse(text)


@pytest.mark.parametrize(
    ("options", "restarted"),
    [
        ("[]", False),
        ("[--restart=always]", True),
        ("[--restart, on-failure]", True),
        ("[--restart=no]", False),
        ("[--restart, 'no']", False),
        ("[--restart]", False),
    ],
)
def test_containers_that_the_runtime_restarts_are_recognised(options: str, restarted: bool) -> None:
    assert is_restarted_by_runtime(f"image: a\ncommandOptions: {options}") is restarted


def test_an_unreadable_configuration_has_no_restart_by_the_runtime() -> None:
    assert not is_restarted_by_runtime("commandOptions: [--restart=always]")
    assert not is_restarted_by_runtime("")
