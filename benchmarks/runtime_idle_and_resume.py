"""Limits for 50 running podman containers: watching them costs less than 0.5 % of a core, and a restarted agent
resumes them all in less time than two `podman ps` take.

The cost is the CPU time of this process and of the podman calls it makes, over an interval between two of the slow
listings that detect changes without an event, with one such listing added in proportion. Needs root rights and podman.
"""

import asyncio
import resource
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ankaios.common.execution_state import RUNNING_OK, ExecutionState
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_runtime import Podman, PodmanRuntime
from ankaios.runtimes.podman.podman_settings import PodmanSettings
from ankaios.runtimes.runtime_connector import Extras
from tests.support.builders import a_workload
from tests.support.podman_env import IMAGE, PodmanEnv, why_no_podman

COUNT, WATCHED, IDLE_PROMISE = 50, 65.0, 0.005
SPECS = [a_workload(f"w{number}", config=f"image: {IMAGE}\ncommandArgs: [sleep, '100000']") for number in range(COUNT)]


def runtime_of(env: PodmanEnv) -> PodmanRuntime:
    return PodmanRuntime(Podman(PodmanCli(PodmanSettings(environment=env.environ))))


def cpu_time() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


async def start_all(env: PodmanEnv) -> float:
    runtime = runtime_of(env)
    began = time.perf_counter()
    await asyncio.gather(*(runtime.create_workload(spec, Extras()) for spec in SPECS))
    took = time.perf_counter() - began
    await runtime.close()
    return took


async def resume(runtime: PodmanRuntime) -> float:
    """From the start until all states are reported."""
    running = asyncio.Event()
    reported: list[ExecutionState] = []

    def sink(state: ExecutionState) -> None:
        reported.append(state)
        if reported.count(RUNNING_OK) == COUNT:
            running.set()

    began = time.perf_counter()
    assert len(await runtime.existing_workloads("agent_A")) == COUNT
    for spec in SPECS:
        workload = await runtime.workload_id(spec.instance_name)
        assert workload
        runtime.start_checker(spec, workload, sink)
    await running.wait()
    return time.perf_counter() - began


async def resume_and_idle(env: PodmanEnv) -> tuple[float, float]:
    resumed = []
    for _ in range(5):
        runtime = runtime_of(env)
        resumed.append(await resume(runtime))
        await runtime.close()
    runtime = runtime_of(env)
    await resume(runtime)
    began, used = time.perf_counter(), cpu_time()
    await asyncio.sleep(WATCHED)
    share = (cpu_time() - used) / (time.perf_counter() - began)
    await runtime.close()
    return statistics.median(resumed), share


def main() -> int:
    if reason := why_no_podman():
        print(f"skipped: {reason}")
        return 0
    with PodmanEnv() as env:
        print(f"{COUNT} containers started in {asyncio.run(start_all(env)):.1f} s")
        listings = []
        for _ in range(5):
            began = time.perf_counter()
            env.podman("ps", "--all", "--format=json")
            listings.append(time.perf_counter() - began)
        resumed, share = asyncio.run(resume_and_idle(env))
    listing = statistics.median(listings)
    print(f"one `podman ps`: {listing * 1000:.0f} ms; resume of {COUNT}: {resumed * 1000:.0f} ms")
    print(f"watching {COUNT} containers for {WATCHED:.0f} s: {share:.2%} of a core")
    kept = resumed < 2 * listing and share < IDLE_PROMISE
    print("within the limit" if kept else "limit exceeded")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
