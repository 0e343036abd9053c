"""debugEcho: makes devices out of descriptions, so that everything else can be tried without hardware.

Input: `descriptions` of the configuration, and a file that takes all of them offline. Output: one device for each.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator
from pathlib import Path

from msgspec import Struct

from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.discovery.base import Properties, in_order, poll
from ankaios.devices.discovery.details import read_details

AVAILABILITY_FILE = "/tmp/debug-echo-availability.txt"
AVAILABILITY_FILE_VARIABLE = "DEBUG_ECHO_AVAILABILITY_FILE"
SHARED_VARIABLE = "DEBUG_ECHO_INSTANCES_SHARED"
OFFLINE = b"OFFLINE"
POLL_SECONDS = 0.25
MAX_READ = 4096


class DebugEchoDetails(Struct, frozen=True):
    """The discovery details of a configuration."""

    descriptions: tuple[str, ...]


class DebugEchoHandler:
    """The devices are there unless the availability file contains OFFLINE."""

    name = "debugEcho"

    def __init__(self, shared: bool | None = None, availability_file: str | Path | None = None) -> None:
        self.shared = os.environ.get(SHARED_VARIABLE, "").lower() == "true" if shared is None else shared
        self._file = availability_file or os.environ.get(AVAILABILITY_FILE_VARIABLE) or AVAILABILITY_FILE

    def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        given = read_details(self.name, details, DebugEchoDetails)
        online = in_order({text: echo_device(text) for text in given.descriptions})

        async def look() -> Devices:
            return () if is_offline(self._file) else online

        # A look reads one small file: cheaper than a watch on a folder as busy as /tmp.
        return poll(look, POLL_SECONDS)


def echo_device(description: str) -> DiscoveredDevice:
    return DiscoveredDevice(id=description, properties={"DEBUG_ECHO_DESCRIPTION": description})


def is_offline(path: str | Path) -> bool:
    """Whether the file contains OFFLINE. In a folder that all users can write it may also be a pipe or a directory."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and OFFLINE in os.read(descriptor, MAX_READ)
    finally:
        os.close(descriptor)
