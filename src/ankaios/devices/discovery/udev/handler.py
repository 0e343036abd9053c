"""udev: devices of this machine, found in sysfs and followed through kernel events.

In: rules of the configuration and the tree of devices. Out: the matching devices, changed only when an event tells of a
change; then only the part of the tree the event names is looked at again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Protocol

from ankaios.devices.core.discovered_device import Devices
from ankaios.devices.discovery.base import Properties
from ankaios.devices.discovery.details import read_details
from ankaios.devices.discovery.udev.devices import read_options, to_devices
from ankaios.devices.discovery.udev.rules import UdevDevice, matches_any, parse_rules, wanted_attributes


class DeviceTree(Protocol):
    """The kernel's devices as plain data, and news about them."""

    def scan(self) -> Iterable[UdevDevice]:
        """All devices."""

    def subtree(self, devpath: str) -> Iterable[UdevDevice]:
        """The device at this path and all below it; nothing if it is gone."""

    async def changed(self) -> set[str] | None:
        """Wait for news: the paths concerned, or None if everything has to be looked at again."""

    def close(self) -> None:
        """Give back the event sockets."""


class UdevHandler:
    """Local devices: the same path on another node is another device."""

    name = "udev"
    shared = False

    def __init__(self, open_tree: Callable[[frozenset[str]], DeviceTree] | None = None) -> None:
        self._open_tree = open_tree or _open_real_tree

    async def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        given = read_details(self.name, details)
        rules = parse_rules(given.strings("udevRules"))
        options = read_options(given, properties)

        def select(devices: Iterable[UdevDevice]) -> dict[str, UdevDevice]:
            return {device.devpath: device for device in devices if matches_any(rules, device)}

        tree = self._open_tree(wanted_attributes(rules))
        try:
            # sysfs answers when the driver likes to, so it is asked in a thread.
            matches = await asyncio.to_thread(lambda: select(tree.scan()))
            told = to_devices(matches.values(), options)
            yield told
            while True:
                matches = await _refreshed(matches, await tree.changed(), tree, select)
                if (devices := to_devices(matches.values(), options)) != told:
                    told = devices
                    yield told
        finally:
            tree.close()


def _open_real_tree(attributes: frozenset[str]) -> DeviceTree:
    from ankaios.devices.discovery.udev.tree import PyudevTree

    return PyudevTree(attributes)


async def _refreshed(
    matches: dict[str, UdevDevice],
    changed: set[str] | None,
    tree: DeviceTree,
    select: Callable[[Iterable[UdevDevice]], dict[str, UdevDevice]],
) -> dict[str, UdevDevice]:
    """The matches after some paths changed. Children are looked at too: rules can ask about parents."""
    if changed is None:
        return await asyncio.to_thread(lambda: select(tree.scan()))
    paths = topmost(changed)
    fresh = await asyncio.to_thread(lambda: [select(tree.subtree(path)) for path in paths])
    kept = {path: device for path, device in matches.items() if not any(is_below(path, top) for top in paths)}
    for part in fresh:
        kept |= part
    return kept


def is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top + "/")


def topmost(paths: Iterable[str]) -> list[str]:
    """Leave out paths below others, so that no part of the tree is read twice."""
    tops: list[str] = []
    for path in sorted(paths, key=lambda one: one.split("/")):
        if not tops or not is_below(path, tops[-1]):
            tops.append(path)
    return tops
