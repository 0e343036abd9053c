"""Programs are started without an event loop, in a separate process group, and leave nothing behind."""

import os
import select
import signal
import sys
from pathlib import Path

import pytest

from ankaios.runtimes.child_process import UNKNOWN_EXIT, ChildProcess, is_installed


def output_of(child: ChildProcess) -> bytes:
    """Return its complete standard output."""
    pieces: list[bytes] = []
    while True:
        select.select([child.stdout], [], [], 60)
        piece = os.read(child.stdout, 65536)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def end_of(child: ChildProcess) -> int | None:
    descriptor = os.pidfd_open(child.pid)
    select.select([descriptor], [], [], 60)
    os.close(descriptor)
    assert child.has_ended()
    child.close()
    return child.exit_code


def a_shell(script: str, *, merge: bool = False) -> ChildProcess:
    return ChildProcess("sh", ["-c", script], merge=merge)


def test_output_and_exit_code_can_be_read_at_any_time() -> None:
    child = a_shell("echo hello; exit 3")
    assert output_of(child) == b"hello\n"
    assert end_of(child) == 3
    assert child.has_ended()


def test_an_end_by_a_signal_is_a_negative_code() -> None:
    assert end_of(a_shell("kill -TERM $$")) == -signal.SIGTERM


def test_error_output_is_separate_or_combined() -> None:
    apart = a_shell("echo no >&2; echo yes")
    assert output_of(apart) == b"yes\n"
    assert os.read(apart.stderr, 100) == b"no\n"
    end_of(apart)
    together = a_shell("echo no >&2; echo yes", merge=True)
    assert output_of(together) == b"no\nyes\n"
    end_of(together)


def test_reading_before_the_end_does_not_wait() -> None:
    child = a_shell("read line; echo $line")
    with pytest.raises(BlockingIOError):
        os.read(child.stdout, 100)
    os.write(child.stdin, b"now\n")
    assert output_of(child) == b"now\n"
    end_of(child)


def test_a_program_reads_nothing_once_its_input_is_closed() -> None:
    child = a_shell("cat; echo end")
    child.close_stdin()
    child.close_stdin()
    assert output_of(child) == b"end\n"
    end_of(child)


def test_a_program_has_its_own_group_and_ends_with_all_its_processes() -> None:
    child = a_shell("sleep 100 & echo $!; wait")
    select.select([child.stdout], [], [], 60)
    grandchild = int(os.read(child.stdout, 100))
    assert os.getpgid(child.pid) == os.getpgid(grandchild) == child.pid
    child.kill()
    assert output_of(child) == b""  # both ends of the pipe are closed: neither runs any more
    assert end_of(child) == -signal.SIGKILL
    child.kill()


def test_a_program_does_not_ignore_broken_pipes_as_python_does() -> None:
    assert end_of(a_shell("sh -c 'kill -PIPE $$'; exit $?")) == 128 + signal.SIGPIPE


def test_a_program_is_searched_in_the_given_path(tmp_path: Path) -> None:
    program = tmp_path / "second" / "tool"
    program.parent.mkdir()
    (tmp_path / "first").write_text("no folder")
    program.write_text("#!/bin/sh\necho found $0\n")
    program.chmod(0o755)
    child = ChildProcess("tool", [], {"PATH": f"{tmp_path}/first:{tmp_path}/missing:{program.parent}"})
    assert output_of(child) == f"found {program}\n".encode()
    end_of(child)


@pytest.mark.parametrize(("program", "kind"), [("no-such-tool", FileNotFoundError), ("/tmp", PermissionError)])
def test_a_program_that_cannot_start_leaves_no_open_descriptors(program: str, kind: type[OSError]) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(kind, match=program):
        ChildProcess(program, [])
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_process_without_standard_input_and_output_can_start_programs(tmp_path: Path) -> None:
    script = f"""
import os
for number in (0, 1, 2):
    os.close(number)
from ankaios.runtimes.child_process import ChildProcess
child = ChildProcess("sh", ["-c", "cat; echo out; echo err >&2"])
os.write(child.stdin, b"in ")
child.close_stdin()
os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
with open({str(tmp_path / "seen")!r}, "wb") as seen:
    seen.write(os.read(child.stdout, 100) + os.read(child.stderr, 100))
"""
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", script]) == 0
    assert (tmp_path / "seen").read_bytes() == b"in out\nerr\n"


def test_if_the_kernel_reaps_children_the_exit_code_is_unknown() -> None:
    child = a_shell("exit 0")
    os.waitpid(child.pid, 0)
    assert child.has_ended()
    assert child.exit_code == UNKNOWN_EXIT
    child.close()


def test_a_program_is_installed_if_it_could_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tool"
    monkeypatch.setenv("PATH", f"/no/such:{tmp_path}")
    assert not is_installed("tool")
    program.write_text("")
    assert not is_installed("tool")
    program.chmod(0o755)
    assert is_installed("tool")
    program.unlink()
    program.mkdir()
    assert not is_installed("tool")
