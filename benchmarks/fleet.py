"""Limit: one server supports 1,000 agents.

They connect in 3 s, and a state change costs the server at most five times as much as with 10 agents. Light agents use
the real protocol over real sockets: they announce themselves as the agents of this project do, and report their devices
and every 2 s their load. Each has 10 workloads; one of them depends on a workload of another agent. All light agents
are in one process, which is slower than the server; therefore their keep-alive limit is 60 s. With
`--real-keepalive` they end the connection after 2.9 s, as agents do.

Prints for each number of agents: the time until all are connected and have the server hello, the time from an update of
one and of all workloads to the agents, the longest response time of the server meanwhile, the time from a state change
to 50 subscribers, the computing time of the server for one state change and at rest, its memory, and how many
connections of agents broke. If agents do not receive something within two minutes, it prints which processes used the
processor meanwhile. With `--updates` it also makes 200 updates per second for so many seconds, each of one workload.
With `--storage` the state is stored: `etcd` is a cluster of three members on this machine.

    python benchmarks/fleet.py 10 100 500 1000 2000
    python benchmarks/fleet.py 2000 --updates 60
    python benchmarks/fleet.py 1000 --updates 20 --storage etcd
"""

import argparse
import asyncio
import itertools
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from random import Random

from ankaios.agent.load_reporter import REPORT_INTERVAL
from ankaios.agent.server_link import agent_hello, reconnect_pause
from ankaios.cli.connection import commander_hello
from ankaios.common.errors import Unavailable
from ankaios.common.execution_state import RUNNING_OK, SUCCEEDED_OK, ExecutionState
from ankaios.common.pb.ank_base_pb2 import (
    ADD_COND_RUNNING,
    CompleteStateRequest,
    CpuUsage,
    FreeMemory,
    Request,
    UpdateStateRequest,
)
from ankaios.common.pb.grpc_api_pb2 import AgentLoadStatus, DeviceReport, FromServer, ToServer, UpdateWorkloadState
from ankaios.common.proto_conversion import instance_name_from_pb, workload_state_to_pb
from ankaios.common.workload import InstanceName
from ankaios.grpc.keepalive import Keepalive
from ankaios.middleware.client import ServerConnection, connect
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from tests.integration.storage.etcd_cluster import EtcdCluster
from tests.support.cluster import free_port

SIZES = (10, 100, 500, 1000)
WORKLOADS, SUBSCRIBERS, CHANGES = 10, 50, 20
CONNECT_LIMIT, COST_LIMIT = 3.0, 5.0
RATE, PROBE_PAUSE = 200, 0.02
MIN_RATE_SHARE = 0.95
REST_SECONDS = 4.0
TIME_LIMIT = 120.0


def workload_name(agent: int, number: int) -> str:
    return f"w{agent}-{number}"


def desired(agents: int, config: str = "image: x") -> UpdateStateRequest:
    update = UpdateStateRequest(updateMask=["desiredState.workloads"])
    update.newState.desiredState.apiVersion = "v1"
    workloads = update.newState.desiredState.workloads.workloads
    for agent in range(agents):
        for number in range(WORKLOADS):
            workload = workloads[workload_name(agent, number)]
            workload.agent, workload.runtime, workload.runtimeConfig = f"a{agent}", "podman", config
        if agent:
            first = workloads[workload_name(agent, 0)]
            first.dependencies.dependencies[workload_name(agent - 1, 1)] = ADD_COND_RUNNING
    return update


