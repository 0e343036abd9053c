"""The configuration of native workloads and the resulting order."""

import os
from pathlib import Path

import pytest

from ankaios.common.device_grant import DeviceGrant, DeviceMount, DeviceNode
from ankaios.runtimes.native.exec import DEFAULT_PATH
from ankaios.runtimes.native.order import (
    LOG_SIZE,
    NO_CGROUPS,
    ORPHAN_CHECK,
    NativeConfig,
    User,
    cgroup_limits,
    make_order,
)
from ankaios.runtimes.runtime_connector import Extras, Unsupported

FULL = """
command: [/usr/bin/app, --flag]
workingDir: /srv
env: {A: "1", LANG: de}
user: app
limits: {openFiles: 100, addressSpace: 64Mi, cpuSeconds: "5", coreSize: 0, fileSize: 2K}
"""


def test_a_full_configuration_is_read() -> None:
    config = NativeConfig.parse(FULL)
    assert config.command == ("/usr/bin/app", "--flag")
    assert (config.working_dir, config.user) == ("/srv", "app")
    assert config.env == {"A": "1", "LANG": "de"}
    assert dict(config.limits) == {
        "RLIMIT_NOFILE": 100,
        "RLIMIT_AS": 64 * 1024 * 1024,
        "RLIMIT_CPU": 5,
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": 2000,
    }


