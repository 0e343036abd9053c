"""The units behave as docs/installing.md describes, under a real systemd on a separate machine.

The Debian package is built, installed there and started with the commands of docs/installing.md. Then services are
stopped, started, frozen and updated, and workloads, native processes and containers, continue as the same processes.

Needs: what `systemd_machine.why_no_machine` checks, and a Python package index to build the package; for containers
podman and busybox.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.debian_package import BUILD_SECONDS, dist_folder
from tests.support.isolated_podman import IMAGE, why_no_podman
from tests.support.shown_commands import installing
from tests.support.systemd_machine import SystemdMachine, why_no_machine
from tests.system.test_packaging import needs_index  # noqa: F401 - a fixture

SERVICES = ("ank-server", "ank-agent")
# The seconds that workloads sleep: their processes are found by this argument.
NATIVE, CONTAINER, OF_USER, CONTAINER_OF_USER = "1000001", "1000002", "1000003", "1000004"
USER = "driver"

MANIFEST = f"""\
apiVersion: v1
workloads:
  plain:
    runtime: native
    agent: node1
    runtimeConfig: |
      command: [/bin/sleep, "{NATIVE}"]
"""
BOX = f"""\
  box:
    runtime: podman
    agent: node1
    runtimeConfig: |
      image: {IMAGE}
      commandOptions: ["--cap-add=SYS_NICE"]
      commandArgs: [/bin/sleep, "{CONTAINER}"]
"""
# Limits that this kernel or the parent process does not permit are not tested.
CONTAINERS_CONF = """\
[engine]
{runtime}
[containers]
netns = "none"
pids_limit = 0
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
"""
STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "/var/lib/containers/storage"
runroot = "/run/containers/storage"
"""


def why_no_node() -> str | None:
    missing = next(
        (name for name in ("dpkg", "pgrep", "script", "useradd", "openssl") if shutil.which(name) is None), None
    )
    return why_no_machine() or (f"the story of a node needs the program '{missing}'" if missing else None)


pytestmark = [
    pytest.mark.skipif(why_no_node() is not None, reason=str(why_no_node())),
    pytest.mark.timeout(BUILD_SECONDS * 2),
]


def type_in(node: SystemdMachine, commands: list[str], user: str = "root") -> None:
    """As a user who may use sudo without a password."""
    uid, home = node.run("sh", "-c", f"id -u {user}; echo ~{user}").split()
    person = ["env", f"--chdir={home}", f"USER={user}", f"HOME={home}", f"XDG_RUNTIME_DIR=/run/user/{uid}"]
    for command in commands:
        become = (
            [] if command.startswith("sudo ") else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        )
        node.run(*become, *person, "bash", "-euc", command.removeprefix("sudo "))


@pytest.fixture(scope="module")
def node(needs_index: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdMachine]:  # noqa: F811
    """A machine on which the commands of the page were run."""
    package = dist_folder()
    with SystemdMachine(tmp_path_factory.mktemp("systemd") / "machine") as machine:
        shutil.copytree(package, machine.root / "root/dist")
        machine.sh("dpkg --install /root/dist/*.deb")  # apt-get takes ten seconds for it
        type_in(machine, [line for line in installing("debian") if "apt-get" not in line])
        type_in(machine, installing("debian-started"))
        yield machine


@pytest.fixture(scope="module")
def workloads(node: SystemdMachine) -> dict[str, str]:
    """The sleep times of the workloads of the startup manifest, by name."""
    expected = {"plain": NATIVE}
    manifest = MANIFEST
    if why_no_podman() is None:
        prepare_podman(node, node.root / "etc/containers", STORAGE_CONF)
        manifest, expected["box"] = MANIFEST + BOX, CONTAINER
    (node.root / "root/state.yaml").write_text(manifest)
    type_in(node, installing("debian-manifest"))
    for name in expected:
        wait_for(node, name, "Running(Ok)")
    return expected


