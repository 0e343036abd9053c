"""The kernel's devices and events, through libudev.

Input: sysfs and two event sockets. Output: plain snapshots of devices, and the paths that changed. Owns the sockets.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ankaios.devices.discovery.base import HandlerLost
from ankaios.devices.discovery.udev.rules import UdevDevice

QUIET_SECONDS = 0.002
LONGEST_BURST_SECONDS = 0.02
MAX_CHANGED = 1000
EVENT_BUFFER = 1024 * 1024

log = logging.getLogger(__name__)


class UdevEvents:
    """Collects the paths in events until `changed` is called."""

    def __init__(self, monitors: Sequence[Any]) -> None:
        self._monitors = monitors
        self._paths: set[str] | None = set()
        self._woken = asyncio.Event()
        for monitor in monitors:
            asyncio.get_running_loop().add_reader(monitor.fileno(), self._receive, monitor)

    def close(self) -> None:
        for monitor in self._monitors:
            asyncio.get_running_loop().remove_reader(monitor.fileno())
        self._monitors = ()

    async def changed(self) -> set[str] | None:
        """Wait for events: the paths they name, or None if some were lost."""
        await self._woken.wait()
        await self._burst()
        paths, self._paths = self._paths, set()
        return paths

    async def _burst(self) -> None:
        """Plugging in one device causes several events: combine them, but not for longer than a short time."""
        clock = asyncio.get_running_loop().time
        end = clock() + LONGEST_BURST_SECONDS
        while self._woken.is_set() and clock() < end:
            self._woken.clear()
            await asyncio.sleep(QUIET_SECONDS)
        self._woken.clear()

    def _receive(self, monitor: Any) -> None:
        try:
            while (event := monitor.poll(timeout=0)) is not None:
                self._note(event.device_path)
                if event.action == "move":
                    self._note(event.properties.get("DEVPATH_OLD"))
        except OSError as error:  # the buffer of the socket was full
            log.warning("udev events were lost (%s): reading all devices again", error)
            self._paths = None
        self._woken.set()

    def _note(self, devpath: str | None) -> None:
        if self._paths is not None and devpath:
            self._paths.add(devpath)
            if len(self._paths) > MAX_CHANGED:
                self._paths = None


class PyudevTree:
    """The tree of this machine. Only the wanted attributes are read, because reading one can be slow."""

    def __init__(self, attributes: frozenset[str]) -> None:
        self._attributes = attributes
        try:
            import pyudev  # only a node with udev configurations needs it

            self._pyudev = pyudev
            # libudev objects belong to one thread: scans run in another one with their own context.
            self._context = pyudev.Context()
            self._events = UdevEvents(_open_monitors(pyudev))
        except ImportError as error:  # pyudev raises it too if the library is missing
            raise HandlerLost(
                f"cannot look for udev devices: {error}; install the Python package with: pip install 'ankaios[udev]', "
                "and the library with: apt-get install libudev1"
            ) from error
        except OSError as error:
            raise HandlerLost(f"cannot listen for udev events: {error}") from error

    def close(self) -> None:
        self._events.close()

    async def changed(self) -> set[str] | None:
        return await self._events.changed()

    def scan(self) -> Iterator[UdevDevice]:
        return self._snapshots(self._context.list_devices())

    def subtree(self, devpath: str) -> Iterator[UdevDevice]:
        try:
            top = self._pyudev.Devices.from_sys_path(self._context, "/sys" + devpath)
        except self._pyudev.DeviceNotFoundError:
            return iter(())
        return self._snapshots(self._context.list_devices().match_parent(top))

    def _snapshots(self, devices: Iterable[Any]) -> Iterator[UdevDevice]:
        known: dict[str, UdevDevice] = {}
        return (self._snapshot(device, known) for device in devices)

    def _snapshot(self, device: Any, known: dict[str, UdevDevice]) -> UdevDevice:
        if (seen := known.get(device.device_path)) is not None:
            return seen
        parent = device.parent
        snapshot = known[device.device_path] = UdevDevice(
            devpath=device.device_path,
            kernel=device.sys_name,
            subsystem=device.subsystem,
            driver=device.driver,
            devnode=device.device_node,
            iommu_group=_link_name(device.sys_path + "/iommu_group") if device.subsystem == "pci" else None,
            properties=dict(device.properties),
            attributes=self._read_attributes(device),
            parent=None if parent is None else self._snapshot(parent, known),
        )
        return snapshot

    def _read_attributes(self, device: Any) -> dict[str, str]:
        read = ((name, device.attributes.get(name)) for name in self._attributes)
        return {name: value.decode(errors="replace") for name, value in read if value is not None}


def _open_monitors(pyudev: Any) -> list[Any]:
    """The kernel sends events also if no udevd runs.

    If it runs, its later events mean that the properties it adds (ENV, TAG) can be read.
    """
    context = pyudev.Context()
    monitors = [pyudev.Monitor.from_netlink(context, source=source) for source in ("kernel", "udev")]
    for monitor in monitors:
        try:
            monitor.set_receive_buffer_size(EVENT_BUFFER)
        except OSError:
            log.debug("keeping the default size of the uevent buffer: CAP_NET_ADMIN is missing")
        monitor.start()
    return monitors


def _link_name(path: str) -> str | None:
    try:
        return os.path.basename(os.readlink(path))  # noqa: PTH115, PTH119 - called for each PCI device of each scan
    except OSError:
        return None