def test_only_the_command_is_required() -> None:
    config = NativeConfig.parse("command: [app]")
    assert config == NativeConfig(("app",), "/", {}, None, ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a mapping"),
        ("image: a", "command: expected a list with at least the program"),
        ("command: []", "command: expected a list with at least the program"),
        ('command: [""]', "command: expected a list with at least the program"),
        ("command: app --flag", "command: expected a list of strings, found string"),
        ("command: [sleep, 1]", r"command\[1\]: expected a string, found number `1`; write it in quotes"),
        ('command: ["a\\0b"]', "a NUL character"),
        ("command: [a]\nworkingDir: srv", "workingDir: 'srv' is relative"),
        ("command: [a]\nenv: [A]", "env: expected a mapping"),
        ("command: [a]\nenv: {A: 1}", r"env\.A: expected a string, write it in quotes"),
        ('command: [a]\nenv: {"A=B": "1"}', "'A=B' is no name of a variable"),
        ("command: [a]\nlimits: 3", "limits: expected a mapping"),
        ("command: [a]\nlimits: {speed: 3}", "unknown limit 'speed', known: addressSpace"),
        ("command: [a]\nlimits: {openFiles: many}", r"limits\.openFiles: expected a number such as"),
        ("command: [a]\nlimits: {openFiles: true}", r"limits\.openFiles: expected a number such as"),
        ("command: [a]\nuser: 1000", "user: expected a string, found number `1000`"),
        ('command: [a]\nuser: "²"', "user: '²' is neither a name nor a number with the digits 0 to 9"),
        ('command: [a]\nuser: "root:²"', "user: '²' is neither a name nor a number"),
        ('command: [a]\nuser: "a\\0b"', "user: a NUL character"),
        ('command: [a]\nuser: "root:\\0"', "user: a NUL character"),
        ('command: [a]\nuser: "4294967295"', "user: '4294967295' is too large, the largest id is 4294967294"),
        pytest.param(f'command: [a]\nuser: "{"9" * 5000}"', "user: '9{40}' is too large", id="a user of 5000 digits"),
        ('command: [a]\nworkingDir: "/a\\0b"', "workingDir: a NUL character"),
        pytest.param(
            f"command: [a]\nlimits: {{openFiles: {'1' * 5000}}}",
            r"limits\.openFiles: .*at most 9223372036854775807",
            id="a limit of 5000 digits",
        ),
        ("command: [a]\nlimits: {openFiles: 9223372036854775808}", r"limits\.openFiles: .*at most"),
        ("command: [a]\nlimits: {fileSize: 9999999999Gi}", r"limits\.fileSize: .*at most"),
        ('command: [a]\nlimits: {openFiles: "²"}', r"limits\.openFiles: expected a number such as"),
    ],
)
def test_an_invalid_configuration_is_rejected_with_error_and_position(text: str, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        NativeConfig.parse(text)


def test_a_workload_gets_only_a_few_variables_of_the_agent() -> None:
    config = NativeConfig.parse("command: [app]")
    order = make_order(config, Extras(), "/folder", None, {"SECRET": "x", "TZ": "UTC"})
    assert order == {
        "folder": "/folder",
        "command": ["app"],
        "env": {"PATH": DEFAULT_PATH, "TZ": "UTC"},
        "env_without_mounts": {},
        "working_dir": "/",
        "user": None,
        "control_interface": None,
        "files": None,
        "limits": [],
        "capabilities": None,
        "no_new_privileges": os.geteuid() != 0,
        "cgroups": dict(NO_CGROUPS),
        "token": "",
        "mounts": [],
        "log_size": LOG_SIZE,
        "orphan_check": ORPHAN_CHECK,
    }


def test_files_of_the_agent_are_mounted_at_their_usual_paths() -> None:
    extras = Extras(
        control_interface=Path("/run/a/ci"),
        files={Path("/run/a/files/etc/x.conf"): "/etc/x.conf"},
        grants=(
            DeviceGrant(
                envs={"CAMERA": "1"},
                mounts=(
                    DeviceMount("/in", "/host", read_only=True),
                    DeviceMount("/same", "/same"),
                    DeviceMount("/ro", "/ro", read_only=True),
                ),
                devices=(DeviceNode("/dev/cam", "/dev/video0"), DeviceNode("/dev/null", "/dev/null")),
            ),
        ),
    )
    order = make_order(NativeConfig.parse(FULL), extras, "/folder", User(7, 8, (8, 9), "/home/app", "app"), {})
    assert order["mounts"] == [
        ("/run/a/ci", "/run/ankaios/control_interface", False),
        ("/run/a/files/etc/x.conf", "/etc/x.conf", True),
        ("/host", "/in", True),
        ("/ro", "/ro", True),
        ("/dev/video0", "/dev/cam", False),
    ]
    assert order["env"] == {
        "PATH": DEFAULT_PATH,
        "HOME": "/home/app",
        "USER": "app",
        "LOGNAME": "app",
        "CAMERA": "1",
        "ANKAIOS_CONTROL_INTERFACE": "/run/ankaios/control_interface",
        "ANKAIOS_FILES": "/",
        "A": "1",
        "LANG": "de",
    }
    assert order["env_without_mounts"] == {"ANKAIOS_CONTROL_INTERFACE": "/run/a/ci", "ANKAIOS_FILES": "/run/a/files"}
    assert order["user"] == (7, 8, [8, 9])
    assert (order["control_interface"], order["files"]) == ("/run/a/ci", "/run/a/files")


@pytest.mark.parametrize(
    ("host", "target", "folder"),
    [
        ("/run/a/files/var/lib/blob", "//var/./lib//blob", "/run/a/files"),
        ("/files/x", "/x", "/files"),
        ("/somewhere/else", "/etc/x", None),
        ("/x", "/a/very/long/way/x", None),
    ],
)
def test_the_folder_of_the_files_is_found_however_the_mount_point_is_written(
    host: str, target: str, folder: str | None
) -> None:
    extras = Extras(files={Path(host): target})
    assert make_order(NativeConfig.parse("command: [a]"), extras, "/folder", None, {})["files"] == folder


def test_cdi_devices_are_reported_as_unsupported() -> None:
    """A workload that starts without its device would fail later, and without a reason."""
    grants = (DeviceGrant(cdi_devices=("vendor.com/camera=c1",)),)
    with pytest.raises(Unsupported, match=r"The native runtime has no CDI devices, such as 'vendor\.com/camera=c1'"):
        make_order(NativeConfig.parse("command: [x]"), Extras(grants=grants), "/f", None, {})


def test_limits_of_a_cgroup_are_not_those_of_a_process() -> None:
    config = NativeConfig.parse("command: [app]\nlimits: {memory: 64Mi, pids: 10, openFiles: 5}")
    assert cgroup_limits(config) == {"memory": 64 * 1024**2, "pids": 10}
    assert make_order(config, Extras(), "/folder", None, {})["limits"] == [("RLIMIT_NOFILE", 5)]


@pytest.mark.parametrize(
    ("text", "user", "kept"),
    [
        ("", None, None),
        ("", "root", None),
        ("", "nobody", []),
        ("capabilities: []", None, []),
        ("capabilities: [NET_BIND_SERVICE, cap_chown, CHOWN]", "nobody", [0, 10]),
    ],
)
def test_another_user_than_root_has_only_the_named_capabilities(
    text: str, user: str | None, kept: list[int] | None
) -> None:
    config = NativeConfig.parse(f"command: [app]\n{text}")
    runs_as = User(0 if user == "root" else 65534, 0, (), "/", user) if user else None
    order = make_order(config, Extras(), "/folder", runs_as, {})
    assert order["capabilities"] == kept
    assert order["no_new_privileges"] == ((runs_as.uid if runs_as else os.geteuid()) != 0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("capabilities: [FLY]", "capabilities: 'FLY' is no capability"),
        ("capabilities: NET_RAW", "capabilities"),
        ("noNewPrivileges: maybe", "noNewPrivileges: expected true or false"),
        ("limits: {memory: much}", "limits.memory: expected a number"),
    ],
)
def test_invalid_privileges_and_limits_are_rejected(text: str, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        NativeConfig.parse(f"command: [app]\n{text}")
