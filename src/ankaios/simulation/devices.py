"""Simulated devices of a node: the real device manager with a discovery handler that a simulation controls.

Input: devices that appear and vanish. Output: what the real discovery, ledger and claims make of them. Device plugins
of other programs and the registration of handlers need sockets of the machine and are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from pathlib import Path

from ankaios.agent.devices import AgentDevices
from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.discovery.registry import BUILT_IN, HandlerRegistry
from ankaios.devices.host import DeviceHost

# The built-in handlers by name, and whether a device that several nodes see is the same device.
_IS_SHARED = {name: make().shared for name, make in BUILT_IN.items()}


class SimulatedHandler:
    """The devices that a node sees, by handler name and device id. Outlives the agent."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._devices: dict[tuple[str, str], Mapping[str, str]] = {}
        self._changed = asyncio.Event()

    def plug(self, handler: str, device: str, properties: Mapping[str, str] | None = None) -> None:
        self._devices[handler, device] = properties or {}
        self._notify()

    def plugged(self, handler: str) -> list[str]:
        """The devices that the handler finds."""
        return [device for name, device in self._devices if name == handler]

    def unplug(self, handler: str, device: str) -> None:
        self._devices.pop((handler, device), None)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def lists(self, handler: str) -> AsyncGenerator[Devices, None]:
        reported: Devices | None = None
        while True:
            changed = self._changed
            found = tuple(
                DiscoveredDevice(id=device, properties=properties)
                for (name, device), properties in sorted(self._devices.items())
                if name == handler
            )
            if found != reported:
                reported = found
                yield found
            await changed.wait()


class _Discovery:
    """A discovery handler for the registry, under the name of a built-in one."""

    def __init__(self, handler: SimulatedHandler, name: str) -> None:
        self.name = name
        self.shared = _IS_SHARED[name]
        self._handler = handler

    def discover(self, details: str, properties: Mapping[str, bytes | None]) -> AsyncGenerator[Devices, None]:
        return self._handler.lists(self.name)


class SimulatedDevices(AgentDevices):
    """The devices of an agent, without sockets."""

    def __init__(self, agent: str, folder: Path, handler: SimulatedHandler) -> None:
        super().__init__(agent, folder)
        self._handler = handler

    async def _serve(self, host: DeviceHost) -> None:
        await self._needed.wait()
        registry = HandlerRegistry({name: partial(_Discovery, self._handler, name) for name in BUILT_IN})
        manager = _ManagerWithoutSockets(self._agent, self._folder, host, registry)
        manager.restore()
        await self._run_manager(manager, host)


class _ManagerWithoutSockets(DeviceManager):
    async def _serve_plugins(self) -> None:
        await asyncio.Event().wait()

    async def _serve_handlers(self) -> None:
        await asyncio.Event().wait()
