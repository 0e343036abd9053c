"""Reports the load of the machine to the server every two seconds.

Input: samples of the resource monitor. Output: load reports. The first report is created immediately and sent after the
first hello. Each new hello restarts the interval, so that the server receives one report immediately and the next one
after the full interval.
"""

import asyncio

from ankaios.agent.resource_monitor import ResourceMonitor
from ankaios.agent.server_link import Outbox
from ankaios.common.pb.ank_base_pb2 import CpuUsage, FreeMemory
from ankaios.common.pb.grpc_api_pb2 import AgentLoadStatus, ToServer

REPORT_INTERVAL = 2.0


class LoadReporter:
    def __init__(self, agent: str, outbox: Outbox, monitor: ResourceMonitor) -> None:
        self._agent = agent
        self._outbox = outbox
        self._monitor = monitor
        self._connected = asyncio.Event()

    def connected(self) -> None:
        self._connected.set()

    async def run(self) -> None:
        while True:
            load = self._monitor.sample()
            status = AgentLoadStatus(
                agent_name=self._agent,
                cpu_usage=CpuUsage(cpu_usage=load.cpu_percent),
                free_memory=FreeMemory(free_memory=load.free_bytes),
            )
            self._outbox.put_load(ToServer(AgentLoadStatus=status))
            await self._interval()

    async def _interval(self) -> None:
        """Wait until the interval has passed without a new hello."""
        while True:
            self._connected.clear()
            try:
                async with asyncio.timeout(REPORT_INTERVAL):
                    await self._connected.wait()
            except TimeoutError:
                return
