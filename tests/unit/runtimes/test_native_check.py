"""The helper process of a health check, as a real process."""

import marshal
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ankaios.runtimes.exit_watch import process_start
from ankaios.runtimes.native.native_runtime import CHECK, PACKAGES


def run_check(start: int, command: list[str]) -> dict[str, Any]:
    """Check this process."""
    order = marshal.dumps({"process": os.getpid(), "start": start, "command": command, "limit": 60.0})
    helper = [sys.executable, "-I", "-S", "-c", CHECK, str(PACKAGES)]
    with subprocess.Popen(helper, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"%d\n%s" % (len(order), order))
        process.stdin.flush()
        result: dict[str, Any] = marshal.loads(process.stdout.read())
    return result


def test_the_command_runs_with_the_context_of_the_process() -> None:
    start = process_start(os.getpid())
    assert start is not None
    assert run_check(start, ["sh", "-c", "echo $PWD; exit 3"]) == {"code": 3, "output": f"{os.getcwd()}\n".encode()}


def test_all_processes_of_the_check_are_ended(tmp_path: Path) -> None:
    start = process_start(os.getpid())
    assert start is not None
    pids = tmp_path / "pids"
    left = f"setsid sh -c 'sleep 1000 & echo $$ $! >{pids}.new; mv {pids}.new {pids}; wait'"
    result = run_check(start, ["sh", "-c", f"{left} & until [ -e {pids} ]; do sleep 0.01; done"])
    assert result["code"] == 0
    assert [process_start(int(pid)) for pid in pids.read_text().split()] == [None, None]


def test_a_later_process_with_the_same_id_is_not_used() -> None:
    """The command could be controlled by the user of the workload, and the other process can belong to root."""
    result = run_check(1, ["touch", "/no-such-file"])
    assert result == {"code": 127, "output": b"cannot run 'touch': the process of the workload has ended"}
