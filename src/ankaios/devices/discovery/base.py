"""What the device agent asks of a discovery handler, and the plain data that comes back.

In: the details and properties of one configuration. Out: the complete list of devices, again and again. A handler owns
no list of its own beyond the last one it told; whether a device is new or gone is decided by who listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Protocol

from msgspec import Struct, field

from ankaios.common.device_grant import DeviceMount, DeviceNode
from ankaios.common.errors import Rejected, Unavailable


class InvalidDetails(Rejected):
    """The details of the configuration cannot work: tell its author, do not try again until they change."""


class HandlerLost(Unavailable):
    """Looking is impossible at the moment. Says nothing about the devices: keep the last list and try again later."""


class DiscoveredDevice(Struct, frozen=True):
    """One device as a handler sees it; `id` is its identity for as long as it exists."""

    id: str
    properties: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[DeviceMount, ...] = ()
    device_specs: tuple[DeviceNode, ...] = ()


Devices = tuple[DiscoveredDevice, ...]
Properties = Mapping[str, bytes | None]


class DiscoveryHandler(Protocol):
    """All the device agent asks of a handler, be it built in or in another process.

    `discover` runs until it is closed (use `contextlib.aclosing`). Every item is the complete current list. The first
    list is always told, even an empty one: "nothing is there" must be told from "nobody has looked yet". Later lists
    come only on change. It ends only by raising `InvalidDetails` or `HandlerLost`.
    """

    @property
    def name(self) -> str:
        """The name used in configurations."""

    @property
    def shared(self) -> bool:
        """Whether a device that is seen from several nodes is one and the same device."""

    def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        """Look for devices until closed."""


async def tell_changes(look: Callable[[], Awaitable[Devices]], interval: float) -> AsyncGenerator[Devices, None]:
    """Look at once and then at an interval; tell the first list and every list that differs from the one before."""
    told: Devices | None = None
    while True:
        found = await look()
        if found != told:
            told = found
            yield found
        await asyncio.sleep(interval)


def in_order(devices: Mapping[str, DiscoveredDevice]) -> Devices:
    """Lists are compared and shown, so their order must not depend on who answered first."""
    return tuple(devices[key] for key in sorted(devices))
