"""Collects logs of workloads for log requests.

Input: log requests, the runtime and id of workloads, output from the runtime. Output: log entries and, at the end of
each workload's output, a stop message. The module owns the running collections. Entries are not buffered: a collection
stops reading while its entries are not sent.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial

from ankaios.agent.core.log_splitting import LineSplitter, as_responses
from ankaios.agent.server_link import Outbox
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import LogEntriesResponse, LogsStopResponse, ToServer
from ankaios.common.supervision import Supervisor, internal_error
from ankaios.runtimes.runtime_connector import LogOptions, RuntimeConnector

_MAX_UNSENT = 4

log = logging.getLogger(__name__)

LogSource = tuple[RuntimeConnector, str]


def options_of(request: base.LogsRequest) -> LogOptions:
    return LogOptions(
        follow=request.follow,
        tail=request.tail if request.HasField("tail") else None,
        since=request.since if request.HasField("since") else None,
        until=request.until if request.HasField("until") else None,
    )


class LogStreams:
    def __init__(self, source_of: Callable[[str], LogSource | None], outbox: Outbox, tasks: Supervisor) -> None:
        self._source_of = source_of
        self._outbox = outbox
        self._tasks = tasks
        self._running: dict[str, list[asyncio.Task[None]]] = {}

    def start(self, request_id: str, request: base.LogsRequest) -> None:
        """Start to collect; an older collection with the same id is cancelled."""
        self.cancel(request_id)
        options = options_of(request)
        running = []
        for name in request.workloadNames:
            collection = LogCollection(request_id, name, self._outbox)
            # By name: the logs of the current instance are collected.
            source = self._source_of(name.workloadName)
            if source is None:
                collection.stop()  # there are no logs, so the requester must not wait
            else:
                task_name = f"logs of '{name.workloadName}' for {request_id}"
                running.append(self._tasks.run_once(task_name, partial(collection.run, *source, options)))
        if running:
            self._running[request_id] = running
            for task in running:
                task.add_done_callback(lambda _: self._forget(request_id))

    def cancel(self, request_id: str) -> None:
        for task in self._running.pop(request_id, []):
            task.cancel()

    def cancel_all(self) -> None:
        for request_id in list(self._running):
            self.cancel(request_id)

    def _forget(self, request_id: str) -> None:
        if all(task.done() for task in self._running.get(request_id, [])):
            self._running.pop(request_id, None)


class LogCollection:
    """The logs of one workload for one request."""

    def __init__(self, request_id: str, name: base.WorkloadInstanceName, outbox: Outbox) -> None:
        self._request_id = request_id
        self._name = name
        self._outbox = outbox
        self._splitter = LineSplitter()
        self._unsent_limit = asyncio.Semaphore(_MAX_UNSENT)

    async def run(self, connector: RuntimeConnector, runtime_id: str, options: LogOptions) -> None:
        """Collect the logs. A failure is reported as the last line, like the error output of a container engine."""
        failure = []
        try:
            await self._read(connector.logs(runtime_id, options))
        except (Rejected, Unavailable) as error:
            log.warning("no (more) logs of '%s': %s", self._name.workloadName, error)
            failure = [str(error)]
        except Exception as error:
            what = f"the logs of '{self._name.workloadName}'"
            failure = [internal_error(what, error, "stopping their collection")]
        await self._send([*self._splitter.finish(), *failure])
        self.stop()

    async def _read(self, pieces: AsyncIterator[bytes]) -> None:
        try:
            async for piece in pieces:
                await self._send(self._splitter.feed(piece))
                if self._splitter.overflowed:
                    return
        finally:
            if hasattr(pieces, "aclose"):
                await pieces.aclose()

    async def _send(self, lines: Iterable[str]) -> None:
        for response in as_responses(self._name, lines):
            await self._unsent_limit.acquire()
            entries = LogEntriesResponse(requestId=self._request_id, logEntriesResponse=response)
            self._outbox.put_transient(ToServer(logEntriesResponse=entries), self._unsent_limit.release)

    def stop(self) -> None:
        """Report that there are no more logs."""
        response = base.LogsStopResponse(workloadName=self._name)
        stop = LogsStopResponse(requestId=self._request_id, logsStopResponse=response)
        self._outbox.put_transient(ToServer(logsStopResponse=stop))
