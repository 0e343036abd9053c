"""The devices of an agent, whose device manager is loaded when it is first needed: most agents have no devices.

Input: workloads that acquire and release devices, messages of the server. Output: grants for the runtime. The device
manager is needed as soon as there is a device configuration, a workload requests a device, a plugin connects, or an
earlier agent left claims. No call waits until it is loaded: earlier calls are recorded, and waiting workloads are woken
after it is loaded.
"""

import asyncio
import logging
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ankaios.agent.tree_removal import remove_tree
from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Unavailable
from ankaios.common.pb.grpc_api_pb2 import DeviceReport, DeviceUpdate, SlotResponse, ToServer
from ankaios.common.supervision import Supervisor
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.devices.host import DeviceHost, WaitingForDevices

if TYPE_CHECKING:
    from ankaios.devices.device_manager import DeviceManager

CLAIMS = "claims"
NOT_AVAILABLE = "the devices of this agent are not available"
BEING_LOADED = "the devices of this agent are being loaded"

log = logging.getLogger(__name__)


class DeviceProvider(Protocol):
    """The devices as the rest of the agent uses them."""

    async def run(self, host: DeviceHost) -> None: ...

    def broken(self, why: str) -> None:
        """An internal error ended `run`, which will be called again."""
        ...

    async def acquire(self, spec: WorkloadSpec) -> tuple[DeviceGrant, ...] | WaitingForDevices:
        """Claim all requested devices or none. Present claims are kept. A waiting workload is woken to try again."""
        ...

    async def adopt(self, spec: WorkloadSpec) -> None:
        """Mark the devices of a workload that was found running as used."""
        ...

    async def release(self, name: InstanceName) -> None: ...

    def connected(self) -> None: ...

    def disconnected(self) -> None: ...

    def handle(self, message: DeviceUpdate | SlotResponse) -> None: ...


