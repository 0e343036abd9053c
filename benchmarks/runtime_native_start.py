"""Limits: starting a native workload takes at most 5 times as long as a bare Python process, and keeping it 4 MB.

Both are started the same way and alternate, so that other load affects both equally; medians count. The memory is
the private memory of the process that keeps each workload. Needs no rights.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ankaios.runtimes.command import run_command
from ankaios.runtimes.native.native_runtime import NativeRuntime
from ankaios.runtimes.native.processes import NativeFolder
from ankaios.runtimes.runtime_connector import Extras
from tests.support.builders import a_workload

ROUNDS, MAX_RATIO, MAX_MEMORY = 15, 5.0, 4_000


def private_memory(pid: int) -> int:
    """In kB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


async def bare_start() -> float:
    began = time.perf_counter()
    await run_command(sys.executable, ["-I", "-S", "-c", "pass"], limit=60)
    return time.perf_counter() - began


async def measure(folder: Path) -> tuple[float, float, float]:
    runtime = NativeRuntime(folder)
    times, sizes, bare = [], [], []
    for number in range(ROUNDS):
        bare.append(await bare_start())
        spec = a_workload(f"w{number}", runtime="native", config="command: [sleep, '1000']")
        began = time.perf_counter()
        workload = await runtime.create_workload(spec, Extras())
        times.append(time.perf_counter() - began)
        found = NativeFolder(folder / workload).processes()
        assert found
        sizes.append(private_memory(found[1].pid))
        await runtime.delete_workload(workload)
    return statistics.median(times), statistics.median(bare), statistics.median(sizes)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        took, bare, size = asyncio.run(measure(Path(folder) / "native"))
    print(f"start: {took * 1000:.0f} ms, {took / bare:.1f} times a bare Python; kept with {size / 1000:.1f} MB")
    kept = took <= MAX_RATIO * bare and size <= MAX_MEMORY
    print("within the limit" if kept else "limit exceeded")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
