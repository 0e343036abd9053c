"""A simulated cluster: servers, agents and etcd members that can be started, killed and cut off.

Input: commands such as `start_agent` and `kill_server`. Output: running processes on virtual time, and a record of what
happened. Owns hosts, processes and the folders of the hosts. The processes run the real `serve` and `run_agent`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random

from msgspec import Struct

from ankaios.agent.agent import run_agent
from ankaios.agent.devices import DeviceProvider
from ankaios.agent.settings import AgentSettings, read_agent_settings
from ankaios.common.supervision import internal_error
from ankaios.runtimes.connectors import Connectors
from ankaios.server.settings import read_server_settings
from ankaios.server.shell import serve
from ankaios.simulation.devices import SimulatedDevices, SimulatedHandler
from ankaios.simulation.disk import SimulatedDisks
from ankaios.simulation.etcd import SimulatedEtcd
from ankaios.simulation.network import SimulatedNetwork
from ankaios.simulation.runtime import RUNTIME_NAME, NodeContainers, SimulatedContainer, SimulatedRuntime
from ankaios.simulation.scenario import MEMBER_HOSTS, server_hosts
from ankaios.simulation.virtual_time import SimulatedProcess, VirtualTimeLoop

SERVER_PORT = 25551


class Happening(Struct, frozen=True):
    """One line of the record: when, where, what."""

    time: float
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.time:10.3f}  {self.where:<8}  {self.what}"


class SimulatedNode(Struct):
    """A host with an agent. Containers and files outlive the agent."""

    name: str
    folder: Path
    containers: NodeContainers
    handler: SimulatedHandler
    tags: Mapping[str, str]
    process: SimulatedProcess | None = None


class SimulatedServer(Struct):
    """A host with a server."""

    name: str
    folder: Path
    process: SimulatedProcess | None = None


class ClusterOptions(Struct, frozen=True):
    """`storage` is memory, sqlite or etcd; several servers need etcd. `manifest` is the startup manifest.

    `lease` is the setting of the servers for the lease of the leader in etcd, in seconds.
    """

    nodes: tuple[str, ...] = ("node1", "node2")
    servers: int = 1
    storage: str = "memory"
    manifest: str = ""
    tags: Mapping[str, Mapping[str, str]] = {}
    runtimes: tuple[str, ...] = (RUNTIME_NAME,)
    lease: int = 10


class SimulatedCluster:
    def __init__(
        self, loop: VirtualTimeLoop, random: Random, folder: Path, options: ClusterOptions, disks: SimulatedDisks
    ) -> None:
        self.loop = loop
        self.options = options
        self.network = SimulatedNetwork(loop, random)
        self.disks = disks
        self.record: list[Happening] = []
        # Called with each change of a container, before anything else can happen.
        self.observers: list[Callable[[str, SimulatedContainer, str], None]] = []
        self._folder = folder
        self._random = random
        self.etcd = SimulatedEtcd(self.network) if options.storage == "etcd" else None
        self.nodes: dict[str, SimulatedNode] = {}
        self.servers = {name: SimulatedServer(name, folder / name) for name in server_hosts(options.servers)}
        for name in self.servers:
            (folder / name).mkdir(parents=True)
        for name in options.nodes:
            self.add_node(name, options.tags.get(name, {}))

    def add_node(self, name: str, tags: Mapping[str, str] | None = None) -> None:
        """Add a host with an agent that is not started yet."""

        def changed(container: SimulatedContainer, what: str) -> None:
            self.note(name, f"{container.instance_name.workload} {what} ({container.instance_name.id[:7]})")
            for observer in self.observers:
                observer(name, container, what)

        folder = self._folder / name
        folder.mkdir(parents=True)
        containers = NodeContainers(name, self._random, changed)
        self.nodes[name] = SimulatedNode(name, folder, containers, SimulatedHandler(name), tags or {})

    @property
    def processes(self) -> list[SimulatedProcess]:
        """The servers and agents that run."""
        servers = [server.process for server in self.servers.values()]
        nodes = [node.process for node in self.nodes.values()]
        return [process for process in (*servers, *nodes) if process is not None]

    @property
    def server_urls(self) -> str:
        return ",".join(f"http://{name}:{SERVER_PORT}" for name in self.servers)

    def note(self, where: str, what: str) -> None:
        self.record.append(Happening(self.loop.now, where, what))

    def start(self) -> None:
        """Start everything."""
        if self.etcd is not None:
            for host in MEMBER_HOSTS:
                self.etcd.start_member(host)
        for server in self.servers:
            self.start_server(server)
        for node in self.nodes:
            self.start_agent(node)

    # --- servers ---

    def start_server(self, name: str) -> None:
        server = self.servers[name]
        if server.process is not None:
            return
        self.network.power_on(name)
        self.note(name, "the server starts")
        server.process = SimulatedProcess(f"ank-server {name}", name)
        server.process.start(self._run(server.process, self._serve(server)))

    async def _serve(self, server: SimulatedServer) -> None:
        arguments = ["--insecure", "--address", f"0.0.0.0:{SERVER_PORT}", *self._storage_arguments(server)]
        if self.options.manifest:
            manifest = server.folder / "startup.yaml"
            manifest.write_text(self.options.manifest)
            arguments += ["--startup-manifest", str(manifest)]
        listener = self.network.listening_socket(SERVER_PORT)
        await serve(read_server_settings(arguments), listener)  # type: ignore[arg-type]

    def _storage_arguments(self, server: SimulatedServer) -> list[str]:
        match self.options.storage:
            case "sqlite":
                return ["--storage", f"sqlite:{server.folder / 'state.db'}"]
            case "etcd":
                assert self.etcd is not None
                own_url = f"http://{server.name}:{SERVER_PORT}"
                lease = ("--storage-lease", str(self.options.lease))
                return ["--storage", self.etcd.url, "--server-name", server.name, "--advertise-url", own_url, *lease]
            case _:
                return []

    def kill_server(self, name: str) -> None:
        if (process := self.servers[name].process) is not None:
            self.note(name, "the server is killed")
            process.kill()
            self.servers[name].process = None
            self.disks.process_ended(self.servers[name].folder)

    def power_off_server(self, name: str) -> None:
        self.network.power_off(name)
        self.kill_server(name)
        self.disks.power_cut(self.servers[name].folder)

    # --- agents ---

    def start_agent(self, name: str) -> None:
        node = self.nodes[name]
        if node.process is not None:
            return
        self.network.power_on(name)
        self.note(name, "the agent starts")
        node.process = SimulatedProcess(f"ank-agent {name}", name)
        node.process.start(self._run(node.process, self._run_agent(node)))

    async def _run_agent(self, node: SimulatedNode) -> None:
        tags = [argument for key, value in node.tags.items() for argument in ("--tag", f"{key}={value}")]
        settings = read_agent_settings(
            [
                "--insecure",
                "--name",
                node.name,
                "--server-url",
                self.server_urls,
                "--run-folder",
                str(node.folder),
                *tags,
            ]
        )

        def devices_of(_: AgentSettings) -> DeviceProvider:
            return SimulatedDevices(node.name, node.folder / "devices", node.handler)

        makers = {name: partial(SimulatedRuntime, node.containers, name) for name in self.options.runtimes}
        await run_agent(settings, Connectors(makers), devices_of, self._random.random)

    def kill_agent(self, name: str) -> None:
        node = self.nodes[name]
        if node.process is not None:
            self.note(name, "the agent is killed")
            node.process.kill()
            node.process = None
            node.containers.agent_ended()

    def power_off_node(self, name: str) -> None:
        """The agent and all containers end without a message."""
        self.note(name, "the node loses power")
        self.network.power_off(name)
        self.kill_agent(name)
        self.nodes[name].containers.power_off()
        self.disks.power_cut(self.nodes[name].folder)

    async def _run(self, process: SimulatedProcess, work: object) -> None:
        """A process that ends by itself has failed."""
        try:
            await work  # type: ignore[misc]
        except Exception as error:
            internal_error(process.name, error)
            self.note(process.host, f"{process.name} ended: {error}")

    def end(self) -> None:
        for process in self.processes:
            process.kill()
