"""Limit: the end of a podman container is reported in less time than one `podman ps` takes (median).

No polling program can achieve that. A container spins until a file appears and ends; the time from the creation of the
file to the report counts. Needs root rights and podman.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ankaios.common.device_grant import DeviceGrant, DeviceMount
from ankaios.common.execution_state import ExecutionState, exited
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_runtime import Podman, PodmanRuntime
from ankaios.runtimes.podman.podman_settings import PodmanSettings
from ankaios.runtimes.runtime_connector import Extras
from tests.support.builders import a_workload
from tests.support.podman_env import IMAGE, PodmanEnv, why_no_podman

ROUNDS, MAX_RATIO = 15, 1.0
SCRIPT = "while [ ! -e /moment/now ]; do :; done; exit 3"


async def one_exit(runtime: PodmanRuntime, folder: Path, number: int) -> float:
    spec = a_workload(f"w{number}", config=f"image: {IMAGE}\ncommandArgs: [sh, -c, '{SCRIPT}']")
    extras = Extras(grants=(DeviceGrant(mounts=(DeviceMount("/moment", str(folder)),)),))
    workload = await runtime.create_workload(spec, extras)
    reported = asyncio.get_running_loop().create_future()

    def sink(state: ExecutionState) -> None:
        if state == exited(3):
            reported.set_result(time.perf_counter())

    checker = runtime.start_checker(spec, workload, sink)
    await asyncio.sleep(0.3)
    began = time.perf_counter()
    (folder / "now").touch()
    took: float = await reported - began
    checker.stop()
    (folder / "now").unlink()
    await runtime.delete_workload(workload)
    return took


async def measure(env: PodmanEnv) -> list[float]:
    runtime = PodmanRuntime(Podman(PodmanCli(PodmanSettings(environment=env.environ))))
    with tempfile.TemporaryDirectory() as folder:
        times = [await one_exit(runtime, Path(folder), number) for number in range(ROUNDS)]
    await runtime.close()
    return times


def one_listing(env: PodmanEnv) -> float:
    began = time.perf_counter()
    env.podman("ps", "--all", "--format=json")
    return time.perf_counter() - began


def main() -> int:
    if reason := why_no_podman():
        print(f"skipped: {reason}")
        return 0
    with PodmanEnv() as env:
        listing = statistics.median(one_listing(env) for _ in range(5))
        times = asyncio.run(measure(env))
    median = statistics.median(times)
    print(f"exit to report: median {median * 1000:.1f} ms, worst {max(times) * 1000:.1f} ms of {ROUNDS}")
    print(f"one `podman ps`: {listing * 1000:.0f} ms")
    kept = median <= MAX_RATIO * listing
    print("within the limit" if kept else "limit exceeded")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
