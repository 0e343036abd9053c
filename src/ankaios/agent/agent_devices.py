"""The devices of this agent, loaded when they are first needed: most agents have none.

Comes in: workloads that ask for devices, messages of the server. Goes out: grants for the runtime. They are needed as
soon as a device is to be discovered, a workload asks for one, a plugin registers, or an earlier agent gave some out.
Nobody waits here until they are loaded: what workloads say before is kept, and they are woken then.
"""

import asyncio
import logging
import socket
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ankaios.agent.device_joint import DeviceHost, Waiting
from ankaios.agent.tree_removal import remove_tree
from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Unavailable
from ankaios.common.pb.grpc_api_pb2 import DeviceReport, DeviceUpdate, SlotResponse, ToServer
from ankaios.common.supervision import Supervisor
from ankaios.common.workload import InstanceName, WorkloadSpec

if TYPE_CHECKING:
    from ankaios.devices.device_service import DeviceService, Host

CLAIMS = "claims"
NOT_AVAILABLE = "the devices of this agent are not available"
BEING_LOADED = "the devices of this agent are being loaded"

log = logging.getLogger(__name__)


class AgentDevices:
    """`folder` keeps what has to outlive the agent."""

    offers_devices = True

    def __init__(self, agent: str, folder: Path, kubelet_dir: Path | None = None) -> None:
        self._agent = agent
        self._folder = folder
        self._kubelet_dir = kubelet_dir
        self._needed = asyncio.Event()
        if kubelet_dir is not None or any((folder / CLAIMS).glob("*.json")):
            self._needed.set()
        self._ended = False
        self._fault = f"{NOT_AVAILABLE}, see its log"
        self._outage = ""
        self._waiting: set[InstanceName] = set()
        # These two, before it is loaded.
        self._adopted: dict[InstanceName, WorkloadSpec] = {}
        self._released: set[InstanceName] = set()
        self._service: DeviceService | None = None
        self._host: DeviceHost | None = None
        self._session = False
        self._last_update: DeviceUpdate | None = None

    async def run(self, host: DeviceHost) -> None:
        """If this ends, workloads that ask for devices get the reason. It may be run again."""
        self._host = host
        if self._session:
            self.connected()
        try:
            await self._serve(host)
            self._ended = True
        except (Unavailable, OSError) as fault:
            log.error("devices are not available: %s", fault)
            self._fault = f"{NOT_AVAILABLE}: {fault}"
            self._ended = True
        finally:
            if not self._ended:  # the next run makes its own
                self._service = None
            self._wake_all(host)

    def broken(self, why: str) -> None:
        """An internal error ended it; until it is run again, workloads that wait report this reason."""
        self._outage = f"{NOT_AVAILABLE}: {why}"
        if self._host is not None:
            self._wake_all(self._host)

    async def _serve(self, host: DeviceHost) -> None:
        from ankaios.devices.plugin_folder import open_plugin_folder, short_folder  # when the rest is under way

        wanted = self._folder / "plugins"
        plugins = short_folder(wanted)
        listener = open_plugin_folder(plugins)
        try:
            await self._until_needed(listener)
            await self._run_service(await asyncio.to_thread(self._load, plugins, listener, host), host)
        finally:
            if plugins != wanted:
                remove_tree(plugins)

    async def _until_needed(self, listener: socket.socket) -> None:
        """A plugin that knocks is let in by what is loaded then."""
        loop = asyncio.get_running_loop()
        loop.add_reader(listener, self._needed.set)
        try:
            await self._needed.wait()
        except BaseException:
            listener.close()
            raise
        finally:
            loop.remove_reader(listener)

    def _load(self, plugins: Path, listener: socket.socket, host: DeviceHost) -> "DeviceService":
        """In a thread: it imports and reads a lot."""
        from ankaios.devices.device_service import DeviceService

        place = (plugins, listener)
        try:
            service = DeviceService(
                self._agent, self._folder, _host(host), kubelet_dir=self._kubelet_dir, plugin_folder=place
            )
            service.restore()
        except BaseException:
            listener.close()
            raise
        return service

    async def _run_service(self, service: "DeviceService", host: DeviceHost) -> None:
        """First what was said before, in the order in which it counts."""
        for name in self._released:
            service.release(str(name))
        if self._last_update is not None:
            service.handle(self._last_update)
        if self._session:
            service.connected()
        self._service, self._outage = service, ""
        self._released.clear()
        adopted, self._adopted = self._adopted, {}
        self._wake_all(host)
        async with Supervisor() as tasks:
            tasks.keep_running("the device service", service.run)
            for spec in adopted.values():
                tasks.run_once(f"the adoption of the devices of '{spec.instance_name}'", partial(self.adopt, spec))

    def _wake_all(self, host: DeviceHost) -> None:
        waiting, self._waiting = self._waiting, set()
        for name in waiting:
            host.wake(name)

    # --- the server ---

    def connected(self) -> None:
        """What is not loaded holds nothing; what is being loaded speaks for itself when it knows what it holds."""
        self._session = True
        if self._service is not None:
            self._service.connected()
        elif self._host is not None and not self._needed.is_set():
            self._host.send(ToServer(deviceReport=DeviceReport(complete=True)))

    def disconnected(self) -> None:
        self._session = False
        if self._service is not None:
            self._service.disconnected()

    def handle(self, message: DeviceUpdate | SlotResponse) -> None:
        if self._service is not None:
            self._service.handle(message)
        if isinstance(message, DeviceUpdate) and message.complete:
            self._last_update = message
            if message.configurations.deviceConfigurations:
                self._needed.set()

    # --- workloads ---

    async def acquire(self, spec: WorkloadSpec) -> tuple[DeviceGrant, ...] | Waiting:
        name = spec.instance_name
        if self._ended:
            return Waiting(self._fault)
        self._waiting.add(name)
        if self._service is None:
            self._needed.set()
            return Waiting(self._outage or BEING_LOADED)
        answer = await self._service.acquire(str(name), spec.resources)
        if not isinstance(answer, tuple):
            return Waiting(answer.reason)
        self._waiting.discard(name)
        return answer

    async def adopt(self, spec: WorkloadSpec) -> None:
        if self._service is not None and not self._ended:
            await self._service.adopt(str(spec.instance_name), spec.resources)
        elif not self._ended:
            self._needed.set()
            self._adopted[spec.instance_name] = spec

    async def release(self, name: InstanceName) -> None:
        self._waiting.discard(name)
        if self._service is not None:
            self._service.release(str(name))
        elif self._needed.is_set() and not self._ended:
            self._adopted.pop(name, None)
            self._released.add(name)


def _host(host: DeviceHost) -> "Host":
    """The same with names as texts, as the device service knows workloads."""
    from ankaios.devices.device_service import Host

    def wake(owner: str) -> None:
        if name := InstanceName.parse(owner):
            host.wake(name)

    def restart(owner: str) -> None:
        if name := InstanceName.parse(owner):
            host.restart(name)

    def living() -> Collection[str] | None:
        names = host.living()
        return None if names is None else set(map(str, names))

    return Host(host.send, wake, restart, living)
