"""Collects logs of workloads for log requests.

Input: log requests, the runtime and id of workloads, output from the runtime. Output: log entries and, at the end of
each workload's output, a stop message. The module owns the running collections. Entries are not buffered: a collection
stops reading while its entries are not sent.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from ankaios.agent.core.log_splitting import LineSplitter, as_responses
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import LogEntriesResponse, LogsStopResponse, ToServer
from ankaios.common.supervision import Supervisor, internal_error
from ankaios.runtimes.runtime_connector import LogOptions, RuntimeConnector

_MESSAGES_UNDER_WAY = 4

log = logging.getLogger(__name__)

LogSource = tuple[RuntimeConnector, str]


class Outlet(Protocol):
    def put_transient(self, message: ToServer, left: Callable[[], None] | None = None) -> None: ...


def options_of(request: base.LogsRequest) -> LogOptions:
    return LogOptions(
        follow=request.follow,
        tail=request.tail if request.HasField("tail") else None,
        since=request.since if request.HasField("since") else None,
        until=request.until if request.HasField("until") else None,
    )


class LogStreams:
    def __init__(self, source_of: Callable[[str], LogSource | None], outlet: Outlet, tasks: Supervisor) -> None:
        self._source_of = source_of
        self._outlet = outlet
        self._tasks = tasks
        self._running: dict[str, list[asyncio.Task[None]]] = {}

    def start(self, request_id: str, request: base.LogsRequest) -> None:
        """Start to collect; an older collection with the same id is cancelled."""
        self.cancel(request_id)
        options = options_of(request)
        running = []
        for name in request.workloadNames:
            # By name: the logs of the current instance are collected.
            source = self._source_of(name.workloadName)
            if source is None:
                self._stop(request_id, name)  # there are no logs, so the requester must not wait
            else:
                running.append(self._begin(request_id, name, source, options))
        if running:
            self._running[request_id] = running
            for task in running:
                task.add_done_callback(lambda _: self._forget(request_id))

    def _begin(
        self, request_id: str, name: base.WorkloadInstanceName, source: LogSource, options: LogOptions
    ) -> asyncio.Task[None]:
        task_name = f"logs of '{name.workloadName}' for {request_id}"
        return self._tasks.run_once(task_name, lambda: self._collect(request_id, name, source, options))

    def cancel(self, request_id: str) -> None:
        for task in self._running.pop(request_id, []):
            task.cancel()

    def cancel_all(self) -> None:
        for request_id in list(self._running):
            self.cancel(request_id)

    def _forget(self, request_id: str) -> None:
        if all(task.done() for task in self._running.get(request_id, [])):
            self._running.pop(request_id, None)

    async def _collect(
        self, request_id: str, name: base.WorkloadInstanceName, source: LogSource, options: LogOptions
    ) -> None:
        """Collect the logs. A failure is reported as the last line, like the error output of a container engine."""
        why = ""
        try:
            await self._read(request_id, name, source, options)
        except (Rejected, Unavailable) as error:
            log.warning("no (more) logs of '%s': %s", name.workloadName, error)
            why = str(error)
        except Exception as error:
            why = internal_error(f"the logs of '{name.workloadName}'", error, "stopping their collection")
        if why:
            await self._send(request_id, name, [why], asyncio.Semaphore(_MESSAGES_UNDER_WAY))
        self._stop(request_id, name)

    async def _read(
        self, request_id: str, name: base.WorkloadInstanceName, source: LogSource, options: LogOptions
    ) -> None:
        connector, runtime_id = source
        splitter, room = LineSplitter(), asyncio.Semaphore(_MESSAGES_UNDER_WAY)
        pieces = connector.logs(runtime_id, options)
        try:
            async for piece in pieces:
                await self._send(request_id, name, splitter.feed(piece), room)
                if splitter.overflowed:
                    return
        finally:
            if hasattr(pieces, "aclose"):
                await pieces.aclose()
        await self._send(request_id, name, splitter.finish(), room)

    async def _send(
        self, request_id: str, name: base.WorkloadInstanceName, lines: Iterable[str], room: asyncio.Semaphore
    ) -> None:
        for response in as_responses(name, lines):
            await room.acquire()
            entries = LogEntriesResponse(requestId=request_id, logEntriesResponse=response)
            self._outlet.put_transient(ToServer(logEntriesResponse=entries), room.release)

    def _stop(self, request_id: str, name: base.WorkloadInstanceName) -> None:
        stop = LogsStopResponse(requestId=request_id, logsStopResponse=base.LogsStopResponse(workloadName=name))
        self._outlet.put_transient(ToServer(logsStopResponse=stop))