def prepare_podman(node: SystemdMachine, folder: Path, storage: str, *as_user: str) -> None:
    runtime = 'runtime = "runc"' if shutil.which("runc") else ""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "containers.conf").write_text(CONTAINERS_CONF.format(runtime=runtime))
    if storage:
        (folder / "storage.conf").write_text(storage)
    node.run("chmod", "-R", "a+rX", "/" + str(folder.relative_to(node.root)))
    image = "mkdir -p bb/bin && cp /bin/busybox bb/bin/ && ln -sf busybox bb/bin/sleep && tar -C bb -c . |"
    node.run(*as_user, "sh", "-euc", f'cd "$(mktemp -d)" && {image} podman import --quiet - {IMAGE}')


# --- observing


def main_pid(node: SystemdMachine, service: str) -> int:
    return int(node.run("systemctl", "show", "--property=MainPID", "--value", service))


def is_active(node: SystemdMachine, service: str) -> bool:
    return node.call("systemctl", "is-active", service).stdout.strip() == "active"


def pids(node: SystemdMachine, workloads: dict[str, str]) -> dict[str, str]:
    return {name: node.call("pgrep", "-fx", f"/bin/sleep {time}").stdout.strip() for name, time in workloads.items()}


def wait_for(node: SystemdMachine, workload: str, state: str) -> None:
    """Wait until `ank` shows it, which needs a server and a report of the agent."""
    pattern = re.compile(rf"^{workload} +.* {re.escape(state)}", re.MULTILINE)
    node.wait_until(f"{workload} is {state}", lambda: pattern.search(table(node)) is not None, lambda: table(node))


def table(node: SystemdMachine) -> str:
    return node.call("ank", "get", "workloads").stdout


