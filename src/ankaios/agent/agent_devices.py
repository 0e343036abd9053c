"""The devices of this agent, loaded when they are first needed: most agents have none.

Comes in: workloads that ask for devices, messages of the server. Goes out: grants for the runtime. They are needed as
soon as a device is to be discovered, a workload asks for one, a plugin registers, or an earlier agent gave some out.
"""

import asyncio
import logging
import shutil
import socket
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from ankaios.agent.device_joint import DeviceHost, Waiting
from ankaios.common.errors import Unavailable
from ankaios.common.pb.grpc_api_pb2 import DeviceReport, DeviceUpdate, SlotResponse, ToServer
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.devices.plugin_folder import open_plugin_folder, short_folder
from ankaios.runtimes.runtime_connector import DeviceGrant, DeviceMount, DeviceNode

if TYPE_CHECKING:
    from ankaios.devices.core.grants import Grant
    from ankaios.devices.device_service import DeviceService

CLAIMS = "claims"
NOT_AVAILABLE = "the devices of this agent are not available, see its log"

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
        self._loaded = asyncio.Event()  # or never will be
        self._ended = False
        self._fault = NOT_AVAILABLE
        self._service: DeviceService | None = None
        self._host: DeviceHost | None = None
        self._session = False
        self._last_update: DeviceUpdate | None = None

    async def run(self, host: DeviceHost) -> None:
        """If this ends, workloads that ask for devices wait and are told why; nobody waits for an answer."""
        self._host = host
        if self._session:
            self.connected()
        try:
            await self._serve(host)
        finally:
            self._ended = True
            self._loaded.set()

    async def _serve(self, host: DeviceHost) -> None:
        wanted = self._folder / "plugins"
        plugins = short_folder(wanted)
        try:
            listener = open_plugin_folder(plugins)
        except Unavailable as fault:
            log.error("devices are not available: %s", fault)
            self._fault = f"the devices of this agent are not available: {fault}"
            return
        try:
            await self._until_needed(listener)
            service = await asyncio.to_thread(self._load, plugins, listener)
            await self._run_service(service, host)
        finally:
            if plugins != wanted:
                shutil.rmtree(plugins, ignore_errors=True)

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

    def _load(self, plugins: Path, listener: socket.socket) -> "DeviceService":
        from ankaios.devices.device_service import DeviceService

        return DeviceService(
            self._agent, self._folder, kubelet_dir=self._kubelet_dir, plugin_folder=(plugins, listener)
        )

    async def _run_service(self, service: "DeviceService", host: DeviceHost) -> None:
        from ankaios.devices.device_service import Host

        def restart(owner: str) -> None:
            if name := InstanceName.parse(owner):
                host.restart(name)

        def living() -> Collection[str] | None:
            names = host.living()
            return None if names is None else set(map(str, names))

        self._service = service
        if self._last_update is not None:
            service.handle(self._last_update)
        if self._session:
            service.connected()
        self._loaded.set()
        await service.run(Host(host.send, host.wake, restart, living))

    # --- the server ---

    def connected(self) -> None:
        """What is not loaded holds nothing; what is being loaded speaks for itself when it knows what it holds."""
        self._session = True
        if self._service is not None:
            self._service.connected()
        elif self._host is not None and not self._needed.is_set():
            self._host.send(ToServer(deviceReport=DeviceReport(complete=True)))

    def handle(self, message: DeviceUpdate | SlotResponse) -> None:
        if self._service is not None:
            self._service.handle(message)
        elif isinstance(message, DeviceUpdate) and message.complete:
            self._last_update = message
            if message.configurations.deviceConfigurations:
                self._needed.set()

    # --- workloads ---

    async def acquire(self, spec: WorkloadSpec) -> tuple[DeviceGrant, ...] | Waiting:
        service = await self._get()
        if service is None:
            return Waiting(self._fault)
        answer = await service.acquire(str(spec.instance_name), spec.resources)
        return tuple(map(_grant, answer)) if isinstance(answer, tuple) else Waiting(answer.reason)

    async def adopt(self, spec: WorkloadSpec) -> None:
        if (service := await self._get()) is not None:
            await service.adopt(str(spec.instance_name), spec.resources)

    async def release(self, name: InstanceName) -> None:
        if self._service is not None:
            self._service.release(str(name))

    async def _get(self) -> "DeviceService | None":
        """None if there is none any more."""
        self._needed.set()
        await self._loaded.wait()
        return None if self._ended else self._service


def _grant(grant: "Grant") -> DeviceGrant:
    return DeviceGrant(
        envs=grant.envs,
        mounts=tuple(DeviceMount(it.container_path, it.host_path, it.read_only) for it in grant.mounts),
        devices=tuple(DeviceNode(it.container_path, it.host_path, it.permissions) for it in grant.devices),
        annotations=grant.annotations,
        cdi_devices=grant.cdi_devices,
        container=grant.container,
    )