class LightAgent:
    """Reports each workload as running and counts what it receives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.has_hello = asyncio.Event()
        self.updated = asyncio.Event()
        self.connection: ServerConnection | None = None
        self.instances: list[InstanceName] = []
        self.states = 0
        self.received_at = 0.0
        self.lost = 0

    async def run(self, settings: ConnectionSettings, ended: asyncio.Event) -> None:
        """Try again as agents do: a server rejects many connections of one address at the same time."""
        failures = 0
        while not ended.is_set():
            with suppress(Unavailable):
                await self._session(settings, ended)
            failures += 1
            self.lost += self.has_hello.is_set() and not ended.is_set()
            await asyncio.sleep(reconnect_pause(failures))

    async def _session(self, settings: ConnectionSettings, ended: asyncio.Event) -> None:
        hello = agent_hello(self.name, {}, ["podman"], devices=True)
        async with connect(settings, Method.AGENT, hello) as self.connection:
            await self.connection.send(ToServer(deviceReport=DeviceReport(complete=True)))
            works = (self._receive(self.connection), self._report_load(self.connection), ended.wait())
            tasks = [asyncio.create_task(work) for work in works]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _report_load(self, connection: ServerConnection) -> None:
        await asyncio.sleep(Random(self.name).uniform(0, REPORT_INTERVAL))
        for percent in itertools.cycle(range(100)):
            cpu, memory = CpuUsage(cpu_usage=percent), FreeMemory(free_memory=1 << 30)
            status = AgentLoadStatus(agent_name=self.name, cpu_usage=cpu, free_memory=memory)
            await connection.send(ToServer(AgentLoadStatus=status))
            await asyncio.sleep(REPORT_INTERVAL)

    async def _receive(self, connection: ServerConnection) -> None:
        while True:
            message = await connection.receive()
            if message.HasField("serverHello"):
                if self.has_hello.is_set():  # after a broken connection, the hello contains the updates
                    self._note_update()
                await self._report_new(message.serverHello.addedWorkloads)
                self.has_hello.set()
            elif message.HasField("updateWorkload"):
                self._note_update()
                await self._report_new(message.updateWorkload.addedWorkloads)
            self.states += len(message.updateWorkloadState.workloadStates)

    def _note_update(self) -> None:
        self.received_at = time.monotonic()
        self.updated.set()

    async def _report_new(self, added: Iterable[object]) -> None:
        new = [instance_name_from_pb(it.instanceName) for it in added]  # type: ignore[attr-defined]
        self.instances = new if len(new) == WORKLOADS else self.instances
        await self.report(dict.fromkeys(new, RUNNING_OK))

    async def report(self, states: dict[InstanceName, ExecutionState]) -> None:
        assert self.connection is not None
        if states:
            update = UpdateWorkloadState(workloadStates=[workload_state_to_pb(*entry) for entry in states.items()])
            await self.connection.send(ToServer(updateWorkloadState=update))


class ServerProcess:
    """The real server, with its computing time and memory."""

    def __init__(self, storage: str, *, real_keepalive: bool = False) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "ankaios.server", "-k", "-a", f"127.0.0.1:{self.port}", "--storage", storage]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        url = f"http://127.0.0.1:{self.port}"
        self.settings = ConnectionSettings(url, connect_timeout=60.0, keepalive=Keepalive(30.0, 30.0))
        self.settings_of_agents = ConnectionSettings(url, connect_timeout=60.0) if real_keepalive else self.settings

    @property
    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def megabytes(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)


async def timed(work: Awaitable[object]) -> float:
    begin = time.monotonic()
    async with asyncio.timeout(TIME_LIMIT):
        await work
    return time.monotonic() - begin


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.002)


async def request(connection: ServerConnection, content: Request) -> FromServer:
    await connection.send(ToServer(request=content))
    while True:
        message = await connection.receive()
        if message.response.requestId == content.requestId:
            return message


@contextmanager
def storage_url(kind: str) -> Iterator[str]:
    """`memory`, `sqlite` or `etcd`."""
    with tempfile.TemporaryDirectory(prefix="ank-fleet-") as folder:
        if kind != "etcd":
            yield f"sqlite:{folder}/state.db" if kind == "sqlite" else kind
            return
        etcd = EtcdCluster(Path(folder) / "etcd", 3)
        try:
            etcd.wait_until_healthy()
            yield str(etcd.location("/fleet"))
        finally:
            etcd.close()


async def measure(server: ServerProcess, agents: int, update_seconds: float) -> tuple[float, float, list[str]]:
    """Return the time until all agents are connected, the computing time for one state change, and what failed."""
    ended = asyncio.Event()
    fleet = [LightAgent(f"a{number}") for number in range(agents)]
    begin, own_before = time.monotonic(), time.process_time()
    try:
        async with AsyncExitStack() as stack:
            cli = await connected_client(stack, server)
            answer = await request(cli, Request(requestId="first", updateStateRequest=desired(agents)))
            if answer.response.HasField("error"):
                return 0.0, 0.0, [f"{agents} agents: {answer.response.error.message}"]
            before = server.cpu
            tasks = [asyncio.create_task(agent.run(server.settings_of_agents, ended)) for agent in fleet]
            stack.callback(ended.set)
            connecting = await timed(asyncio.gather(*(agent.has_hello.wait() for agent in fleet)))
            connect_cpu = server.cpu - before
            one = [await change_one(cli, fleet) for _ in range(CHANGES)]
            async with longest_response(stack, server) as pauses:
                changed = await change_everything(cli, fleet)
            subscribers = [await connected_client(stack, server) for _ in range(SUBSCRIBERS)]
            reported, cost, rest = await change_states(server, fleet, subscribers)
            print(
                f"{agents:5} agents: connected {connecting:5.2f} s ({connect_cpu:.2f} s CPU), "
                f"update of one {statistics.median(one) * 1000:5.1f} ms, of all {changed:5.2f} s "
                f"(response time meanwhile: median {statistics.median(pauses[1:]) * 1000:.0f} ms, "
                f"longest {max(pauses) * 1000:.0f} ms), "
                f"state to {SUBSCRIBERS} subscribers {reported * 1000:5.1f} ms, "
                f"one state change {cost * 1000:5.2f} ms CPU, at rest {rest * 100:.0f} % of a core, "
                f"{server.megabytes:4.0f} MB, "
                f"{sum(agent.lost for agent in fleet)} connections broke",
                flush=True,
            )
            failed = await steady_updates(stack, server, fleet, update_seconds) if update_seconds else []
            ended.set()
            await asyncio.gather(*tasks, return_exceptions=True)
        return connecting, cost, failed
    except TimeoutError:
        spent = time.monotonic() - begin
        return (
            0.0,
            0.0,
            [
                f"{agents} agents: not all received everything in {TIME_LIMIT:.0f} s, "
                f"{sum(agent.lost for agent in fleet)} connections broke, server {server.cpu / spent:.0%} of a core, "
                f"light agents {(time.process_time() - own_before) / spent:.0%}"
            ],
        )
    finally:
        server.close()


async def connected_client(stack: AsyncExitStack, server: ServerProcess) -> ServerConnection:
    while True:
        try:
            connection = connect(server.settings, Method.COMMAND, commander_hello())
            return await stack.enter_async_context(connection)
        except Exception:  # the server is starting
            await asyncio.sleep(0.02)


@asynccontextmanager
async def longest_response(stack: AsyncExitStack, server: ServerProcess) -> AsyncIterator[list[float]]:
    """A client that reads something small all the time; yields its response times."""
    client, times = await connected_client(stack, server), [0.0]

    async def read() -> None:
        wanted = CompleteStateRequest(fieldMask=["desiredState.apiVersion"])
        try:
            while True:
                times.append(await timed(request(client, Request(requestId="probe", completeStateRequest=wanted))))
                await asyncio.sleep(PROBE_PAUSE)
        except Unavailable:  # its connection broke
            times.append(math.inf)

    reading = asyncio.create_task(read())
    yield times
    await asyncio.sleep(0.2)
    reading.cancel()


def update_of(agent: int, version: int) -> UpdateStateRequest:
    """Of one workload that no other depends on."""
    name = workload_name(agent, WORKLOADS - 1)
    update = UpdateStateRequest(updateMask=[f"desiredState.workloads.{name}"])
    update.newState.desiredState.apiVersion = "v1"
    workload = update.newState.desiredState.workloads.workloads[name]
    workload.agent, workload.runtime, workload.runtimeConfig = f"a{agent}", "podman", f"image: v{version}"
    return update


versions = itertools.count()


async def change_one(cli: ServerConnection, fleet: list[LightAgent]) -> float:
    """From the update of one workload to its arrival at the agent."""
    number, version = len(fleet) // 2, next(versions)
    fleet[number].updated.clear()
    begin = time.monotonic()
    await cli.send(ToServer(request=Request(requestId=f"one{version}", updateStateRequest=update_of(number, version))))
    async with asyncio.timeout(TIME_LIMIT):
        await fleet[number].updated.wait()
    return fleet[number].received_at - begin


async def steady_updates(
    stack: AsyncExitStack, server: ServerProcess, fleet: list[LightAgent], seconds: float
) -> list[str]:
    """200 updates per second, each of one workload. Returns what failed."""
    cli = await connected_client(stack, server)
    answers: dict[str, float] = {}
    receiving = asyncio.create_task(collect_answers(cli, answers))
    sent: dict[str, float] = {}
    delays, before, begin = [], server.cpu, time.monotonic()
    for number in range(int(seconds * RATE)):
        await asyncio.sleep(max(begin + number / RATE - time.monotonic(), 0))
        name, agent = f"steady{number}", number % len(fleet)
        sent[name] = time.monotonic()
        content = Request(requestId=name, updateStateRequest=update_of(agent, next(versions)))
        await cli.send(ToServer(request=content))
    sending = time.monotonic() - begin
    await timed(until(lambda: len(answers) == len(sent) or receiving.done()))
    receiving.cancel()
    delays = sorted(answers[name] - sent[name] for name in answers)
    share = (server.cpu - before) / (time.monotonic() - begin)
    lost = sum(agent.lost for agent in fleet)
    print(
        f"{len(fleet):5} agents: {len(sent)} updates in {sending:.1f} s ({len(sent) / sending:.0f} per second), "
        f"{len(answers)} accepted, response time median "
        f"{delays[len(delays) // 2] * 1000:.1f} ms, 99 % {delays[len(delays) * 99 // 100] * 1000:.1f} ms, "
        f"server {share * 100:.0f} % of a core, {server.megabytes:.0f} MB, {lost} connections broke",
        flush=True,
    )
    failed = [f"{missing} of {len(sent)} updates were not accepted"] if (missing := len(sent) - len(answers)) else []
    if len(sent) / sending < MIN_RATE_SHARE * RATE:
        failed.append(f"{len(sent) / sending:.0f} instead of {RATE} updates per second")
    return failed + ([f"{lost} connections broke"] if lost else [])


async def collect_answers(cli: ServerConnection, answers: dict[str, float]) -> None:
    while True:
        message = await cli.receive()
        if message.response.HasField("UpdateStateSuccess"):
            answers[message.response.requestId] = time.monotonic()


async def change_everything(cli: ServerConnection, fleet: list[LightAgent]) -> float:
    """From the update to its arrival at all agents."""
    for agent in fleet:
        agent.updated.clear()
    content = Request(requestId="second", updateStateRequest=desired(len(fleet), "image: y"))
    await cli.send(ToServer(request=content))
    return await timed(asyncio.gather(*(agent.updated.wait() for agent in fleet)))


async def change_states(
    server: ServerProcess, fleet: list[LightAgent], subscribers: list[ServerConnection]
) -> tuple[float, float, float]:
    """From the report of one state to its arrival at all subscribers, the computing time without subscribers, at rest.

    The computing time of a state change is without that at rest.
    """
    await asyncio.sleep(2)
    begin, before = time.monotonic(), server.cpu
    await asyncio.sleep(REST_SECONDS)
    rest = (server.cpu - before) / (time.monotonic() - begin)
    name, begin = fleet[0].instances[1], time.monotonic()
    before = server.cpu
    for number in range(CHANGES * 10):
        await fleet[0].report({name: SUCCEEDED_OK if number % 2 else RUNNING_OK})
        await asyncio.sleep(0.002)
    await asyncio.sleep(0.5)
    cost = max(server.cpu - before - rest * (time.monotonic() - begin), 0) / (CHANGES * 10)
    mask = f"workloadStates.{name.agent}.{name.workload}"
    wanted = CompleteStateRequest(fieldMask=[mask], subscribeForEvents=True)
    for subscriber in subscribers:
        await request(subscriber, Request(requestId="events", completeStateRequest=wanted))
    times = []
    for number in range(CHANGES):
        events = [asyncio.create_task(subscriber.receive()) for subscriber in subscribers]
        begin = time.monotonic()
        await fleet[0].report({name: SUCCEEDED_OK if number % 2 else RUNNING_OK})
        async with asyncio.timeout(TIME_LIMIT):
            await asyncio.gather(*events)
        times.append(time.monotonic() - begin)
    return sorted(times)[len(times) // 2], cost, rest


def main(sizes: list[int], update_seconds: float, storage: str, *, real_keepalive: bool) -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if soft < hard else soft, hard))
    results = {}
    for size in sizes:
        with storage_url(storage) as url:
            server = ServerProcess(url, real_keepalive=real_keepalive)
            results[size] = asyncio.run(measure(server, size, update_seconds))
    failed = [text for *_, texts in results.values() for text in texts]
    failed += [f"{size} agents took {results[size][0]:.1f} s to connect" for size in sizes
              if size == 1000 and results[size][0] > CONNECT_LIMIT]  # fmt: skip
    if 10 in results and 1000 in results and results[1000][1] > COST_LIMIT * results[10][1]:
        failed.append("a state change with 1,000 agents costs more than five times as much as with 10")
    if 10 in results and 1000 in results:
        print(f"one state change with 1,000 agents costs {results[1000][1] / results[10][1]:.1f} times that with 10")
    print(*failed or ["ok"], sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("agents", nargs="*", type=int, default=SIZES, help="numbers of agents")
    parser.add_argument("--updates", type=float, default=0.0, metavar="SECONDS", help="200 updates per second")
    parser.add_argument("--storage", choices=["memory", "sqlite", "etcd"], default="memory", help="where the state is")
    parser.add_argument("--real-keepalive", action="store_true", help="light agents have a keep-alive limit of 2.9 s")
    given = parser.parse_args()
    sys.exit(main(given.agents, given.updates, given.storage, real_keepalive=given.real_keepalive))
