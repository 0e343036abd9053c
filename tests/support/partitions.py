"""Servers in network namespaces whose connections to etcd can be cut in each direction, and what must stay true.

Each server is in its own network namespace. Rules of its packet filter drop what it sends to etcd, or what etcd sends
to it; agents and clients still reach the server. Clients change and read workloads all the time. `CommandRecorder` is
connected to every server as the agent of these workloads and records each command with the term of its sender.

Afterwards: no command of an older term arrived after one of a later term, and the answered requests are linearizable.
Needs root rights, `ip` and `iptables`.
"""

import asyncio
import itertools
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from ankaios.agent.server_link import agent_hello
from ankaios.cli.connection import commander_hello
from ankaios.cli.session import RequestFailed, Session
from ankaios.common.errors import AnkaiosError
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.middleware.blocking_client import connect_blocking
from ankaios.middleware.client import connect
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from tests.support.linearizability import NEVER, Recorded, violations
from tests.support.shared_state_cluster import SharedStateCluster

AGENT = "recorder"
REGISTERS = ("w0", "w1", "w2")
CLIENTS = 3
DIRECTIONS = ("to etcd", "from etcd")
_REJECTED = ("Update rejected", "could not be stored", "cannot accept the request")


class PartitionedCluster(SharedStateCluster):
    """Servers and etcd have addresses of a private network on this machine."""

    def __init__(self, names: tuple[str, ...] = ("s1", "s2"), lease: int = 2) -> None:
        self._net = f"10.{random.randrange(130, 250)}.{random.randrange(256)}"
        self._tag = f"ank{random.randrange(16**6):06x}"
        self._etcd_address = f"{self._net}.1"
        self._spaces = {name: f"{self._tag}{number}" for number, name in enumerate(names)}
        try:
            _run("ip", "addr", "add", f"{self._etcd_address}/32", "dev", "lo")
            for number, name in enumerate(names):
                self._add_space(name, number)
            super().__init__(names, lease=lease, host=self._etcd_address)
        except BaseException:
            self._remove_spaces()
            raise

    def _add_space(self, name: str, number: int) -> None:
        space, outer, inner = self._spaces[name], f"{self._tag}o{number}", f"{self._tag}i{number}"
        _run("ip", "netns", "add", space)
        _run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", space)
        _run("ip", "addr", "add", f"{self._gateway(name)}/30", "dev", outer)
        _run("ip", "link", "set", outer, "up")
        self._inside(name, "ip", "addr", "add", f"{self.address(name)}/30", "dev", inner)
        self._inside(name, "ip", "link", "set", inner, "up")
        self._inside(name, "ip", "link", "set", "lo", "up")
        self._inside(name, "ip", "route", "add", "default", "via", self._gateway(name))

    def _remove_spaces(self) -> None:
        for space in self._spaces.values():
            subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True)
        address = f"{self._etcd_address}/32"
        subprocess.run(["ip", "addr", "delete", address, "dev", "lo"], check=False, capture_output=True)

    def _gateway(self, name: str) -> str:
        return f"{self._net}.{4 * list(self._spaces).index(name) + 5}"

    def address(self, name: str) -> str:
        return f"{self._net}.{4 * list(self._spaces).index(name) + 6}"

    def prefix(self, name: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self._spaces[name])

    def _inside(self, name: str, *command: str) -> None:
        _run(*self.prefix(name), *command)

    def cut(self, name: str, direction: str) -> None:
        """Drop all packets between this server and etcd that have this direction."""
        chain, option = ("OUTPUT", "-d") if direction == DIRECTIONS[0] else ("INPUT", "-s")
        self._inside(name, "iptables", "-w", "-A", chain, option, self._etcd_address, "-j", "DROP")

    def heal(self, name: str) -> None:
        self._inside(name, "iptables", "-w", "-F")

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._remove_spaces()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=30)


class CommandRecorder:
    """Connected to each server as an agent that accepts every term. `commands`: (server, term) in order of arrival."""

    def __init__(self, urls: dict[str, str]) -> None:
        self._urls = urls
        self.commands: list[tuple[str, int]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._record_all(),), name=AGENT)
        self._stopped = asyncio.Event()

    async def _record_all(self) -> None:
        tasks = [asyncio.create_task(self._record(name, url), name=name) for name, url in self._urls.items()]
        await self._stopped.wait()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _record(self, name: str, url: str) -> None:
        hello = agent_hello(AGENT, {}, ["podman"], devices=False)
        while True:
            term = 0
            with suppress(AnkaiosError):
                async with connect(ConnectionSettings(url, connect_timeout=1.0), Method.AGENT, hello) as connection:
                    while True:
                        message = await connection.receive()
                        if message.HasField("serverHello"):
                            term = message.serverHello.term
                        if message.HasField("serverHello") or message.HasField("updateWorkload"):
                            self.commands.append((name, term))
            await asyncio.sleep(0.05)

    def __enter__(self) -> "CommandRecorder":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(30)

    @property
    def terms(self) -> list[int]:
        return sorted({term for _, term in self.commands})

    def late_commands(self) -> list[tuple[str, int]]:
        """Commands of a server that arrived after a command of a later leader."""
        newest, late = 0, []
        for name, term in list(self.commands):
            if term < newest:
                late.append((name, term))
            newest = max(newest, term)
        return late


