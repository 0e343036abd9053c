"""Events of devices: collected until they are read, and lost ones are reported. System tests use real devices."""

import asyncio
import builtins
import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from ankaios.devices.discovery.base import HandlerLost
from ankaios.devices.discovery.udev.tree import MAX_CHANGED, PyudevTree, UdevEvents


@dataclass
class Event:
    device_path: str
    action: str = "add"
    properties: dict[str, str] = field(default_factory=dict)


class FakeMonitor:
    """Events that a test sends through a real descriptor."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._events: list[Event | OSError] = []

    def fileno(self) -> int:
        return self._ours.fileno()

    def send(self, *events: Event | OSError) -> None:
        self._events.extend(events)
        self._theirs.send(b"x")

    def poll(self, timeout: float) -> Event | None:
        if not self._events:
            self._ours.recv(100)
            return None
        event = self._events.pop(0)
        if isinstance(event, OSError):
            self._ours.recv(1)
            raise event
        return event


@contextmanager
def listening(*monitors: FakeMonitor) -> Iterator[UdevEvents]:
    events = UdevEvents(monitors)
    try:
        yield events
    finally:
        events.close()


async def test_a_burst_of_events_of_all_sources_is_combined() -> None:
    kernel, udev = FakeMonitor(), FakeMonitor()
    with listening(kernel, udev) as events:
        kernel.send(Event("/a"), Event("/b"), Event("/a"))
        udev.send(Event("/c"))
        async with asyncio.timeout(10):
            assert await events.changed() == {"/a", "/b", "/c"}
            kernel.send(Event("/d"))
            assert await events.changed() == {"/d"}


async def test_a_single_event_is_reported_after_a_few_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", pause)
    monitor = FakeMonitor()
    with listening(monitor) as events:
        monitor.send(Event("/a"))
        async with asyncio.timeout(10):
            assert await events.changed() == {"/a"}
    assert 0 < sum(pauses) <= 0.005


async def test_continuous_events_do_not_delay_the_report() -> None:
    monitor = FakeMonitor()

    async def send_events() -> None:
        while True:
            monitor.send(Event("/a"))
            await asyncio.sleep(0)

    with listening(monitor) as events:
        sending = asyncio.create_task(send_events())
        async with asyncio.timeout(10):
            assert await events.changed() == {"/a"}
        sending.cancel()


async def test_a_move_reports_the_old_path_too() -> None:
    monitor = FakeMonitor()
    with listening(monitor) as events:
        monitor.send(Event("/new", "move", {"DEVPATH_OLD": "/old"}))
        async with asyncio.timeout(10):
            assert await events.changed() == {"/new", "/old"}


TOO_MANY = [Event(f"/{number}") for number in range(MAX_CHANGED + 1)]


@pytest.mark.parametrize("lost", [[OSError(errno.ENOBUFS, "No buffer space")], TOO_MANY], ids=["lost", "many"])
async def test_lost_or_too_many_events_request_one_complete_scan(lost: list[Event | OSError]) -> None:
    monitor = FakeMonitor()
    with listening(monitor) as events:
        monitor.send(*lost)
        monitor.send(Event("/a"))
        async with asyncio.timeout(10):
            assert await events.changed() is None
            monitor.send(Event("/b"))
            assert await events.changed() == {"/b"}


async def test_after_closing_nothing_is_read_any_more() -> None:
    monitor = FakeMonitor()
    with listening(monitor):
        pass
    assert asyncio.get_running_loop().remove_reader(monitor.fileno()) is False


async def test_without_pyudev_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "pyudev":
            raise ImportError("No module named 'pyudev'")
        return genuine(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(HandlerLost, match=r"pip install 'ankaios\[udev\]'"):
        PyudevTree(frozenset())


async def test_sockets_that_cannot_be_opened_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    pyudev = pytest.importorskip("pyudev", reason="needs the Python package pyudev and libudev")

    def refuse(context: Any, source: str) -> None:
        raise OSError("Could not create udev monitor")

    monkeypatch.setattr(pyudev.Monitor, "from_netlink", refuse)
    with pytest.raises(HandlerLost, match="cannot listen for udev events: Could not create"):
        PyudevTree(frozenset())
