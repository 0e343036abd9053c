"""udev: devices of this machine, found in sysfs and followed through kernel events.

Input: rules of the configuration and the tree of devices. Output: the matching devices. After an event only the part of
the tree that it names is read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Protocol

from ankaios.devices.core.discovered_device import Devices
from ankaios.devices.discovery.base import Properties
from ankaios.devices.discovery.details import read_details
from ankaios.devices.discovery.udev.devices import UdevDetails, is_below, path_trees, read_options, to_devices
from ankaios.devices.discovery.udev.rules import UdevDevice, matches_any, parse_rules, wanted_attributes


class DeviceTree(Protocol):
    """The kernel's devices as plain data, and their changes."""

    def scan(self) -> Iterable[UdevDevice]:
        """All devices."""

    def subtree(self, devpath: str) -> Iterable[UdevDevice]:
        """The device at this path and all below it; nothing if it is gone."""

    async def changed(self) -> set[str] | None:
        """Wait for changes: the paths concerned, or None if everything has to be read again."""

    def close(self) -> None:
        """Close the event sockets."""


class UdevHandler:
    """Local devices: the same path on another node is another device."""

    name = "udev"
    shared = False

    def __init__(self, open_tree: Callable[[frozenset[str]], DeviceTree] | None = None) -> None:
        self._open_tree = open_tree or _open_real_tree

    async def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        given = read_details(self.name, details, UdevDetails)
        rules = parse_rules(given.udev_rules)
        options = read_options(given, properties)

        def select(devices: Iterable[UdevDevice]) -> dict[str, UdevDevice]:
            return {device.devpath: device for device in devices if matches_any(rules, device)}

        tree = self._open_tree(wanted_attributes(rules))
        try:
            # Drivers can delay an answer of sysfs, so it is read in a thread.
            matches = await asyncio.to_thread(lambda: select(tree.scan()))
            reported = to_devices(matches.values(), options)
            yield reported
            while True:
                matches = await _refreshed(matches, await tree.changed(), tree, select)
                if (devices := to_devices(matches.values(), options)) != reported:
                    reported = devices
                    yield reported
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
    """The matches after some paths changed. Children are read too, because rules can refer to parents."""
    if changed is None:
        return await asyncio.to_thread(lambda: select(tree.scan()))
    paths = [tree[0] for tree in path_trees(changed)]  # no part of the tree is read twice
    fresh = await asyncio.to_thread(lambda: [select(tree.subtree(path)) for path in paths])
    kept = {path: device for path, device in matches.items() if not any(is_below(path, top) for top in paths)}
    for part in fresh:
        kept |= part
    return kept
