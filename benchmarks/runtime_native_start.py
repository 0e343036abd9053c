"""Promise: starting a native workload takes less than 100 ms (median), and keeping it less than 4 MB.

The memory is what the process that stays with each workload does not share with others. Needs no rights.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ankaios.runtimes.native_processes import NativeFolder
from ankaios.runtimes.native_runtime import NativeRuntime
from ankaios.runtimes.runtime_connector import Extras
from tests.builders import a_workload

ROUNDS, START_PROMISE, MEMORY_PROMISE = 10, 0.1, 4_000


def private_memory(pid: int) -> int:
    """In kB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


async def measure(folder: Path) -> tuple[float, float]:
    runtime = NativeRuntime(folder)
    times, sizes = [], []
    for number in range(ROUNDS):
        spec = a_workload(f"w{number}", runtime="native", config="command: [sleep, '1000']")
        began = time.perf_counter()
        workload = await runtime.create_workload(spec, Extras())
        times.append(time.perf_counter() - began)
        found = NativeFolder(folder / workload).processes()
        assert found
        sizes.append(private_memory(found[1].pid))
        await runtime.delete_workload(workload)
    return statistics.median(times), statistics.median(sizes)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        took, size = asyncio.run(measure(Path(folder) / "native"))
    print(f"start: {took * 1000:.0f} ms; kept with {size / 1000:.1f} MB")
    kept = took < START_PROMISE and size < MEMORY_PROMISE
    print("promise kept" if kept else "promise broken")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
