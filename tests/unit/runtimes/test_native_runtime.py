"""Native workloads as the connector finds, starts and ends them."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.execution_state import ENDED_WITHOUT_CODE, FAILED_LOST, RUNNING_OK, exited
from ankaios.runtimes.command import CommandFailed, run_command
from ankaios.runtimes.exit_watch import boot_id, process_start
from ankaios.runtimes.native import native_runtime, users
from ankaios.runtimes.native.native_runtime import NativeRuntime
from ankaios.runtimes.native.order import User
from ankaios.runtimes.native.processes import NativeFolder, NativeProcess
from ankaios.runtimes.native.users import find_user
from ankaios.runtimes.runtime_connector import Extras, RuntimeFailed, Unsupported
from tests.support.builders import a_workload, an_instance
from tests.support.waiting import until

NATIVE = a_workload(runtime="native", config="command: [sleep, '100']")


def a_folder(path: Path, pid: int | None, start: int | None = None, boot: str | None = None) -> NativeFolder:
    path.mkdir(parents=True, exist_ok=True)
    if pid is not None:
        line = f"{pid} {process_start(pid) if start is None else start} {boot or boot_id()}\n"
        (path / "process").write_text(line * 2)
    return NativeFolder(path)


def test_a_workload_with_a_process_is_running(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, os.getpid())
    assert folder.state() == RUNNING_OK
    (tmp_path / "note").write_text("no rights")
    assert folder.state() == RUNNING_OK.because("no rights")


def test_another_process_with_the_same_id_is_not_the_workload(tmp_path: Path) -> None:
    assert a_folder(tmp_path, os.getpid(), start=1).state() == ENDED_WITHOUT_CODE


def test_after_a_reboot_the_process_is_lost(tmp_path: Path) -> None:
    assert a_folder(tmp_path, os.getpid(), boot="earlier").state() == FAILED_LOST


def test_the_exit_code_determines_the_state(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, os.getpid(), start=1)
    (tmp_path / "exit").write_text("4")
    assert folder.state() == exited(4)


@pytest.mark.parametrize("text", ["", "garbage", "1 2 3\n", "a b c\nd e f\n"])
def test_an_invalid_folder_is_a_lost_workload(tmp_path: Path, text: str) -> None:
    (tmp_path / "process").write_text(text)
    assert NativeFolder(tmp_path).state() == FAILED_LOST
    assert not NativeFolder(tmp_path).keeper_alive


def test_a_damaged_record_does_not_hide_a_running_process(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, os.getpid())
    (folder.path / "note").write_bytes(b"no limit of \xff")
    assert folder.state() == RUNNING_OK.because("no limit of \ufffd")


def test_a_damaged_list_of_cgroups_names_no_cgroup_of_others(tmp_path: Path) -> None:
    """All processes in these cgroups are killed when the workload is started again."""
    folder = NativeFolder(tmp_path / "web.1.node")
    folder.path.mkdir()
    own = ["/sys/fs/cgroup/ankaios/0a1b2c3d.web.1.node", "/sys/fs/cgroup/memory/ankaios/0a1b2c3d.web.1.node"]
    content = "\0".join(own).encode()
    (folder.path / "cgroups").write_bytes(content)
    assert folder.cgroups() == own
    for size in range(len(content)):
        (folder.path / "cgroups").write_bytes(content[:size])
        assert set(folder.cgroups()) <= set(own)


async def test_a_running_workload_is_ended_before_it_is_created_again(tmp_path: Path) -> None:
    runtime = NativeRuntime(tmp_path / "native")
    spec = a_workload(runtime="native", config="command: [sleep, '100']")
    workload = await runtime.create_workload(spec, Extras())
    folder = NativeFolder(tmp_path / "native" / workload)
    first = folder.processes()
    await runtime.create_workload(spec, Extras())
    second = folder.processes()
    assert first is not None and second is not None
    assert [first[0].alive, second[0].alive] == [False, True]
    await runtime.delete_workload(workload)
    assert [process.alive for process in second] == [False, False]


async def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    runtime = NativeRuntime(tmp_path / "native", stop_time=0.1)
    config = "command: [sh, -c, 'trap \"\" TERM; sleep 100']"
    spec = a_workload(runtime="native", config=config)
    workload = await runtime.create_workload(spec, Extras())
    await runtime.delete_workload(workload)
    assert await runtime.existing_workloads("agent_A") == []


async def test_a_keeper_that_was_killed_loses_only_the_exit_code(tmp_path: Path) -> None:
    runtime = NativeRuntime(tmp_path / "native")
    spec = a_workload(runtime="native", config="command: [sleep, '100']")
    workload = await runtime.create_workload(spec, Extras())
    folder = NativeFolder(tmp_path / "native" / workload)
    found = folder.processes()
    assert found is not None
    os.kill(found[1].pid, signal.SIGKILL)
    assert folder.state() == RUNNING_OK
    await runtime.delete_workload(workload)
    assert not found[0].alive


async def test_a_workload_whose_start_is_cancelled_keeps_its_keeper(tmp_path: Path) -> None:
    """An agent that ends cancels its starts. The next agent finds the workload, so its exit code must be recorded."""
    runtime = NativeRuntime(tmp_path / "native", stop_time=0.1)
    start = asyncio.create_task(runtime.create_workload(NATIVE, Extras()))
    folder = NativeFolder(tmp_path / "native" / str(NATIVE.instance_name))
    await until(lambda: folder.processes() is not None)
    start.cancel()
    await asyncio.wait([start])
    found = folder.processes()
    assert found is not None
    os.kill(found[0].pid, signal.SIGTERM)
    await until(lambda: not found[1].alive)
    assert folder.state() == exited(128 + signal.SIGTERM)
    await runtime.delete_workload(folder.path.name)


@pytest.mark.parametrize("reuse", [None, str(NATIVE.instance_name)])
async def test_a_process_that_starts_after_the_time_limit_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reuse: str | None
) -> None:
    """Otherwise the next attempt would start a second process."""
    folder = NativeFolder(tmp_path / "native" / str(NATIVE.instance_name))
    found: list[NativeProcess] = []

    async def answers_too_late(*arguments: Any, **limits: Any) -> str:
        await run_command(*arguments, **limits)
        found.extend(folder.processes() or ())
        raise CommandFailed("start", "no response")

    monkeypatch.setattr(native_runtime, "run_command", answers_too_late)
    runtime = NativeRuntime(tmp_path / "native")
    with pytest.raises(RuntimeFailed, match="cannot start 'sleep': no response"):
        await runtime.create_workload(NATIVE, Extras(reuse=reuse))
    assert [process.alive for process in found] == [False, False]
    assert folder.path.exists() == (reuse is not None)


async def test_a_start_that_cannot_be_cleaned_up_reports_its_original_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def remove_folder(*arguments: Any, **limits: Any) -> str:
        (tmp_path / "native").rename(tmp_path / "elsewhere")
        raise CommandFailed("start", "the disk is lost")

    monkeypatch.setattr(native_runtime, "run_command", remove_folder)
    with pytest.raises(RuntimeFailed, match="cannot start 'sleep': the disk is lost"):
        await NativeRuntime(tmp_path / "native").create_workload(NATIVE, Extras())


async def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "native").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    await check_all_calls_fail(tmp_path / "native", "it belongs to another user")


async def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir(mode=0o755)
    (tmp_path / "native").symlink_to("outside")
    await check_all_calls_fail(tmp_path / "native", "it is a symbolic link")
    assert (tmp_path / "outside").stat().st_mode & 0o777 == 0o755


@pytest.fixture
def a_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


async def test_processes_named_in_files_of_another_user_are_not_ended(
    tmp_path: Path, a_process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a run folder that is writable for all users, any user may have created the folder."""
    a_folder(tmp_path / "native" / str(NATIVE.instance_name), a_process.pid)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    await check_all_calls_fail(tmp_path / "native", "it belongs to another user")
    assert a_process.poll() is None


