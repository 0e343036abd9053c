"""The keeper of a native workload, as a real process."""

import fcntl
import marshal
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ankaios.runtimes.exit_watch import process_start
from ankaios.runtimes.native.log_writer import LONGEST_LINE, Log, time_stamp
from ankaios.runtimes.native.native_runtime import PACKAGES, SHIM
from ankaios.runtimes.native.order import NativeConfig, make_order
from ankaios.runtimes.native.processes import NativeFolder
from ankaios.runtimes.runtime_connector import Extras
from tests.support.mount_rights import needs_mounts


def wait_for(path: Path) -> str:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.002)
    return path.read_text()


class Shim:
    def __init__(self, folder: Path) -> None:
        self.folder = NativeFolder(folder)

    def start(self, script: str, extras: Extras = Extras(), **changes: Any) -> subprocess.CompletedProcess[str]:  # noqa: B008
        return self.run(SHIM, script, extras, **changes)

    def run(self, shim: str, script: str, extras: Extras, **changes: Any) -> subprocess.CompletedProcess[str]:
        order = self.order(script, extras, **changes)
        done = subprocess.run(self.command(shim), input=order, capture_output=True, timeout=60)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def order(self, script: str, extras: Extras = Extras(), **changes: Any) -> bytes:  # noqa: B008
        config = NativeConfig.parse("command: [sh]")
        order = make_order(config, extras, str(self.folder.path), None, os.environ)
        return marshal.dumps(order | {"command": ["sh", "-c", script]} | changes)

    def command(self, shim: str) -> list[str]:
        return [sys.executable, "-I", "-S", "-c", shim, str(PACKAGES)]

    def wait_for_keeper(self) -> None:
        until = time.monotonic() + 60
        while self.folder.keeper_alive:
            assert time.monotonic() < until, "the keeper does not end"
            time.sleep(0.002)

    def end(self) -> None:
        for process in self.folder.processes() or ():
            with suppress(ProcessLookupError):  # it may end at this moment
                if process.alive:
                    os.kill(process.pid, signal.SIGKILL)


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Shim]:
    made = Shim(tmp_path)
    yield made
    made.end()


def test_the_exit_code_is_stored_for_the_next_agent(shim: Shim) -> None:
    assert shim.start("exit 3").returncode == 0
    assert wait_for(shim.folder.path / "exit") == "3"


def test_without_process_descriptors_the_end_is_detected_too(shim: Shim) -> None:
    done = shim.run(f"import os; del os.pidfd_open; {SHIM}", "echo one; sleep 0.2; echo two; exit 3", Extras())
    assert done.returncode == 0, done.stderr
    assert wait_for(shim.folder.path / "exit") == "3"
    assert (shim.folder.path / "log").read_text().count(" F ") == 2


