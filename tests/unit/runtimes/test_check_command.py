"""HEALTHCHECK of images, and the end of all processes of a check."""

import os
import subprocess
import sys

import pytest

from ankaios.common.health import ExecCheck
from ankaios.runtimes.check_command import check_target_of, parse_image_healthcheck
from ankaios.runtimes.marked_processes import end_marked_processes, new_mark
from ankaios.runtimes.runtime_connector import RuntimeFailed


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("null", None),
        ('{"Test":["NONE"]}', None),
        ('{"Test":[]}', None),
        ('{"Test":"x"}', None),
        ("[]", None),
        ('{"Test":["CMD-SHELL","curl x || exit 1"]}',
         ExecCheck(command=("/bin/sh", "-c", "curl x || exit 1"), interval="30s", timeout="30s", start_period="0s")),
        ('{"Test":["CMD","true","-x"],"Interval":1500000000,"Timeout":2000000000,"StartPeriod":60000000000,"Retries":7}',
         ExecCheck(command=("true", "-x"), interval="1500ms", timeout="2s", start_period="1m", failures=7)),
        ('{"Test":["CMD","true"],"Interval":"soon","Retries":true}',
         ExecCheck(command=("true",), interval="30s", timeout="30s", start_period="0s")),
    ],
)  # fmt: skip
def test_the_healthcheck_of_an_image_becomes_a_check(text: str, check: ExecCheck | None) -> None:
    assert parse_image_healthcheck(text) == check


def test_a_healthcheck_that_is_no_json_is_a_failure_of_the_runtime() -> None:
    with pytest.raises(RuntimeFailed, match="cannot read the HEALTHCHECK of the image"):
        parse_image_healthcheck("{")


def test_an_ended_process_is_no_target() -> None:
    with pytest.raises(RuntimeFailed, match="cannot find the process of the workload"):
        check_target_of(0)
    assert check_target_of(os.getpid()).pid == os.getpid()


def test_all_processes_with_a_mark_are_ended_and_no_other() -> None:
    mark = new_mark()
    name, _, value = mark.partition("=")
    script = "import os, time; os.fork(); os.setsid() if os.fork() == 0 else 0; time.sleep(600)"
    marked = subprocess.Popen([sys.executable, "-S", "-c", script], env={**os.environ, name: value})
    other = subprocess.Popen(["sleep", "600"])
    try:
        assert end_marked_processes(mark) >= 1
        assert marked.wait(10) == -9
        assert other.poll() is None
        assert end_marked_processes(mark) == 0
    finally:
        for process in (marked, other):
            process.kill()
            process.wait()