@contextmanager
def recorded_cluster() -> Iterator[tuple[PartitionedCluster, CommandRecorder]]:
    """All servers with a leader, and a recorder of their commands."""
    with PartitionedCluster() as cluster:
        assert isinstance(cluster, PartitionedCluster)
        for name in cluster.ports:
            cluster.launch(name)
        cluster.leader()
        with CommandRecorder({name: cluster.url_of(name) for name in cluster.ports}) as recorder:
            yield cluster, recorder


class RecordingClients:
    """Change and read workloads until they are stopped, and record what was answered.

    Names contain `period`, so that the histories of each period begin with absent workloads.
    """

    def __init__(self, url: str, seed: int, period: int = 0) -> None:
        self._url = url
        self._values = itertools.count(1)
        self._lock = threading.Lock()
        self._is_stopped = threading.Event()
        self.histories: dict[str, list[Recorded]] = {f"{name}-{period}": [] for name in REGISTERS}
        self.answered = self.unknown = 0
        self._threads = [
            threading.Thread(target=self._work, args=(random.Random(seed + number),), name=f"client {number}")
            for number in range(CLIENTS)
        ]

    def __enter__(self) -> "RecordingClients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_stopped.set()
        for thread in self._threads:
            thread.join(60)

    def _work(self, chance: random.Random) -> None:
        settings = ConnectionSettings(self._url, connect_timeout=1.0)
        while not self._is_stopped.is_set():
            with suppress(AnkaiosError, RequestFailed):
                self._use_connection(settings, chance)
            self._is_stopped.wait(0.05)

    def _use_connection(self, settings: ConnectionSettings, chance: random.Random) -> None:
        with connect_blocking(settings, Method.CLI, commander_hello()) as connection:
            session = Session(connection, 5_000)
            for _ in range(chance.randint(1, 10)):
                self._step(session, chance.choice(list(self.histories)), is_read=chance.random() < 0.5)
                self._is_stopped.wait(chance.uniform(0.0, 0.1))

    def _step(self, session: Session, name: str, *, is_read: bool) -> None:
        start = time.monotonic()
        if is_read:
            state = COMPLETE_STATE.to_form(session.complete_state(f"desiredState.workloads.{name}"))
            form = state.get("desiredState", {}).get("workloads", {}).get(name)
            value = None if form is None else int(form["runtimeConfig"])
            self._add(name, Recorded(start, time.monotonic(), value, writes=False))
            return
        value = next(self._values)
        form = {"agent": AGENT, "runtime": "podman", "runtimeConfig": str(value)}
        update = COMPLETE_STATE.from_form({"desiredState": {"apiVersion": "v1", "workloads": {name: form}}})
        try:
            session.update(update, [f"desiredState.workloads.{name}"])
        except (AnkaiosError, RequestFailed) as error:
            if not any(text in str(error) for text in _REJECTED):
                self._add(name, Recorded(start, NEVER, value))
            raise
        self._add(name, Recorded(start, time.monotonic(), value))

    def _add(self, name: str, operation: Recorded) -> None:
        with self._lock:
            self.histories[name].append(operation)
            if operation.end == NEVER:
                self.unknown += 1
            else:
                self.answered += 1

    def violations(self) -> list[str]:
        with self._lock:
            return violations({name: list(history) for name, history in self.histories.items()})


def wait_for_next_leader(cluster: PartitionedCluster, recorder: CommandRecorder, clients: RecordingClients) -> None:
    """Until a later leader has commanded the agent, and a request was answered after that."""
    before = max(recorder.terms, default=0)
    cluster.wait_until("another server commands", lambda: max(recorder.terms, default=0) > before, 60)
    wait_for_answers(cluster, clients)


def wait_for_answers(cluster: PartitionedCluster, clients: RecordingClients) -> None:
    answered = clients.answered
    cluster.wait_until("requests are answered", lambda: clients.answered > answered + 5, 60)