def test_a_keeper_whose_starter_was_killed_supervises_its_workload(shim: Shim) -> None:
    """An agent that ends during a start kills the starter. A lock delays the keeper until that has happened."""
    lock = os.open(shim.folder.path, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with subprocess.Popen(shim.command(SHIM), stdin=subprocess.PIPE) as starter:
        assert starter.stdin is not None
        starter.stdin.write(shim.order("echo out; exit 3"))
        starter.stdin.close()
        children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children")
        until = time.monotonic() + 60
        while not children.read_text():
            assert time.monotonic() < until, "no keeper was started"
            time.sleep(0.002)
        starter.kill()
    os.close(lock)
    assert wait_for(shim.folder.path / "exit") == "3"
    assert " F out\n" in (shim.folder.path / "log").read_text()


def test_an_end_by_a_signal_has_the_usual_exit_code(shim: Shim) -> None:
    shim.start("kill -TERM $$")
    assert wait_for(shim.folder.path / "exit") == "143"


def test_the_process_can_be_found_and_leads_its_own_session(shim: Shim) -> None:
    shim.start("exec sleep 100")
    found = shim.folder.processes()
    assert found is not None
    process, keeper = found
    assert process.alive
    assert keeper.alive
    assert os.getpgid(process.pid) == os.getsid(process.pid) == process.pid
    assert os.getsid(keeper.pid) not in (os.getsid(0), process.pid)


def test_processes_in_the_group_end_with_the_workload(shim: Shim) -> None:
    shim.start("sleep 100 & echo $!")
    wait_for(shim.folder.path / "exit")
    shim.wait_for_keeper()
    left = int((shim.folder.path / "log").read_text().split()[-1])
    until = time.monotonic() + 60
    while process_start(left) is not None:  # killed, but the kernel may need a moment
        assert time.monotonic() < until, "it is still running"
        time.sleep(0.01)


def test_a_descendant_that_does_not_end_delays_the_keeper_only_for_a_limited_time() -> None:
    """A process that waits for a disk that does not respond is not ended by SIGKILL."""
    script = """
import os, sys, time
sys.path.append(sys.argv[1])
from ankaios.runtimes.native import shim
child = os.fork()
if child == 0:
    time.sleep(1000)
kill, os.kill, shim.END_LIMIT = os.kill, lambda *_: None, 0.1
shim.end_descendants()
print(shim.children() == [child])
kill(child, 9)
"""
    command = [sys.executable, "-I", "-S", "-c", script, str(PACKAGES)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout == "True\n"


def test_output_is_kept_with_time_and_stream(shim: Shim) -> None:
    shim.start("echo one; sleep 0.05; echo two >&2; sleep 0.05; printf rest")
    wait_for(shim.folder.path / "exit")
    shim.wait_for_keeper()
    lines = [line.split(" ", 1) for line in (shim.folder.path / "log").read_text().splitlines()]
    assert [rest for _, rest in lines] == ["stdout F one", "stderr F two", "stdout P rest"]
    assert lines == sorted(lines)


@pytest.mark.parametrize("doing", ["sleep 0.05", "echo busy; sleep 0.001"])
def test_a_workload_whose_folder_is_missing_is_ended(tmp_path: Path, doing: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    shim = Shim(folder)
    assert shim.start(f"trap '' TERM; while :; do {doing}; done", orphan_check=50).returncode == 0
    found = shim.folder.processes()
    assert found is not None
    folder.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "process").unlink()
    until = time.monotonic() + 60
    while any(process.alive for process in found):
        assert time.monotonic() < until, "the orphan is still running"
        time.sleep(0.01)
    assert not (tmp_path / "elsewhere" / "exit").exists()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"command": ["/no/such"]}, "No such file or directory"),
        ({"command": ["no-such-program"]}, "No such file or directory: 'no-such-program'"),
        ({"command": ["/etc"]}, "Permission denied"),
        ({"working_dir": "/no/such"}, "No such file or directory: '/no/such'"),
    ],
)
def test_a_command_that_cannot_start_is_reported_and_leaves_no_process(
    shim: Shim, changes: dict[str, Any], why: str
) -> None:
    done = shim.start("exit 0", **changes)
    assert done.returncode == 1
    assert why in done.stderr
    assert shim.folder.processes() is None