def status(node: SystemdMachine, pid: int) -> dict[str, str]:
    lines = (node.root / f"proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def journal(node: SystemdMachine, service: str, *more: str) -> str:
    node.call("journalctl", "--sync")
    return node.journal(f"--unit={service}", "--output=cat", *more)


@contextmanager
def short_watchdog(node: SystemdMachine, service: str) -> Iterator[None]:
    """The unit with a shorter time limit than 20 seconds, for a fast test."""
    folder = node.root / f"run/systemd/system/{service}.service.d"
    folder.mkdir(parents=True)
    (folder / "watchdog.conf").write_text("[Service]\nWatchdogSec=1\n")
    node.sh(f"systemctl daemon-reload; systemctl restart {service}")
    try:
        yield
    finally:
        shutil.rmtree(folder)
        node.sh(f"systemctl daemon-reload; systemctl restart {service}")


# --- scenarios


def test_services_are_ready_when_systemctl_reports_it(node: SystemdMachine) -> None:
    """The first scenario: only the commands of the page were run yet."""
    for service in SERVICES:
        assert is_active(node, service)
        assert node.run("systemctl", "is-enabled", service) == "enabled\n"
        assert node.run("systemctl", "show", "--property=NRestarts", "--value", service) == "0\n"
    assert "connected to the server" in journal(node, "ank-agent")
    assert "no connection" not in journal(node, "ank-agent"), "the server was up before its agent"


def test_the_server_has_only_the_rights_that_it_needs(node: SystemdMachine) -> None:
    pid = main_pid(node, "ank-server")
    rights = status(node, pid)
    assert rights["Uid"].split()[0] == node.run("id", "-u", "ank-server").strip()
    assert int(rights["CapBnd"], 16) == 0
    assert (rights["NoNewPrivs"], rights["Seccomp"]) == ("1", "2")
    write = node.call("nsenter", "--target", str(pid), "--mount", "touch", "/etc/ankaios/written")
    assert "Read-only file system" in write.stderr
    assert node.call("nsenter", "--target", str(pid), "--mount", "ls", "/root").stdout == ""


def test_workloads_inherit_no_restrictions_from_the_agent(node: SystemdMachine) -> None:
    agent, init = status(node, main_pid(node, "ank-agent")), status(node, 1)
    assert agent["CapBnd"] == init["CapBnd"]
    assert (agent["NoNewPrivs"], agent["Seccomp"]) == ("0", init["Seccomp"])
    for kind in ("mnt", "uts"):
        spaces = {node.run("readlink", f"/proc/{pid}/ns/{kind}") for pid in (1, main_pid(node, "ank-agent"))}
        assert len(spaces) == 1, "what the agent mounts and what others mount is the same for all"


def test_workloads_of_the_startup_manifest_run(node: SystemdMachine, workloads: dict[str, str]) -> None:
    assert all(pids(node, workloads).values())


def test_workloads_continue_without_the_agent_and_the_next_agent_resumes_them(
    node: SystemdMachine, workloads: dict[str, str]
) -> None:
    before = pids(node, workloads)
    node.run("systemctl", "stop", "ank-agent")
    assert not is_active(node, "ank-agent")
    assert pids(node, workloads) == before
    for name in workloads:
        wait_for(node, name, "AgentDisconnected")
    node.run("systemctl", "start", "ank-agent")
    for name in workloads:
        wait_for(node, name, "Running(Ok)")
    assert pids(node, workloads) == before


def test_a_restarted_server_keeps_the_workloads_of_its_manifest(
    node: SystemdMachine, workloads: dict[str, str]
) -> None:
    before = pids(node, workloads)
    node.run("systemctl", "restart", "ank-server")
    for name in workloads:
        wait_for(node, name, "Running(Ok)")
    assert pids(node, workloads) == before


def test_a_reload_loads_the_certificates_again(node: SystemdMachine) -> None:
    before = main_pid(node, "ank-server")
    node.run("systemctl", "reload", "ank-server")
    loaded = "The certificates were loaded again."
    node.wait_until("the certificates are loaded again", lambda: loaded in journal(node, "ank-server"))
    assert main_pid(node, "ank-server") == before


def test_limits_of_the_server_are_raised_by_editing_its_unit(node: SystemdMachine) -> None:
    edit(node, "ank-server", "[Service]\nMemoryMax=2G\nTasksMax=256\n")
    try:
        limits = node.run("systemctl", "show", "--property=MemoryMax,TasksMax", "ank-server")
        assert set(limits.split()) == {f"MemoryMax={2 << 30}", "TasksMax=256"}
    finally:
        node.run("systemctl", "revert", "ank-server")


def test_systemd_listens_for_the_server_at_the_address_of_the_socket_unit(
    node: SystemdMachine,
) -> None:
    node.run("systemctl", "stop", "ank-server")
    edit(node, "ank-server.socket", "[Socket]\nListenStream=127.0.0.1:25552\n")
    try:
        node.run("systemctl", "enable", "--now", "ank-server.socket")
        listening = node.run("systemctl", "show", "--property=Listen", "--value", "ank-server.socket")
        assert "127.0.0.1:25552 (Stream)" in listening
        node.wait_until("the agent starts the server by connecting", lambda: "node1" in agents(node))
    finally:
        node.run("systemctl", "disable", "--now", "ank-server.socket")
        node.run("systemctl", "revert", "ank-server.socket")
        node.run("systemctl", "restart", "ank-server")


def agents(node: SystemdMachine) -> str:
    return node.call("ank", "get", "agents").stdout


def edit(node: SystemdMachine, unit: str, text: str) -> None:
    """As with an editor in which a user types this text."""
    (node.root / "root/typed").write_text(text)
    (node.root / "root/editor").write_text(
        '#!/bin/sh\nfor file; do [ "${file#+}" = "$file" ] && cat /root/typed >"$file" && break; done\n'
    )
    node.sh(f"chmod +x /root/editor; script -qec 'SYSTEMD_EDITOR=/root/editor systemctl edit {unit}' /dev/null")


@pytest.mark.parametrize("service", SERVICES)
def test_a_frozen_service_is_restarted_and_workloads_continue(
    node: SystemdMachine, workloads: dict[str, str], service: str
) -> None:
    before = pids(node, workloads)
    with short_watchdog(node, service):
        frozen = main_pid(node, service)
        node.sh(f"kill -STOP {frozen}")
        node.wait_until("it was replaced", lambda: main_pid(node, service) not in (0, frozen))
        node.wait_until("it is ready", lambda: is_active(node, service))
        assert "Watchdog timeout" in journal(node, service)
        assert "Fatal Python error: Aborted" in journal(node, service), "the journal shows where it hung"
        for name in workloads:
            wait_for(node, name, "Running(Ok)")
    for name in workloads:
        wait_for(node, name, "Running(Ok)")
    assert pids(node, workloads) == before


@pytest.mark.skipif(why_no_podman() is not None, reason=str(why_no_podman()))
def test_a_container_has_no_variables_of_systemd_and_its_monitor_is_outside_the_agent(
    node: SystemdMachine, workloads: dict[str, str]
) -> None:
    pid = pids(node, workloads)["box"]
    assert "NOTIFY_SOCKET" not in (node.root / f"proc/{pid}/environ").read_text()
    group = node.run("systemctl", "show", "--property=ControlGroup", "--value", "ank-agent").strip()
    inside = node.run("cat", f"/sys/fs/cgroup{group}/cgroup.procs").split()
    assert str(main_pid(node, "ank-agent")) in inside
    assert node.run("pgrep", "conmon").strip() not in inside
    assert pids(node, {"plain": NATIVE})["plain"] not in inside


def test_a_native_process_has_a_separate_cgroup(node: SystemdMachine, workloads: dict[str, str]) -> None:
    pid = pids(node, workloads)["plain"]
    groups = node.run("cat", f"/proc/{pid}/cgroup")
    own = re.search(r"^0::(/ankaios/[^/\n]*plain\.[^/\n]*)$", groups, re.MULTILINE)
    assert own is not None, groups
    assert node.run("cat", f"/sys/fs/cgroup{own[1]}/cgroup.procs").split() == [pid]


def test_the_journal_has_the_priorities_of_the_lines(node: SystemdMachine, workloads: dict[str, str]) -> None:
    node.run("systemctl", "stop", "ank-server")
    lost = "no connection to the server"
    node.wait_until("the agent notices", lambda: lost in journal(node, "ank-agent", "--priority=warning"))
    node.run("systemctl", "start", "ank-server")
    wait_for(node, "plain", "Running(Ok)")
    important = journal(node, "ank-agent", "--priority=warning", "--identifier=ank-agent").splitlines()
    assert all(re.match(r"\[\S+ (WARN |ERROR) ank_agent", line) for line in important if line.startswith("[")), (
        important
    )
    assert re.search(r"^\[\S+ INFO  ank_agent", journal(node, "ank-agent"), re.MULTILINE)


def test_an_update_replaces_the_services_and_not_the_workloads(node: SystemdMachine, workloads: dict[str, str]) -> None:
    before, services = pids(node, workloads), {service: main_pid(node, service) for service in SERVICES}
    node.sh("dpkg --install /root/dist/*.deb")
    for service in SERVICES:
        assert main_pid(node, service) not in (0, services[service])
    for name in workloads:
        wait_for(node, name, "Running(Ok)")
    assert pids(node, workloads) == before


def test_an_update_restarts_a_server_with_stored_state_and_not_one_with_its_state_in_memory(
    node: SystemdMachine, workloads: dict[str, str]
) -> None:
    assert set(node.sh("stat -c %a /var/lib/ankaios/state.db /var/lib/ankaios/agent/*.state").split()) == {"600"}
    before, server = pids(node, workloads), main_pid(node, "ank-server")
    folder = "/etc/systemd/system/ank-server.service.d"
    node.sh("sed -i 's/^startup_manifest /#&/' /etc/ankaios/ank-server.conf")
    assert "not restarted" not in node.sh("dpkg --install /root/dist/*.deb 2>&1")
    assert main_pid(node, "ank-server") not in (0, server)
    for name in workloads:
        wait_for(node, name, "Running(Ok)")

    node.sh("sed -i 's/^#startup_manifest /startup_manifest /' /etc/ankaios/ank-server.conf")
    unit = "[Service]\\nEnvironment=ANKSERVER_STORAGE=memory:\\n"
    node.sh(f"mkdir -p {folder}; printf '{unit}' >{folder}/memory.conf; systemctl daemon-reload")
    node.sh("systemctl restart ank-server; sed -i 's/^startup_manifest /#&/' /etc/ankaios/ank-server.conf")
    server, agent = main_pid(node, "ank-server"), main_pid(node, "ank-agent")
    assert "is not restarted" in node.sh("dpkg --install /root/dist/*.deb 2>&1")
    assert main_pid(node, "ank-server") == server
    assert main_pid(node, "ank-agent") not in (0, agent)
    node.sh("sed -i 's/^#startup_manifest /startup_manifest /' /etc/ankaios/ank-server.conf")
    node.sh(f"rm {folder}/memory.conf; systemctl daemon-reload; systemctl restart ank-server")
    for name in workloads:
        wait_for(node, name, "Running(Ok)")
    assert pids(node, workloads) == before


@pytest.fixture(scope="module")
def user(node: SystemdMachine) -> str:
    """A user who is logged in and runs the commands of the page."""
    if shutil.which("dbus-daemon") is None:
        pytest.skip("services of a user need the program 'dbus-daemon'")
    node.run("useradd", "--create-home", "--shell=/bin/bash", USER)
    uid = node.run("id", "-u", USER).strip()
    node.run("systemctl", "start", f"user@{uid}")
    type_in(node, installing("user-unit"), USER)
    return uid


def runs_as_the_user_and_continues_without_the_agent(
    node: SystemdMachine, uid: str, name: str, runtime: str, config: str, seconds: str
) -> None:
    node.run("ank", "run", "workload", name, "--runtime", runtime, "--agent", USER, "--config", config)
    wait_for(node, name, "Running(Ok)")
    before = pids(node, {name: seconds})
    assert status(node, int(before[name]))["Uid"].split()[0] == uid
    node.run("systemctl", "--user", f"--machine={USER}@", "restart", "ank-agent")
    wait_for(node, name, "Running(Ok)")
    assert pids(node, {name: seconds}) == before


def test_an_agent_of_a_user_runs_plain_processes(node: SystemdMachine, user: str) -> None:
    config = f'{{command: [/bin/sleep, "{OF_USER}"]}}'
    runs_as_the_user_and_continues_without_the_agent(node, user, "walker", "native", config, OF_USER)


@pytest.mark.skipif(why_no_podman() is not None, reason=str(why_no_podman()))
@pytest.mark.skipif(shutil.which("newuidmap") is None, reason="rootless containers need the program 'newuidmap'")
def test_an_agent_of_a_user_runs_rootless_containers(node: SystemdMachine, user: str) -> None:
    become = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "env", "--chdir=/tmp")
    person = (*become, f"HOME=/home/{USER}", f"XDG_RUNTIME_DIR=/run/user/{user}")
    prepare_podman(node, node.root / f"home/{USER}/.config/containers", "", *person)
    config = (
        f'{{image: {IMAGE}, commandOptions: ["--stop-timeout=0"], commandArgs: [/bin/sleep, "{CONTAINER_OF_USER}"]}}'
    )
    runs_as_the_user_and_continues_without_the_agent(node, user, "sailor", "podman", config, CONTAINER_OF_USER)
    node.run("ank", "delete", "workload", "sailor")
    assert node.run(*person, "podman", "ps", "--all", "--quiet") == ""
