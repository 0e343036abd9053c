"""Limit: from its start to its hello an agent uses less than 250 ms of processor time.

The process is started as it is installed; the time ends when its hello and its first load report have arrived. The
elapsed time, which is the same on an idle machine, is shown for comparison.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ankaios.common.channels import ToServerChannel
from ankaios.common.messages import AgentGone, FromAgent, ToServerMessage
from ankaios.middleware.server import MiddlewareServer
from benchmarks.installed import installed_python

LIMIT, ROUNDS = 0.25, 7


async def received(inbox: ToServerChannel, wanted: Callable[[ToServerMessage], bool]) -> None:
    async with asyncio.timeout(30):
        while not wanted(await inbox.receive()):
            pass


def processor_time(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


async def one_start(
    server: MiddlewareServer, inbox: ToServerChannel, folder: str, last: str = "AgentLoadStatus"
) -> tuple[float, float]:
    """Processor time and seconds until this message has arrived."""
    flags = ["-k", "-n", "A", "-s", f"http://127.0.0.1:{server.port}", "-r", folder]
    program = installed_python().with_name("ank-agent")
    began = time.perf_counter()
    agent = await asyncio.create_subprocess_exec(program, *flags, stderr=asyncio.subprocess.DEVNULL)
    await received(inbox, lambda item: isinstance(item, FromAgent) and item.message.HasField(last))
    took = processor_time(agent.pid), time.perf_counter() - began
    agent.terminate()
    await agent.wait()
    await received(inbox, lambda item: isinstance(item, AgentGone))
    return took


async def measure(last: str = "AgentLoadStatus") -> list[tuple[float, float]]:
    inbox = ToServerChannel(100)
    server = MiddlewareServer(inbox, None)
    await server.start("127.0.0.1", 0)
    with tempfile.TemporaryDirectory() as folder:
        times = [await one_start(server, inbox, folder, last) for _ in range(ROUNDS)]
    await server.close()
    return times


def main() -> int:
    times = asyncio.run(measure())
    median, wall = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"from start to hello: {median * 1000:.0f} ms of processor time, {wall * 1000:.0f} ms on the wall (medians)")
    print(f"limit: less than {LIMIT * 1000:.0f} ms of processor time")
    print("kept" if median < LIMIT else "BROKEN")
    return 0 if median < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
