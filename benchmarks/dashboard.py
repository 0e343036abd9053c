#!/usr/bin/env python3
"""A page of the dashboard with 1,000 workloads on 50 nodes, while states change all the time.

Usage: benchmarks/dashboard.py [MINUTES]      default 0.5; 10 for the growth of memory

Real server, dashboard and browser; the 50 agents are scripted and report states without processes. Prints
the time until the overview and the table of all workloads are shown, the time from a report of an agent to its drawing
(limit: 200 ms), and the memory of page and dashboard before and after (limit: 3 MB more).
"""

import asyncio
import json
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ankaios.common.execution_state import RUNNING_OK, ExecutionState, exited  # noqa: E402
from ankaios.common.pb.ank_base_pb2 import CpuUsage, FreeMemory  # noqa: E402
from ankaios.common.pb.grpc_api_pb2 import AgentHello, AgentLoadStatus, ToServer, UpdateWorkloadState  # noqa: E402
from ankaios.common.proto_conversion import instance_name_from_pb, workload_state_to_pb  # noqa: E402
from ankaios.common.version import PROTOCOL_VERSION  # noqa: E402
from ankaios.common.workload import InstanceName  # noqa: E402
from ankaios.middleware.client import ServerConnection, connect  # noqa: E402
from ankaios.middleware.connecting import ConnectionSettings  # noqa: E402
from ankaios.middleware.methods import Method  # noqa: E402
from tests.support.browser import Browser, Dashboard, wait_until  # noqa: E402
from tests.support.cluster import Cluster  # noqa: E402

NODES, PER_NODE = 50, 20
CHANGES_PER_SECOND = 20
PROBES = 10
MAX_DELAY_MS = 200
MAX_GROWTH_MB = 3.0  # the lists of changes and loads, which have limits, fill up


class ScriptedAgent:
    def __init__(self, name: str) -> None:
        self.name = name
        self.instances: list[InstanceName] = []
        self._connection: ServerConnection | None = None

    async def run(self, url: str, ready: asyncio.Semaphore) -> None:
        hello = ToServer(agentHello=AgentHello(agentName=self.name, protocolVersion=PROTOCOL_VERSION))
        async with connect(ConnectionSettings(url), Method.AGENT, hello) as self._connection:
            while True:
                message = await self._connection.receive()
                for added in message.serverHello.addedWorkloads:
                    self.instances.append(instance_name_from_pb(added.instanceName))
                if message.HasField("serverHello"):
                    for instance in self.instances:
                        await self.report(instance, RUNNING_OK)
                    ready.release()

    async def report(self, instance: InstanceName, state: ExecutionState) -> None:
        assert self._connection is not None
        update = UpdateWorkloadState(workloadStates=[workload_state_to_pb(instance, state)])
        await self._connection.send(ToServer(updateWorkloadState=update))

    async def report_load(self, percent: int) -> None:
        assert self._connection is not None
        status = AgentLoadStatus(
            agent_name=self.name,
            cpu_usage=CpuUsage(cpu_usage=percent),
            free_memory=FreeMemory(free_memory=random.randrange(2**33)),
        )
        await self._connection.send(ToServer(AgentLoadStatus=status))


def manifest() -> str:
    workloads = {
        f"app-{node:02}-{number:02}": {
            "agent": f"node-{node:02}",
            "runtime": "podman",
            "runtimeConfig": f"image: app:{number}",
            "dependencies": {f"app-{node:02}-{number - 1:02}": "ADD_COND_RUNNING"} if number % 4 else {},
        }
        for node in range(NODES)
        for number in range(PER_NODE)
    }
    return json.dumps({"apiVersion": "v1", "workloads": workloads})


