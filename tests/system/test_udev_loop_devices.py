"""The udev handler and real kernel devices: loop devices that appear and vanish.

Needs root, `losetup` and a free loop device; skipped with the reason where they are missing.
"""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from ankaios.common.device_grant import DeviceNode
from ankaios.devices.core.discovered_device import Devices
from ankaios.devices.discovery.udev.handler import UdevHandler
from ankaios.devices.discovery.udev.tree import PyudevTree
from tests.support.loop_devices import attached, needs_loop_devices
from tests.support.loop_devices import udev_details as rule

pyudev = pytest.importorskip("pyudev", reason="needs the Python package pyudev and libudev")

pytestmark = needs_loop_devices


async def test_an_attached_loop_device_appears_and_a_detached_one_vanishes(tmp_path: Path) -> None:
    image = tmp_path / "image"
    received: list[Devices] = []
    async with asyncio.timeout(30), aclosing(UdevHandler().discover(rule(image) + "permissions: r", {})) as lists:
        received.append(await anext(lists))
        with attached(image) as node:
            received.append(await anext(lists))
        received.append(await anext(lists))
    before, (device,), after = received
    assert before == after == ()
    assert device.id == f"/devices/virtual/block/{Path(node).name}"
    assert device.properties == {"UDEV_DEVPATH": device.id, "UDEV_DEVNODE": node}
    assert device.device_specs == (DeviceNode(node, node, "r"),)


async def test_an_existing_device_is_in_the_first_list(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with attached(image) as node:
        async with asyncio.timeout(30), aclosing(UdevHandler().discover(rule(image), {})) as lists:
            (device,) = await anext(lists)
    assert device.properties["UDEV_DEVNODE"] == node


async def test_two_configurations_receive_the_same_events(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    async with (
        asyncio.timeout(30),
        aclosing(UdevHandler().discover(rule(one), {})) as ones,
        aclosing(UdevHandler().discover(rule(two), {})) as twos,
    ):
        assert [await anext(ones), await anext(twos)] == [(), ()]
        with attached(two) as second, attached(one) as first:
            assert [device.properties["UDEV_DEVNODE"] for device in await anext(ones)] == [first]
            assert [device.properties["UDEV_DEVNODE"] for device in await anext(twos)] == [second]


async def test_only_the_device_named_by_an_event_is_read(tmp_path: Path) -> None:
    tree = PyudevTree(frozenset({"size"}))
    try:
        with attached(tmp_path / "image") as node:
            async with asyncio.timeout(30):
                changed = await tree.changed()
            path = f"/devices/virtual/block/{Path(node).name}"
            assert changed is not None and path in changed
            (device,) = tree.subtree(path)
            assert (device.kernel, device.subsystem, device.devnode) == (Path(node).name, "block", node)
            assert device.attributes == {"size": "2048"}
            assert device.properties["DEVTYPE"] == "disk"
            assert list(tree.subtree("/devices/virtual/block/none")) == []
    finally:
        tree.close()


async def test_parents_of_a_device_and_its_children_are_found() -> None:
    tree = PyudevTree(frozenset())
    try:
        devices = {device.devpath: device for device in tree.scan()}
    finally:
        tree.close()
    nested = [device for device in devices.values() if device.parent is not None]
    assert devices
    for device in nested:
        assert device.parent is not None
        assert device.devpath.startswith(device.parent.devpath + "/")
