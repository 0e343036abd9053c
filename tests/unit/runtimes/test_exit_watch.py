"""The end of a process is detected, and never that of another process."""

import asyncio
import os
import subprocess
import time

import pytest

from ankaios.runtimes.exit_watch import boot_id, command_line, parent_of, process_start, watch_exit


def a_process(seconds: str = "100") -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["sleep", seconds])
    while not command_line(process.pid):  # empty while the kernel replaces the program
        time.sleep(0.001)
    return process


async def test_the_end_of_a_process_is_reported_once() -> None:
    process = a_process()
    ended = asyncio.Event()
    watch = watch_exit(process.pid, lambda _: True, ended.set)
    assert watch is not None
    process.kill()
    async with asyncio.timeout(60):
        await ended.wait()
    process.wait()
    assert not watch.open
    watch.close()


async def test_a_process_with_another_identity_is_not_watched() -> None:
    process = a_process()
    assert watch_exit(process.pid, lambda pid: pid != process.pid, lambda: None) is None
    process.kill()
    process.wait()


async def test_a_process_that_has_ended_is_not_watched() -> None:
    process = a_process()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    assert watch_exit(process.pid, lambda _: True, lambda: None) is None  # still a zombie
    process.wait()
    assert watch_exit(process.pid, lambda _: True, lambda: None) is None
    assert watch_exit(-1, lambda _: True, lambda: None) is None


async def test_a_closed_watch_reports_nothing() -> None:
    process = a_process()
    reported: list[str] = []
    watch = watch_exit(process.pid, lambda _: True, lambda: reported.append("ended"))
    assert watch is not None
    watch.close()
    watch.close()
    process.kill()
    process.wait()
    await asyncio.sleep(0)
    assert reported == []


async def test_without_process_descriptors_nothing_can_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert watch_exit(os.getpid(), lambda _: True, lambda: None) is None


def test_the_start_time_distinguishes_processes() -> None:
    process = a_process()
    start = process_start(process.pid)
    assert start is not None
    assert start == process_start(process.pid)
    assert parent_of(process.pid) == os.getpid()
    assert command_line(process.pid) == ["sleep", "100"]
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process_start(process.pid) is None  # it has ended but is not reaped
    process.wait()
    assert process_start(process.pid) is None
    assert parent_of(process.pid) is None
    assert command_line(process.pid) == []


def test_a_boot_has_an_id() -> None:
    assert len(boot_id()) == 36