async def churn(agents: list[ScriptedAgent], until: float) -> None:
    turn = 0
    while time.monotonic() < until:
        agent = random.choice(agents)
        state = exited(random.randrange(1, 5)) if turn % 10 == 0 else RUNNING_OK.because(f"turn {turn}")
        await agent.report(random.choice(agent.instances), state)
        if turn % 4 == 0:
            await agents[turn // 4 % NODES].report_load(random.randrange(100))
        turn += 1
        await asyncio.sleep(1 / CHANGES_PER_SECOND)


def memory_of(page: Any) -> float:
    page.context.new_cdp_session(page).send("HeapProfiler.collectGarbage")
    return float(page.evaluate("performance.memory.usedJSHeapSize")) / 2**20


def resident(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def shown_after(page: Any, path: str, ready: str) -> float:
    began = time.monotonic()
    page.evaluate("path => { location.hash = path; }", path)
    wait_until(page, ready)
    return (time.monotonic() - began) * 1000


class Measured:
    """What the thread of the browser does; Playwright is not asynchronous here."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard
        self._browser = Browser()
        self._page = self._browser.page(dashboard.url)

    def start(self) -> None:
        page = self._page
        wait_until(page, "document.querySelector('h1')?.textContent.includes('1000')")
        began = time.monotonic()
        page.reload()
        wait_until(page, "document.querySelector('h1')?.textContent.includes('1000')")
        print(f"overview after reload:          {(time.monotonic() - began) * 1000:6.0f} ms")
        rows = "document.querySelectorAll('table.workloads tbody tr').length === 1000"
        print(f"table of 1,000 workloads:       {shown_after(page, '#/workloads', rows):6.0f} ms")
        graph = shown_after(page, "#/graph", "document.querySelector('.graph')")
        print(f"graph of 1,000 workloads:       {graph:6.0f} ms")
        shown_after(page, "#/workloads", rows)
        self._before = self._print_memory("before")

    def _print_memory(self, when: str) -> tuple[float, float]:
        page, dashboard = memory_of(self._page), resident(self._dashboard.process.pid)
        print(f"memory {when:6}:                 {page:6.1f} MB page, {dashboard:6.1f} MB dashboard")
        return page, dashboard

    def follow(self, name: str) -> None:
        self._page.evaluate(
            """name => { window.drawn = 0; new MutationObserver(() => {
            const rows = [...document.querySelectorAll("table.workloads tbody tr")];
            const row = rows.find((one) => one.textContent.includes(name));
            if (row?.textContent.includes("probe") && !window.drawn) window.drawn = Date.now();
            }).observe(document.querySelector("table.workloads tbody"), { childList: true, subtree: true }); }""",
            name,
        )

    def drawn(self) -> float:
        wait_until(self._page, "window.drawn > 0")
        return float(self._page.evaluate("window.drawn"))

    def end(self) -> bool:
        """Whether the memory has stayed within its limit."""
        after = self._print_memory("after")
        growth = max(now - before for now, before in zip(after, self._before, strict=True))
        is_small = growth <= MAX_GROWTH_MB
        print(f"memory more than before:        {growth:6.1f} MB, limit {MAX_GROWTH_MB:g}, {word(is_small)}")
        clicked = time.monotonic()
        self._page.get_by_label("Filter workloads").fill("app-07")
        wait_until(self._page, "document.querySelectorAll('table.workloads tbody tr').length === 20")
        print(f"filter answered after:          {(time.monotonic() - clicked) * 1000:6.0f} ms")
        self._browser.close()
        return is_small


def word(is_ok: bool) -> str:
    return "ok" if is_ok else "not ok"


async def measure(cluster: Cluster, dashboard: Dashboard, seconds: float) -> bool:
    """Whether everything has stayed within its limit."""
    agents = [ScriptedAgent(f"node-{number:02}") for number in range(NODES)]
    ready = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(agent.run(cluster.url, ready), name=agent.name) for agent in agents]
    for _ in agents:
        await ready.acquire()
    loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1)
    measured = await loop.run_in_executor(thread, Measured, dashboard)
    await loop.run_in_executor(thread, measured.start)
    churning = asyncio.create_task(churn(agents, time.monotonic() + seconds), name="churn")
    delays = []
    for number in range(PROBES):
        await asyncio.sleep(min(seconds / (PROBES + 2), 5))
        agent = agents[number]
        instance = agent.instances[0]
        await loop.run_in_executor(thread, measured.follow, instance.workload)
        began = time.time() * 1000
        await agent.report(instance, RUNNING_OK.because(f"probe {number}"))
        delays.append(await loop.run_in_executor(thread, measured.drawn) - began)
    await churning
    median = sorted(delays)[len(delays) // 2]
    is_fast = max(delays) <= MAX_DELAY_MS
    print(
        f"report of an agent to drawing:  {median:6.0f} ms median, {max(delays):.0f} ms longest, "
        f"limit {MAX_DELAY_MS} ms, {word(is_fast)}"
    )
    is_small = await loop.run_in_executor(thread, measured.end)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return is_fast and is_small


def main() -> int:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 0.5
    with Cluster() as cluster:
        cluster.start_server(manifest())
        with Dashboard(cluster) as dashboard:
            return 0 if asyncio.run(measure(cluster, dashboard, minutes * 60)) else 1


if __name__ == "__main__":
    sys.exit(main())
