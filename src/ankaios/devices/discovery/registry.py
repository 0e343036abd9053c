"""The discovery handlers of this node.

Input: registrations that begin and end. Output: the handlers of a name, and a notification when they change. Owns the
built-in handlers, which are loaded when a configuration first names them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module

from ankaios.devices.discovery.base import DiscoveryHandler


def _load(module: str, name: str) -> DiscoveryHandler:
    handler: DiscoveryHandler = getattr(import_module(f"ankaios.devices.discovery.{module}"), name)()
    return handler


BUILT_IN: Mapping[str, Callable[[], DiscoveryHandler]] = {
    "debugEcho": partial(_load, "debug_echo", "DebugEchoHandler"),
    "udev": partial(_load, "udev.handler", "UdevHandler"),
    "onvif": partial(_load, "onvif.handler", "OnvifHandler"),
    "opcua": partial(_load, "opcua.handler", "OpcuaHandler"),
}


class HandlerRegistry:
    """Several handlers may have the same name; the receiver merges their devices."""

    def __init__(self, built_in: Mapping[str, Callable[[], DiscoveryHandler]] = BUILT_IN) -> None:
        self._built_in = built_in
        self._loaded: dict[str, DiscoveryHandler] = {}
        self._registered: list[DiscoveryHandler] = []
        self._version = 0
        self._changed = asyncio.Event()

    @property
    def version(self) -> int:
        """Grows with every change; read it before `get` and pass it to `wait_changed`."""
        return self._version

    def get(self, name: str) -> list[DiscoveryHandler]:
        """All handlers of that name. The same object means the same handler: a running discovery can continue."""
        registered = [handler for handler in self._registered if handler.name == name]
        if name in self._built_in:
            if name not in self._loaded:
                self._loaded[name] = self._built_in[name]()
            return [self._loaded[name], *registered]
        return registered

    def add(self, handler: DiscoveryHandler) -> None:
        self._registered.append(handler)
        self.announce()

    def remove(self, handler: DiscoveryHandler) -> None:
        self._registered.remove(handler)
        self.announce()

    def announce(self) -> None:
        """Wake all tasks that wait: handlers changed, or a handler has registered again and should be called now."""
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_changed(self, since: int) -> int:
        """Wait for a change after version `since`; return the version that is current then."""
        while self._version == since:
            await self._changed.wait()
        return self._version