class AgentDevices:
    """`folder` contains data that outlives the agent, `claims` data that also outlives a power failure.

    `plugin_dir`: where device plugins register, if not in the folder.
    """

    def __init__(
        self,
        agent: str,
        folder: Path,
        kubelet_dir: Path | None = None,
        plugin_dir: Path | None = None,
        claims: Path | None = None,
    ) -> None:
        self._agent = agent
        self._folder = folder
        self._plugin_dir = plugin_dir or folder / "plugins"
        self._claims = claims or folder / CLAIMS
        self._kubelet_dir = kubelet_dir
        self._needed = asyncio.Event()
        if kubelet_dir is not None or any(self._claims.glob("*.json")):
            self._needed.set()
        self._fault: str | None = None  # why there are no devices as long as the agent runs
        self._outage = ""
        self._waiting: set[str] = set()
        self._manager: DeviceManager | None = None
        self._host: DeviceHost | None = None
        self._session = False
        # Calls before the device manager is loaded.
        self._adopted: dict[str, WorkloadSpec] = {}
        self._released: set[str] = set()
        self._last_update: DeviceUpdate | None = None

    async def run(self, host: DeviceHost) -> None:
        """When this ends, workloads that request devices report the reason. It can be called again."""
        self._host = host
        if self._session:
            self.connected()
        try:
            await self._serve(host)
            self._fault = f"{NOT_AVAILABLE}, see its log"
        except (Unavailable, OSError) as fault:
            log.error("devices are not available: %s", fault)
            self._fault = f"{NOT_AVAILABLE}: {fault}"
        finally:
            if self._fault is None:  # the next call creates a new one
                self._manager = None
            self._wake_waiting(host)

    def broken(self, why: str) -> None:
        """Let waiting workloads report this reason until `run` is called again."""
        self._outage = f"{NOT_AVAILABLE}: {why}"
        if self._host is not None:
            self._wake_waiting(self._host)

    async def _serve(self, host: DeviceHost) -> None:
        from ankaios.devices.plugin_folder import open_plugin_folder, short_folder  # not part of the agent's start

        wanted = self._plugin_dir
        plugins = short_folder(wanted)
        listener = open_plugin_folder(plugins)
        try:
            await self._until_needed(listener)
            await self._run_manager(await asyncio.to_thread(self._load, plugins, listener, host), host)
        finally:
            if plugins != wanted:
                remove_tree(plugins)

    async def _until_needed(self, listener: socket.socket) -> None:
        """Wait until the device manager is needed. A plugin that connects is served after it is loaded."""
        loop = asyncio.get_running_loop()
        loop.add_reader(listener, self._needed.set)
        try:
            await self._needed.wait()
        except BaseException:
            listener.close()
            raise
        finally:
            loop.remove_reader(listener)

    def _load(self, plugins: Path, listener: socket.socket, host: DeviceHost) -> "DeviceManager":
        """Load the device manager. Runs in a thread, because it imports many modules and reads files."""
        from ankaios.devices.device_manager import DeviceManager

        try:
            manager = DeviceManager(
                self._agent,
                self._folder,
                host,
                kubelet_dir=self._kubelet_dir,
                plugin_folder=(plugins, listener),
                claims=self._claims,
            )
            manager.restore()
        except BaseException:
            listener.close()
            raise
        return manager

    async def _run_manager(self, manager: "DeviceManager", host: DeviceHost) -> None:
        """Repeat the recorded calls in the required order, then run."""
        for owner in self._released:
            manager.release(owner)
        if self._last_update is not None:
            manager.handle(self._last_update)
        if self._session:
            manager.connected()
        self._manager, self._outage = manager, ""
        self._released.clear()
        adopted, self._adopted = self._adopted, {}
        self._wake_waiting(host)
        async with Supervisor() as tasks:
            tasks.keep_running("the device manager", manager.run)
            for spec in adopted.values():
                tasks.run_once(f"the adoption of the devices of '{spec.instance_name}'", partial(self.adopt, spec))

    def _wake_waiting(self, host: DeviceHost) -> None:
        waiting, self._waiting = self._waiting, set()
        for owner in waiting:
            host.wake(owner)

    # --- the server ---

    def connected(self) -> None:
        """Without a device manager, report an empty list. While it is being loaded, it reports after that."""
        self._session = True
        if self._manager is not None:
            self._manager.connected()
        elif self._host is not None and not self._needed.is_set():
            self._host.send(ToServer(deviceReport=DeviceReport(complete=True)))

    def disconnected(self) -> None:
        self._session = False
        if self._manager is not None:
            self._manager.disconnected()

    def handle(self, message: DeviceUpdate | SlotResponse) -> None:
        if self._manager is not None:
            self._manager.handle(message)
        if isinstance(message, DeviceUpdate) and message.complete:
            self._last_update = message
            if message.configurations.deviceConfigurations:
                self._needed.set()

    # --- workloads ---

    async def acquire(self, spec: WorkloadSpec) -> tuple[DeviceGrant, ...] | WaitingForDevices:
        owner = str(spec.instance_name)
        if self._fault is not None:
            return WaitingForDevices(self._fault)
        self._waiting.add(owner)
        if self._manager is None:
            self._needed.set()
            return WaitingForDevices(self._outage or BEING_LOADED)
        answer = await self._manager.acquire(owner, spec.resources)
        if isinstance(answer, tuple):
            self._waiting.discard(owner)
        return answer

    async def adopt(self, spec: WorkloadSpec) -> None:
        if self._fault is not None:
            return
        owner = str(spec.instance_name)
        if self._manager is not None:
            await self._manager.adopt(owner, spec.resources)
        else:
            self._needed.set()
            self._adopted[owner] = spec

    async def release(self, name: InstanceName) -> None:
        owner = str(name)
        self._waiting.discard(owner)
        if self._manager is not None:
            self._manager.release(owner)
        elif self._needed.is_set() and self._fault is None:
            self._adopted.pop(owner, None)
            self._released.add(owner)