async def check_all_calls_fail(folder: Path, why: str) -> None:
    runtime = NativeRuntime(folder)
    workload = str(NATIVE.instance_name)
    for call in (
        lambda: runtime.create_workload(NATIVE, Extras()),
        lambda: runtime.existing_workloads("agent_A"),
        lambda: runtime.workload_id(NATIVE.instance_name),
        lambda: runtime.delete_workload(workload),
    ):
        with pytest.raises(RuntimeFailed, match=f"{why}.*, remove it or choose another folder with --run-folder"):
            await call()


async def test_stored_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "native"
    folder.mkdir(mode=0o777)
    runtime = NativeRuntime(folder)
    spec = a_workload(runtime="native", config="command: ['true']")
    workload = await runtime.create_workload(spec, Extras())
    assert folder.stat().st_mode & 0o077 == 0
    await runtime.delete_workload(workload)


async def test_a_failed_start_leaves_no_files(tmp_path: Path) -> None:
    runtime = NativeRuntime(tmp_path / "native")
    spec = a_workload(runtime="native", config="command: [/no/such]")
    with pytest.raises(RuntimeFailed, match=r"cannot start '/no/such': .*No such file"):
        await runtime.create_workload(spec, Extras())
    assert await runtime.workload_id(spec.instance_name) is None


