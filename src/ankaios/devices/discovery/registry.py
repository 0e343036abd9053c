"""Which discovery handlers exist on this node.

In: registrations that come and go. Out: the handlers of a name, and news when that changed. Owns the built-in handlers,
which are made when a configuration first names them: a node without cameras need not load what finds cameras.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from ankaios.devices.discovery.base import DiscoveryHandler


def _debug_echo() -> DiscoveryHandler:
    from ankaios.devices.discovery.debug_echo import DebugEchoHandler

    return DebugEchoHandler()


def _udev() -> DiscoveryHandler:
    from ankaios.devices.discovery.udev.handler import UdevHandler

    return UdevHandler()


def _onvif() -> DiscoveryHandler:
    from ankaios.devices.discovery.onvif.handler import OnvifHandler

    return OnvifHandler()


def _opcua() -> DiscoveryHandler:
    from ankaios.devices.discovery.opcua.handler import OpcuaHandler

    return OpcuaHandler()


BUILT_IN: Mapping[str, Callable[[], DiscoveryHandler]] = {
    "debugEcho": _debug_echo,
    "udev": _udev,
    "onvif": _onvif,
    "opcua": _opcua,
}


class HandlerRegistry:
    """Several handlers may share a name; their devices are then joined by who asks them."""

    def __init__(self, built_in: Mapping[str, Callable[[], DiscoveryHandler]] = BUILT_IN) -> None:
        self._built_in = built_in
        self._made: dict[str, DiscoveryHandler] = {}
        self._registered: list[DiscoveryHandler] = []
        self._version = 0
        self._changed = asyncio.Event()

    @property
    def version(self) -> int:
        """Grows with every change; read it before `get` and give it to `wait_changed`."""
        return self._version

    def names(self) -> list[str]:
        return sorted({*self._built_in, *(handler.name for handler in self._registered)})

    def get(self, name: str) -> list[DiscoveryHandler]:
        """All handlers of that name. The same object means the same handler: a running discovery need not restart."""
        registered = [handler for handler in self._registered if handler.name == name]
        if name in self._built_in:
            if name not in self._made:
                self._made[name] = self._built_in[name]()
            return [self._made[name], *registered]
        return registered

    def add(self, handler: DiscoveryHandler) -> None:
        self._registered.append(handler)
        self.announce()

    def remove(self, handler: DiscoveryHandler) -> None:
        self._registered.remove(handler)
        self.announce()

    def announce(self) -> None:
        """Wake all who wait: handlers changed, or one of them says it is back and should be asked again now."""
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_changed(self, since: int) -> int:
        """Wait until something changed after version `since`; tell the version that is current then."""
        while self._version == since:
            await self._changed.wait()
        return self._version
