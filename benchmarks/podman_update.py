"""Promises: deleting a podman workload takes at most 0.9 times of separate podman calls, updating it 0.85 times.

Separate calls are `podman stop`, `podman rm` and `podman run`, one after another. The agent removes with one call, and
creates the container of the successor while the old one stops. Both ways alternate, so that a busy machine disturbs
both alike; medians count. Needs root rights and podman.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ankaios.agent.successor import PreparedSuccessor
from ankaios.common.workload import WorkloadSpec
from ankaios.runtimes.podman_cli import PodmanCli
from ankaios.runtimes.podman_runtime import Podman, PodmanRuntime
from ankaios.runtimes.podman_settings import PodmanSettings
from ankaios.runtimes.runtime_connector import Extras
from benchmarks.real_cluster import verdict
from tests.support.builders import a_workload
from tests.support.podman_env import IMAGE, PodmanEnv, why_no_podman

ROUNDS, MAX_DELETE, MAX_UPDATE, CALL_LIMIT = 10, 0.9, 0.85, 60.0


def a_spec(number: int) -> WorkloadSpec:
    """The program ends at once when it gets the stop signal, as a well-behaved workload does."""
    script = f"trap exit TERM; sleep {1000 + number} & wait"
    return a_workload("web", config=f"image: {IMAGE}\ncommandArgs: [sh, -c, '{script}']")


async def seconds(awaited: Awaitable[None]) -> float:
    began = time.perf_counter()
    await awaited
    return time.perf_counter() - began


class PodmanTimes:
    def __init__(self, runtime: PodmanRuntime, cli: PodmanCli) -> None:
        self._runtime = runtime
        self._cli = cli
        self._spec = a_spec(0)
        self._number = 0
        self._container = ""

    async def start(self) -> None:
        self._number += 1
        self._spec = a_spec(self._number)
        self._container = await self._runtime.create_workload(self._spec, Extras())

    async def delete(self) -> None:
        await self._runtime.delete_workload(self._container)

    async def delete_by_calls(self) -> None:
        for word in ("stop", "rm"):
            await self._cli._call([word, self._container], CALL_LIMIT)

    async def update(self) -> None:
        successor = PreparedSuccessor({"podman": self._runtime})
        old, self._number = self._spec, self._number + 1
        self._spec = a_spec(self._number)
        successor.begin(old, self._spec)
        await self.delete()
        prepared = await successor.take(self._spec)
        self._container = await self._runtime.create_workload(self._spec, Extras(reuse=prepared))

    async def update_by_calls(self) -> None:
        await self.delete_by_calls()
        await self.start()


async def measure(environ: dict[str, str]) -> dict[str, float]:
    """The median seconds of each way."""
    cli = PodmanCli(PodmanSettings(environment=environ))
    podman = Podman(cli)
    times = PodmanTimes(PodmanRuntime(podman), cli)
    found: dict[str, list[float]] = {"update": [], "update by calls": [], "delete": [], "delete by calls": []}
    for _ in range(ROUNDS):
        await times.start()
        found["update"].append(await seconds(times.update()))
        found["update by calls"].append(await seconds(times.update_by_calls()))
        found["delete"].append(await seconds(times.delete()))
        await times.start()
        found["delete by calls"].append(await seconds(times.delete_by_calls()))
    await podman.close()
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> int:
    if reason := why_no_podman():
        raise SystemExit(reason)
    with PodmanEnv() as env:
        found = asyncio.run(measure(env.environ))
    holds = True
    for name, limit in (("delete", MAX_DELETE), ("update", MAX_UPDATE)):
        took, calls = found[name], found[f"{name} by calls"]
        holds &= took / calls <= limit
        times = f"{took * 1000:.0f} ms, by separate calls {calls * 1000:.0f} ms"
        print(f"{name}: {times}: {took / calls:.2f}, at most {limit}")
    return verdict(holds)


if __name__ == "__main__":
    sys.exit(main())