async def test_an_unsupported_start_leaves_no_files(tmp_path: Path) -> None:
    runtime = NativeRuntime(tmp_path / "native")
    grant = DeviceGrant(cdi_devices=("vendor.com/camera=c1",))
    with pytest.raises(Unsupported, match="has no CDI devices"):
        await runtime.create_workload(NATIVE, Extras(grants=(grant,)))
    assert await runtime.existing_workloads("agent_A") == []


async def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "native").touch()
    with pytest.raises(RuntimeFailed, match="it is not a folder, remove it or choose another folder with --run-folder"):
        await NativeRuntime(tmp_path / "native").existing_workloads("agent_A")


async def test_folders_that_are_no_workloads_are_ignored(tmp_path: Path) -> None:
    for name in ("something", str(an_instance(agent="other_A")), str(an_instance())):
        (tmp_path / name).mkdir()
    found = await NativeRuntime(tmp_path).existing_workloads("agent_A")
    assert [(each.instance_name, each.state, each.id) for each in found] == [
        (an_instance(), FAILED_LOST, str(an_instance()))
    ]


def test_users_are_found_by_name_or_number() -> None:
    root = find_user("root")
    assert (root.uid, root.gid, root.name) == (0, 0, "root")
    assert find_user("0") == root
    assert find_user("root:4711").gid == 4711
    assert find_user("root:root").groups == (0,)
    user = find_user("4711")
    assert (user.uid, user.gid, user.home, user.name) == (4711, 4711, "/", "4711")


@pytest.fixture
def slow_lookup(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A directory service that responds after the event is set."""
    response = threading.Event()

    def find_slowly(text: str) -> User:
        assert response.wait(30), "the event loop is blocked"
        return find_user(text)

    monkeypatch.setattr(users, "find_user", find_slowly)
    return response


AS_ROOT = a_workload(runtime="native", config="command: [sleep, '100']\nuser: root")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a process of root")
async def test_other_tasks_run_while_a_user_is_looked_up(tmp_path: Path, slow_lookup: threading.Event) -> None:
    runtime = NativeRuntime(tmp_path / "native", stop_time=0.1)
    start = asyncio.create_task(runtime.create_workload(AS_ROOT, Extras()))
    await asyncio.sleep(0.01)
    slow_lookup.set()
    await runtime.delete_workload(await start)


async def test_a_user_that_is_not_found_in_time_fails_the_start(
    tmp_path: Path, slow_lookup: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_runtime, "START_LIMIT", 0.0)
    with pytest.raises(RuntimeFailed, match="cannot run as 'root': No response within 0 s"):
        await NativeRuntime(tmp_path / "native").create_workload(AS_ROOT, Extras())
    slow_lookup.set()


@pytest.mark.parametrize("text", ["unknown-user", "root:no-group", ""])
def test_an_unknown_user_is_reported(text: str) -> None:
    with pytest.raises(RuntimeFailed, match="cannot run as"):
        find_user(text)
