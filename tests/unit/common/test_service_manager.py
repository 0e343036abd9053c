"""Notifications for systemd, over a real datagram socket."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ankaios.common import service_manager
from ankaios.common.service_manager import (
    ALIVE,
    READY,
    hide_from_children,
    notify,
    send_watchdog_pings,
    watchdog_interval,
)


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


def test_ready_arrives_as_one_datagram(systemd: socket.socket) -> None:
    assert notify(READY)
    assert systemd.recv(100) == b"READY=1"


def test_without_systemd_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify(READY)


@pytest.mark.parametrize("message", [READY, ALIVE])
def test_a_systemd_that_does_not_read_delays_the_process_only_briefly(
    systemd: socket.socket, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    monkeypatch.setattr(service_manager, "_TIMEOUT", 0.05)
    while notify(ALIVE):
        pass
    assert not notify(message)
    assert systemd.recv(100) == ALIVE.encode()
    assert notify(message)


def test_a_missing_socket_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    assert not notify(READY)


@pytest.mark.parametrize(("given", "expected"), [("2000000", 1.0), ("0", None), ("soon", None), ("", None)])
def test_the_interval_is_half_of_the_timeout_of_systemd(
    monkeypatch: pytest.MonkeyPatch, given: str, expected: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", given)
    assert watchdog_interval() == expected


def test_a_watchdog_of_another_process_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid() + 1))
    assert watchdog_interval() is None


async def test_the_watchdog_receives_pings_repeatedly(systemd: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "2000")
    task = asyncio.create_task(send_watchdog_pings())
    signs = [await asyncio.to_thread(systemd.recv, 100) for _ in range(3)]
    task.cancel()
    assert signs == [ALIVE.encode()] * 3


def test_child_processes_do_not_get_the_variables_of_systemd(
    systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_manager, "_hidden", {})
    variables = {"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid()), "INVOCATION_ID": "77bc"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    hide_from_children()
    assert not {"NOTIFY_SOCKET", *variables} & set(os.environ)
    assert watchdog_interval() == 1.0
    assert notify(READY)
    assert systemd.recv(100) == b"READY=1"


def test_a_watchdog_ping_does_not_wait_for_a_systemd_that_reads_nothing(systemd: socket.socket) -> None:
    while notify(ALIVE):  # would hang here if pings blocked
        pass
    assert systemd.recv(100) == ALIVE.encode()
