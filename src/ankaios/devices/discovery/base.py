"""The discovery handler protocol, its errors, and what all handlers share.

Input of a handler: the details and properties of one device configuration. Output: complete lists of devices. A handler
keeps only the last list it reported. Whether a device is new or gone is decided by the receiver of the lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Protocol

from ankaios.common.errors import Rejected, Unavailable
from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice


class InvalidDetails(Rejected):
    """The details of the configuration cannot work: report it, and retry only when they change."""


class HandlerLost(Unavailable):
    """Discovery is not possible at the moment. Keep the last list and retry later."""


Properties = Mapping[str, bytes | None]


class DiscoveryHandler(Protocol):
    """A source of devices, built in or in another process.

    `discover` runs until it is closed (use `contextlib.aclosing`). Each item is the complete current list. The first
    list is always reported, even if it is empty; later lists are reported only if they differ from the previous one.
    It ends only by raising `InvalidDetails` or `HandlerLost`.
    """

    @property
    def name(self) -> str:
        """The name used in configurations."""

    @property
    def shared(self) -> bool:
        """Whether a device that several nodes see is the same device."""

    def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        """Report devices until closed."""


async def poll(look: Callable[[], Awaitable[Devices]], interval: float) -> AsyncGenerator[Devices, None]:
    """Call `look` at an interval; yield the first list and each list that differs from the previous one."""
    reported: Devices | None = None
    while True:
        found = await look()
        if found != reported:
            reported = found
            yield found
        await asyncio.sleep(interval)


def in_order(devices: Mapping[str, DiscoveredDevice]) -> Devices:
    """Lists are compared and displayed, so their order must not depend on the order of answers."""
    return tuple(devices[key] for key in sorted(devices))
