"""The udev handler with a tree in memory: only devices that an event names are read again."""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

import pytest

from ankaios.devices.discovery.base import InvalidDetails
from ankaios.devices.discovery.udev import tree as udev_tree
from ankaios.devices.discovery.udev.devices import is_below, path_trees
from ankaios.devices.discovery.udev.handler import UdevHandler
from ankaios.devices.discovery.udev.rules import UdevDevice

RULE = """udevRules: ['KERNEL=="video*"']"""


def video(number: int, **more: Any) -> UdevDevice:
    return UdevDevice(
        f"/devices/usb1/1-{number}/video{number}", f"video{number}", devnode=f"/dev/video{number}", **more
    )


class FakeTree:
    """Devices that a test adds and removes, and their events."""

    def __init__(self, *devices: UdevDevice) -> None:
        self.devices = {device.devpath: device for device in devices}
        self.events: asyncio.Queue[set[str] | None] = asyncio.Queue()
        self.read: list[str] = []
        self.closings = 0
        self.attributes: frozenset[str] = frozenset()

    def open(self, attributes: frozenset[str]) -> "FakeTree":
        self.attributes = attributes
        return self

    def scan(self) -> Iterable[UdevDevice]:
        self.read.append("all")
        return list(self.devices.values())

    def subtree(self, devpath: str) -> Iterable[UdevDevice]:
        self.read.append(devpath)
        return [device for path, device in self.devices.items() if is_below(path, devpath)]

    async def changed(self) -> set[str] | None:
        return await self.events.get()

    def close(self) -> None:
        self.closings += 1

    def put(self, device: UdevDevice) -> None:
        self.devices[device.devpath] = device
        self.events.put_nowait({device.devpath})

    def take(self, devpath: str) -> None:
        self.devices = {path: one for path, one in self.devices.items() if not is_below(path, devpath)}
        self.events.put_nowait({devpath})


def nodes(devices: Iterable[Any]) -> list[str]:
    return [device.properties["UDEV_DEVNODE"] for device in devices]


async def test_devices_are_added_and_removed_by_events_and_the_tree_is_closed_at_the_end() -> None:
    tree = FakeTree(video(0))
    async with aclosing(UdevHandler(tree.open).discover(RULE, {})) as lists:
        assert nodes(await anext(lists)) == ["/dev/video0"]
        tree.put(video(1))
        assert nodes(await anext(lists)) == ["/dev/video0", "/dev/video1"]
        tree.take("/devices/usb1/1-0")
        assert nodes(await anext(lists)) == ["/dev/video1"]
        assert tree.closings == 0
    assert tree.closings == 1
    assert tree.read == ["all", video(1).devpath, "/devices/usb1/1-0"]


async def test_an_empty_first_list_is_reported_and_events_of_other_devices_are_not() -> None:
    tree = FakeTree()
    async with aclosing(UdevHandler(tree.open).discover(RULE, {})) as lists:
        assert await anext(lists) == ()
        tree.put(UdevDevice("/devices/other", "other"))
        tree.put(video(1))
        assert nodes(await anext(lists)) == ["/dev/video1"]


async def test_a_changed_parent_matches_its_children_again() -> None:
    child = video(0, parent=UdevDevice("/devices/usb1/1-0", "1-0", driver=None))
    tree = FakeTree(child)
    async with aclosing(
        UdevHandler(tree.open).discover('udevRules: [\'KERNEL=="video0", DRIVERS=="uvc"\']', {})
    ) as lists:
        assert await anext(lists) == ()
        bound = UdevDevice("/devices/usb1/1-0", "1-0", driver="uvc")
        tree.devices = {child.devpath: video(0, parent=bound), bound.devpath: bound}
        tree.events.put_nowait({bound.devpath})
        assert nodes(await anext(lists)) == ["/dev/video0"]


async def test_lost_events_cause_a_complete_scan() -> None:
    tree = FakeTree(video(0))
    async with aclosing(UdevHandler(tree.open).discover(RULE, {})) as lists:
        await anext(lists)
        tree.devices = {video(5).devpath: video(5)}
        tree.events.put_nowait(None)
        assert nodes(await anext(lists)) == ["/dev/video5"]
        assert tree.read == ["all", "all"]


async def test_invalid_rules_are_rejected_before_the_tree_is_opened() -> None:
    opened: list[frozenset[str]] = []

    def open_tree(attributes: frozenset[str]) -> FakeTree:
        opened.append(attributes)
        return FakeTree()

    for details in ("", "udevRules: ['GOTO=\"end\"']"):
        with pytest.raises(InvalidDetails):
            await anext(UdevHandler(open_tree).discover(details, {}))
    assert opened == []


async def test_the_tree_receives_the_attributes_to_read() -> None:
    tree = FakeTree()
    async with aclosing(UdevHandler(tree.open).discover("udevRules: ['ATTR{size}==\"0\"']", {})) as lists:
        await anext(lists)
    assert tree.attributes == {"size"}


def test_paths_below_others_are_not_read_twice() -> None:
    trees = path_trees({"/a/b", "/a", "/a-b", "/c/d", "/a/b/c"})
    assert trees == [["/a", "/a/b", "/a/b/c"], ["/a-b"], ["/c/d"]]


async def test_without_arguments_the_tree_of_this_machine_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = FakeTree(video(0))
    monkeypatch.setattr(udev_tree, "PyudevTree", tree.open)
    async with aclosing(UdevHandler().discover(RULE, {})) as lists:
        assert nodes(await anext(lists)) == ["/dev/video0"]
