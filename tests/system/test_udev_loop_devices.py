"""The udev handler and real kernel devices: loop devices that appear and vanish.

Needs root, `losetup` and a free loop device; skipped with the reason where they are missing.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest

from ankaios.devices.discovery.base import DeviceNode, Devices
from ankaios.devices.discovery.udev import UdevHandler
from ankaios.devices.discovery.udev_tree import PyudevTree

pyudev = pytest.importorskip("pyudev", reason="needs the Python package pyudev and libudev")

LOSETUP = shutil.which("losetup") or "/usr/sbin/losetup"


def losetup(*arguments: str) -> str:
    return subprocess.run([LOSETUP, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def missing() -> str | None:
    """What this machine lacks for attaching loop devices."""
    if os.geteuid() != 0:
        return "needs root to attach loop devices"
    if not Path(LOSETUP).exists():
        return "needs the program losetup"
    try:
        losetup("--find")
    except subprocess.CalledProcessError as error:
        return f"needs a free loop device: {error.stderr.strip()}"
    return None


pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@contextmanager
def attached(image: Path) -> Iterator[str]:
    """Attach the file to a loop device; tells its node."""
    image.touch()
    os.truncate(image, 1024 * 1024)
    node = losetup("--find", "--show", str(image))
    try:
        yield node
    finally:
        losetup("--detach", node)


def rule(image: Path) -> str:
    return f"""udevRules: ['SUBSYSTEM=="block", KERNEL=="loop*", ATTR{{loop/backing_file}}=="{image}"']\n"""


async def test_an_attached_loop_device_appears_and_a_detached_one_vanishes(tmp_path: Path) -> None:
    image = tmp_path / "image"
    heard: list[Devices] = []
    async with asyncio.timeout(30), aclosing(UdevHandler().discover(rule(image) + "permissions: r", {})) as lists:
        heard.append(await anext(lists))
        with attached(image) as node:
            heard.append(await anext(lists))
        heard.append(await anext(lists))
    before, (device,), after = heard
    assert before == after == ()
    assert device.id == f"/devices/virtual/block/{Path(node).name}"
    assert device.properties == {"UDEV_DEVPATH": device.id, "UDEV_DEVNODE": node}
    assert device.device_specs == (DeviceNode(node, node, "r"),)


async def test_a_device_that_is_there_from_the_beginning_is_in_the_first_list(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with attached(image) as node:
        async with asyncio.timeout(30), aclosing(UdevHandler().discover(rule(image), {})) as lists:
            (device,) = await anext(lists)
    assert device.properties["UDEV_DEVNODE"] == node


async def test_two_configurations_follow_the_same_events(tmp_path: Path) -> None:
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


async def test_the_tree_reads_only_the_part_an_event_names(tmp_path: Path) -> None:
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


async def test_a_device_and_its_children_know_their_parents() -> None:
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
