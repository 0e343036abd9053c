"""Limit: a workload gets a device within 50 ms, also one just released by another workload, which takes at most 5 ms.

The whole claim is measured: plan, the server's answer for a shared device, the ledger, the devices file, and the record
that is kept after a crash. The agent sees ten and two hundred devices.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.integration.devices.cluster import Agent, Cluster
from tests.support.waiting import until

CLAIMS, HANDOVERS = 100, 50
CLAIM_LIMIT, RELEASE_LIMIT = 0.050, 0.005


async def measure(agent: Agent) -> tuple[float, float]:
    claims, releases = [], []
    for number in range(CLAIMS):
        began = time.perf_counter()
        await agent.acquire_when_possible(f"w{number}")
        granted = time.perf_counter()
        agent.manager.release(f"w{number}")
        claims.append(granted - began)
        releases.append(time.perf_counter() - granted)
    return statistics.median(claims), statistics.median(releases)


async def handed_over(shared: bool) -> float:
    """From the release of the only slot until the workload that waits for it may start."""
    with tempfile.TemporaryDirectory(prefix="dev-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder))
        agent = await cluster.agent("node-a", shared, "d0")
        cluster.configure(capacity=1)
        times = []
        async with asyncio.timeout(60):
            await agent.acquire_when_possible("w0")
            for number in range(HANDOVERS):
                waits = asyncio.create_task(agent.acquire_when_possible(f"w{number + 1}"))
                await until(lambda: bool(agent.manager._pending._pending))
                began = time.perf_counter()
                agent.manager.release(f"w{number}")
                await waits
                times.append(time.perf_counter() - began)
        await cluster.stop()
        return statistics.median(times)


async def with_devices(number: int, shared: bool) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="dev-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder))
        agent = await cluster.agent("node-a", shared, *(f"d{index}" for index in range(number)))
        cluster.configure(capacity=10)
        async with asyncio.timeout(60):
            await agent.acquire_when_possible("probe")
            await until(lambda: agent.manager.node.ledger.free_instances("cam") == number)
        result = await measure(agent)
        await cluster.stop()
        return result


def main() -> int:
    ok = True
    for number in (10, 200):
        for shared in (False, True):
            claim, release = asyncio.run(with_devices(number, shared))
            kind = "shared" if shared else "local"
            print(f"{number:4} {kind:6} devices: claim {claim * 1e3:6.2f} ms, release {release * 1e3:6.2f} ms")
            ok &= claim <= CLAIM_LIMIT and release <= RELEASE_LIMIT
    for shared in (False, True):
        elapsed = asyncio.run(handed_over(shared))
        print(f"slot of a {'shared' if shared else 'local'} device freed to the next holder: {elapsed * 1e3:6.2f} ms")
        ok &= elapsed <= CLAIM_LIMIT
    print(f"limit: at most {CLAIM_LIMIT * 1e3:.0f} ms and {RELEASE_LIMIT * 1e3:.0f} ms")
    print("kept" if ok else "BROKEN")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
