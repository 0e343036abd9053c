"""Limit: the messages that a change causes do not depend on the number of agents.

A simulated cluster runs the real server and the real agents on virtual time in one process; the messages between them
are counted for the start of all agents, for a minute at rest, and for the change of one workload. Each agent has one
workload, and every tenth depends on that of the agent before it.

    python benchmarks/simulated_messages.py 100 1000
"""

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from ankaios.middleware.traffic import ServerTraffic
from ankaios.simulation.cluster import ClusterOptions, SimulatedCluster
from ankaios.simulation.determinism import seeded
from ankaios.simulation.disk import SimulatedDisks
from ankaios.simulation.isolation import InternalErrors, close, quiet
from ankaios.simulation.operator import ACCEPTED, Operator
from ankaios.simulation.runtime import RUNTIME_NAME
from ankaios.simulation.virtual_time import VirtualTimeLoop

SIZES = (100, 1000)
SETTLE, REST = 5.0, 60.0
MAX_RATIO = 2.0


class Counted:
    """Messages and bytes between the server and all agents, in both directions."""

    def __init__(self) -> None:
        self.traffic: ServerTraffic | None = None
        self._before = (0.0, 0.0)

    def _now(self) -> tuple[float, float]:
        assert self.traffic is not None
        messages = sum(counter.values.get(("agent",), 0) for counter in self._counters("messages"))
        return messages, sum(counter.values.get(("agent",), 0) for counter in self._counters("bytes"))

    def _counters(self, what: str) -> list:  # type: ignore[type-arg]
        return [getattr(self.traffic, f"{way}_{what}") for way in ("received", "sent")]

    def since_last(self) -> tuple[float, float]:
        now = self._now()
        found = now[0] - self._before[0], now[1] - self._before[1]
        self._before = now
        return found


def manifest(agents: int) -> str:
    lines = ["apiVersion: v1", "workloads:"]
    for number in range(agents):
        needs = f", dependencies: {{w{number - 1}: ADD_COND_RUNNING}}" if number % 10 == 1 else ""
        lines.append(f"  w{number}: {form(number, 0)[:-1]}{needs}}}")
    return "\n".join(lines)


def form(number: int, version: int) -> str:
    return f'{{agent: n{number}, runtime: {RUNTIME_NAME}, restartPolicy: ALWAYS, runtimeConfig: "v: {version}"}}'


async def scenario(cluster: SimulatedCluster, counted: Counted, show: Callable[[str], float]) -> float:
    """Returns the messages for one change, without those at rest."""
    cluster.start()
    await asyncio.sleep(SETTLE)
    show("start of all agents")
    await asyncio.sleep(REST)
    at_rest = show(f"{REST:.0f} s at rest")
    config = {"agent": "n20", "runtime": RUNTIME_NAME, "restartPolicy": "ALWAYS", "runtimeConfig": "v: 2"}
    end = cluster.loop.now + REST
    operation = await Operator(cluster.server_urls).write("w20", config, "2")
    if operation.outcome != ACCEPTED:
        raise SystemExit(f"the update was {operation.outcome}: {operation.text}")
    await asyncio.sleep(end - cluster.loop.now)
    changed = counted.since_last()[0] - at_rest
    print(f"          change of one workload {changed:8.0f} messages")
    return changed


def measure(agents: int) -> float:
    loop, random, counted = VirtualTimeLoop(), Random(1), Counted()
    disks = SimulatedDisks(random)
    began = time.process_time()
    record_traffic(counted)

    def show(what: str) -> float:
        messages, size = counted.since_last()
        print(f"          {what:22} {messages:8.0f} messages, {size / 1000:9.1f} kB", flush=True)
        return messages

    with (
        tempfile.TemporaryDirectory(prefix="ank-messages-") as folder,
        quiet(InternalErrors()),
        seeded(loop, random, others=disks.replaced()),
    ):
        print(f"{agents} agents:", flush=True)
        options = ClusterOptions(nodes=tuple(f"n{number}" for number in range(agents)), manifest=manifest(agents))
        cluster = SimulatedCluster(loop, random, Path(folder) / "hosts", options, disks)
        changed = loop.run_until_complete(scenario(cluster, counted, show))
        cluster.end()
        close(loop, Path(folder))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"          computed in {time.process_time() - began:.0f} s of CPU time, {memory:.0f} MiB", flush=True)
    return changed


def record_traffic(counted: Counted) -> None:
    """The server of the simulation is the only one in this process."""
    created = ServerTraffic.__init__

    def note(self: ServerTraffic, *arguments: object, **named: object) -> None:
        created(self, *arguments, **named)  # type: ignore[arg-type]
        counted.traffic = self

    ServerTraffic.__init__ = note  # type: ignore[method-assign]


def main(sizes: list[int]) -> int:
    changes = [measure(size) for size in sizes]
    ratio = max(changes) / min(changes)
    print(f"most messages for one change: {ratio:.1f} times the fewest, limit {MAX_RATIO:g}: ", end="")
    print("ok" if ratio <= MAX_RATIO else "NOT OK")
    return int(ratio > MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or list(SIZES)))
