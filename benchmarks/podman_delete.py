"""Limits: deleting a podman workload takes at most 0.9 times as long as separate podman calls.

Separate calls are `podman stop` and `podman rm`, one after another; the agent removes with one call. Both ways
alternate, so that other load affects both equally; medians count. Needs root rights and podman.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ankaios.common.workload import WorkloadSpec
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_runtime import Podman, PodmanRuntime
from ankaios.runtimes.podman.podman_settings import PodmanSettings
from ankaios.runtimes.runtime_connector import Extras
from benchmarks.real_cluster import verdict
from tests.support.builders import a_workload
from tests.support.podman_env import IMAGE, PodmanEnv, why_no_podman

ROUNDS, MAX_RATIO, CALL_LIMIT = 10, 0.9, 60.0


def a_spec(number: int) -> WorkloadSpec:
    """The program ends immediately after the stop signal, as a correct workload does."""
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
        self._number = 0
        self._container = ""

    async def start(self) -> None:
        self._number += 1
        self._container = await self._runtime.create_workload(a_spec(self._number), Extras())

    async def delete(self) -> None:
        await self._runtime.delete_workload(self._container)

    async def delete_by_calls(self) -> None:
        for word in ("stop", "rm"):
            await self._cli._call_now([word, self._container], CALL_LIMIT)


async def measure(environ: dict[str, str]) -> tuple[float, float]:
    """The median seconds of one call, and of separate calls."""
    cli = PodmanCli(PodmanSettings(environment=environ))
    podman = Podman(cli)
    times = PodmanTimes(PodmanRuntime(podman), cli)
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for values, delete in zip(found, (times.delete, times.delete_by_calls), strict=True):
            await times.start()
            values.append(await seconds(delete()))
    await podman.close()
    return statistics.median(found[0]), statistics.median(found[1])


def main() -> int:
    if reason := why_no_podman():
        raise SystemExit(reason)
    with PodmanEnv() as env:
        took, calls = asyncio.run(measure(env.environ))
    times = f"{took * 1000:.0f} ms, by separate calls {calls * 1000:.0f} ms"
    print(f"delete: {times}: {took / calls:.2f}, at most {MAX_RATIO}")
    return verdict(took / calls <= MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
