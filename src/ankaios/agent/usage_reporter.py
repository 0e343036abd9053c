"""Reports the resource usage of the workloads to the server, only while the server requests it.

Input: requests of the server, and the first processes of each running workload. Output: one report soon after the first
request, then one each second. Owns the task that measures and its last samples.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from ankaios.agent.process_usage import UsageReader, UsageSample, cpu_millis
from ankaios.agent.server_link import Outbox
from ankaios.common.pb.ank_base_pb2 import ResourceUsage, WorkloadUsage
from ankaios.common.pb.grpc_api_pb2 import ToServer, UsageReport
from ankaios.common.proto_conversion import instance_name_to_pb
from ankaios.common.supervision import Supervisor
from ankaios.common.workload import InstanceName

FIRST_INTERVAL = 0.25  # the CPU usage is computed from two samples
INTERVAL = 1.0
MAX_SECONDS = 60

Processes = Mapping[InstanceName, Sequence[int]]
Samples = dict[InstanceName, UsageSample]


class UsageReporter:
    def __init__(self, processes: Callable[[], Processes], outbox: Outbox, tasks: Supervisor) -> None:
        self._processes = processes
        self._outbox = outbox
        self._tasks = tasks
        self._until = 0.0
        self._task: asyncio.Task[None] | None = None

    def measure(self, seconds: int) -> None:
        """Measure for at least this number of seconds from now on."""
        now = asyncio.get_running_loop().time()
        self._until = max(self._until, now + min(seconds, MAX_SECONDS))
        if self._task is None or self._task.done():
            self._task = self._tasks.run_once("the measurement of resource usage", self._run)

    def stop(self) -> None:
        """Stop after the connection is lost, because the requests for usage ended with it."""
        self._until = 0.0
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        before = await self._samples()
        await asyncio.sleep(FIRST_INTERVAL)
        while True:
            now = await self._samples()
            self._outbox.put_transient(ToServer(usageReport=usage_report(before, now)))
            before = now
            if asyncio.get_running_loop().time() + INTERVAL > self._until:
                return
            await asyncio.sleep(INTERVAL)

    async def _samples(self) -> Samples:
        """Read in a thread, because a machine can have many processes."""
        return await asyncio.to_thread(_read_samples, self._processes())


def _read_samples(processes: Processes) -> Samples:
    reader = UsageReader()
    return {name: sample for name, pids in processes.items() if (sample := reader.read(pids)) is not None}


def usage_report(before: Samples, now: Samples) -> UsageReport:
    return UsageReport(
        workloads=[
            WorkloadUsage(
                instanceName=instance_name_to_pb(name),
                usage=ResourceUsage(
                    cpuMillis=cpu_millis(before.get(name), sample),
                    memoryBytes=sample.memory_bytes,
                    uptimeSeconds=int(sample.uptime),
                ),
            )
            for name, sample in now.items()
        ]
    )
