"""Simulated devices of a node: the real device manager with a discovery handler that a simulation controls.

Input: devices that appear and vanish. Output: what the real discovery, ledger and claims make of them. Device plugins
of other programs and the registration of handlers need sockets of the machine and are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from ankaios.agent.devices import AgentDevices
from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.discovery.registry import HandlerRegistry
from ankaios.devices.host import DeviceHost

HANDLER_NAME = "simulated"
SHARED_HANDLER_NAME = "simulated-shared"


class SimulatedHandler:
    """The devices that a node sees, by device id. Outlives the agent."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.devices: dict[str, Mapping[str, str]] = {}
        self._changed = asyncio.Event()

    def plug(self, device: str, properties: Mapping[str, str] | None = None) -> None:
        self.devices[device] = properties or {}
        self._notify()

    def unplug(self, device: str) -> None:
        self.devices.pop(device, None)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def lists(self) -> AsyncGenerator[Devices, None]:
        reported: Devices | None = None
        while True:
            changed = self._changed
            found = tuple(DiscoveredDevice(id=name, properties=self.devices[name]) for name in sorted(self.devices))
            if found != reported:
                reported = found
                yield found
            await changed.wait()


class _Discovery:
    """A discovery handler for the registry: local or shared devices."""

    def __init__(self, handler: SimulatedHandler, *, shared: bool) -> None:
        self.name = SHARED_HANDLER_NAME if shared else HANDLER_NAME
        self.shared = shared
        self._handler = handler

    def discover(self, details: str, properties: Mapping[str, bytes | None]) -> AsyncGenerator[Devices, None]:
        return self._handler.lists()


class SimulatedDevices(AgentDevices):
    """The devices of an agent, without sockets."""

    def __init__(self, agent: str, folder: Path, handler: SimulatedHandler) -> None:
        super().__init__(agent, folder)
        self._handler = handler

    async def _serve(self, host: DeviceHost) -> None:
        await self._needed.wait()
        registry = HandlerRegistry(
            {
                HANDLER_NAME: lambda: _Discovery(self._handler, shared=False),
                SHARED_HANDLER_NAME: lambda: _Discovery(self._handler, shared=True),
            }
        )
        manager = _ManagerWithoutSockets(self._agent, self._folder, host, registry)
        manager.restore()
        await self._run_manager(manager, host)


class _ManagerWithoutSockets(DeviceManager):
    async def _serve_plugins(self) -> None:
        await asyncio.Event().wait()

    async def _serve_handlers(self) -> None:
        await asyncio.Event().wait()