def is_working_in(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink() == folder
    except OSError:
        return False


@pytest.mark.parametrize("name", ["process.new", "log"])
def test_a_folder_that_cannot_be_written_is_reported_and_leaves_no_process(shim: Shim, name: str) -> None:
    folder = shim.folder.path
    (folder / name).mkdir()
    done = shim.start("exec sleep 1000")
    assert done.returncode == 1
    assert f"Is a directory: '{name}'" in done.stderr
    until = time.monotonic() + 60
    while left := [process for process in Path("/proc").glob("[0-9]*") if is_working_in(process, folder)]:
        assert time.monotonic() < until, left
        time.sleep(0.002)


def test_a_start_that_another_one_has_replaced_does_not_continue(shim: Shim) -> None:
    (shim.folder.path / "start").write_text("new")
    done = shim.start("echo started", token="old")
    assert (done.returncode, done.stderr) == (1, "another start has replaced this one")
    assert not (shim.folder.path / "process").exists()
    assert shim.start("echo started", token="new").returncode == 0


def test_limits_are_enforced(shim: Shim) -> None:
    shim.start("ulimit -n", limits=[("RLIMIT_NOFILE", 77)])
    wait_for(shim.folder.path / "exit")
    shim.wait_for_keeper()
    assert wait_for(shim.folder.path / "log").endswith(" 77\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_the_command_runs_as_the_given_user(shim: Shim) -> None:
    shim.start("id -u; id -g; id -G", user=(65534, 65533, [65533]))
    wait_for(shim.folder.path / "exit")
    shim.wait_for_keeper()
    words = [line.split(" ", 3)[3] for line in wait_for(shim.folder.path / "log").splitlines()]
    assert words == ["65534", "65533", "65533"]


@needs_mounts
def test_mounts_are_seen_by_the_process_only(shim: Shim, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    source.write_text("hidden treasure")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").touch()
    mounts = [(str(source), str(target), True), (str(folder), str(tmp_path / "other"), False)]
    script = f"cat {target}; ls {tmp_path}/other; echo no 2>&1 > {target} || echo readonly; touch {tmp_path}/go; "
    shim.start(script + f"while [ -e {tmp_path}/go ]; do sleep 0.01; done", mounts=mounts)
    wait_for(tmp_path / "go")
    assert target.read_text() == ""
    (tmp_path / "go").unlink()
    wait_for(shim.folder.path / "exit")
    shim.wait_for_keeper()
    text = wait_for(shim.folder.path / "log")
    assert "hidden treasurefile" in text
    assert " stdout F readonly\n" in text
    assert shim.folder.note() == ""
    assert not target.parent.exists()
    assert not (tmp_path / "other").exists()


@needs_mounts
def test_a_mount_can_be_inside_of_another(shim: Shim, tmp_path: Path) -> None:
    outer, inner, target = tmp_path / "outer", tmp_path / "inner", tmp_path / "target"
    outer.mkdir()
    inner.write_text("treasure")
    mounts = [(str(outer), str(target), False), (str(inner), str(target / "file"), False)]
    shim.start(f"cat {target}/file", mounts=mounts)
    wait_for(shim.folder.path / "exit")
    shim.wait_for_keeper()
    assert "treasure" in wait_for(shim.folder.path / "log")
    assert not target.exists()


@needs_mounts
@pytest.mark.parametrize(
    ("target", "command", "why"),
    [
        ("made/file", "/no/such", "No such file or directory"),
        ("made/file/below", "true", "Not a directory"),
        ("no\0path", "true", "embedded null"),
    ],
)
def test_a_start_that_failed_leaves_no_mount_points(
    shim: Shim, tmp_path: Path, target: str, command: str, why: str
) -> None:
    (tmp_path / "source").touch()
    mounts = [(str(tmp_path / "source"), str(tmp_path / place), True) for place in ("made/file", target)]
    done = shim.start("", mounts=mounts, command=[command])
    assert why in done.stderr
    assert not (tmp_path / "made").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="rights can only be taken from root")
def test_without_permission_to_mount_variables_contain_the_paths(shim: Shim, tmp_path: Path) -> None:
    config = NativeConfig.parse("command: [sh]")
    extras = Extras(control_interface=tmp_path / "ci")
    order = make_order(config, extras, str(shim.folder.path), None, os.environ)
    order["mounts"] = [(str(tmp_path / "ci"), str(tmp_path / "made" / "ci"), False)]
    script = f"cd {tmp_path}; echo $ANKAIOS_CONTROL_INTERFACE > output.new; mv output.new output; exec sleep 1000"
    order["command"] = ["sh", "-c", script]
    command = ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-I", "-S", "-c", SHIM, str(PACKAGES)]
    done = subprocess.run(command, input=marshal.dumps(order), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "made").exists()
    assert wait_for(tmp_path / "output") == f"{tmp_path}/ci\n"
    why = "unshare: Operation not permitted"
    assert shim.folder.note() == f"Agent cannot mount ({why}): paths are in $ANKAIOS_CONTROL_INTERFACE"


def test_a_line_without_end_is_cut_into_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = Log(1_000_000)
    log.add(0, b"x" * (LONGEST_LINE + 1))
    log.add(0, b"y\nz")
    log.add(0, b"", end=True)
    kinds = [line.split(b" ")[2:] for line in (tmp_path / "log").read_bytes().splitlines()]
    assert [(kind, text[:1]) for kind, text in kinds] == [(b"P", b"x"), (b"F", b"y"), (b"P", b"z")]


def test_a_log_continues_where_an_earlier_run_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in (b"one\n", b"two\n"):
        Log(1_000_000).add(0, text)
    assert len((tmp_path / "log").read_bytes().splitlines()) == 2


def test_after_a_failed_rotation_the_log_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = Log(100)
    log.add(0, b"one\n")
    (tmp_path / "log.1").mkdir()
    log.add(0, b"two\n")
    with (tmp_path / "other").open("w") as other:  # gets the number of a descriptor that was closed too early
        (tmp_path / "log.1").rmdir()
        log.add(0, b"three\n")
        other.write("content")
    assert texts_in(tmp_path / "log.1") == [b"one"]
    assert texts_in(tmp_path / "log") == [b"three"]


def test_a_log_that_was_removed_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = Log(100)
    log.add(0, b"one\n")
    (tmp_path / "log").unlink()
    log.add(0, b"two\n")
    assert texts_in(tmp_path / "log") == [b"two"]


def test_a_full_disk_causes_no_partial_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = Log(1_000_000)
    log.add(0, b"one\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "log").stat().st_size + 42, limits[1]))
    try:
        log.add(0, b"two\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    log.add(0, b"three\n")
    assert texts_in(tmp_path / "log") == [b"one", b"three"]


def texts_in(log: Path) -> list[bytes]:
    return [line.split(b" ", 3)[3] for line in log.read_bytes().splitlines()]


def test_time_stamps_have_a_fixed_length() -> None:
    assert len(time_stamp()) == 30
    assert time_stamp() <= time_stamp()
