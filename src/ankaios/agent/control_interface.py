"""The control interface of one workload: two FIFOs and one session.

Input: frames from the workload, responses from the server. Output: requests to the server, frames to the workload. The
module owns the FIFOs, the pending requests, and the messages that wait for a slow workload. Each interface has separate
tasks and limits, so that a misbehaving workload does not affect others.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ankaios.agent.core.authorizer import Authorizer
from ankaios.agent.core.control_session import (
    ACCEPTED,
    ACCESS_DENIED,
    Accept,
    Answer,
    Close,
    ControlSession,
    Forward,
    Notified,
    Reaction,
    Skip,
    closed_message,
    last_hello,
    request_id_of,
    response_message,
)
from ankaios.agent.core.framing import FrameDecoder, Garbage, encode
from ankaios.agent.core.health import HealthResult
from ankaios.agent.core.pending_requests import LONGEST_WAIT, PendingRequests
from ankaios.agent.fifo import FifoReader, FifoWriter, is_fifo_at, make_fifo
from ankaios.agent.server_link import Outbox
from ankaios.agent.tree_removal import remove_tree
from ankaios.common.messages import REQUEST_ID_SEPARATOR, error_response
from ankaios.common.pb.ank_base_pb2 import Request, Response
from ankaios.common.pb.grpc_api_pb2 import ToServer
from ankaios.common.supervision import Supervisor, internal_error
from ankaios.common.workload import WorkloadSpec

MAX_WAITING = 1024
MAX_WAITING_BYTES = 8 * 1024 * 1024
MAX_WARNINGS = 20
MAX_QUEUED_REQUESTS = 20
_FRAMES_AT_ONCE = 32

log = logging.getLogger(__name__)


class _Outgoing(Struct, frozen=True):
    frame: bytes
    log_request: str | None = None  # the log request that is cancelled if its entries are not read


class ControlInterface:
    def __init__(
        self,
        spec: WorkloadSpec,
        folder: Path,
        outbox: Outbox,
        notified: Callable[[HealthResult], None],
        tasks: Supervisor,
    ) -> None:
        """`notified` is called with each health notification. Raises OSError if the FIFOs cannot be created.

        [impl->swdd~agent-control-interface-creates-two-pipes-per-workload~1]
        [impl->swdd~agent-create-control-interface-pipes-per-workload~1]
        """
        self.spec = spec
        self.folder = folder
        self._outbox = outbox
        self._notified = notified
        with suppress(FileExistsError):
            folder.mkdir(mode=0o755)
        self._made = {path: make_fifo(path) for path in (folder / "input", folder / "output")}
        self._session = ControlSession(spec.name, Authorizer(spec.access))
        self._decoder = FrameDecoder()
        self._reader = FifoReader(folder / "output")
        self._writer = FifoWriter(folder / "input")
        self._urgent: deque[bytes] = deque()
        self._waiting: deque[_Outgoing] = deque()
        self._waiting_bytes = 0
        self._output_added = asyncio.Event()
        self._space_freed = asyncio.Event()
        self._requests = PendingRequests()
        self._queue_slots = asyncio.Semaphore(MAX_QUEUED_REQUESTS)  # requests that wait in the outbox
        self._answered = asyncio.Event()
        self._unread_logs: deque[str] = deque(maxlen=64)
        self._warnings = 0
        self._tasks = [
            tasks.keep_running(f"the control interface of '{spec.name}', requests", self._read),
            tasks.keep_running(f"the control interface of '{spec.name}', responses", self._write),
        ]

    def serves(self, spec: WorkloadSpec) -> bool:
        """Return whether the session can continue for this specification."""
        return (spec.instance_name, spec.access) == (self.spec.instance_name, self.spec.access)

    def is_intact(self) -> bool:
        """Return False if the workload, which may write to the folder, replaced or removed one of the FIFOs."""
        return all(is_fifo_at(path, made) for path, made in self._made.items())

    async def close(self, *, keep_fifos: bool = False) -> None:
        """Close the session. The FIFOs are kept when only the agent ends, because the next agent reuses them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._reader.close()
        self._writer.close()
        if not keep_fifos:
            remove_tree(self.folder)  # many files of a workload are removed later, with the folder of the workload

    def deliver(self, response: Response) -> None:
        """Record a response of the server, and queue what the workload receives.

        [impl->swdd~agent-forward-responses-to-control-interface-pipe~1]
        """
        forwarded = self._requests.received(response)
        self._answered.set()
        if forwarded is not None:
            self._queue(forwarded)

    def _queue(self, response: Response) -> None:
        """Queue a response for the workload, or drop it if the queue is full."""
        is_log = response.HasField("logEntriesResponse")
        item = _Outgoing(encode(response_message(response)), response.requestId if is_log else None)
        if self._session.dead or not self._fits(item):
            self._drop(item)
            return
        self._append(item)

    def _fits(self, item: _Outgoing) -> bool:
        if len(self._waiting) >= MAX_WAITING:
            return False
        return not self._waiting or self._waiting_bytes + len(item.frame) <= MAX_WAITING_BYTES

    def _append(self, item: _Outgoing) -> None:
        self._waiting.append(item)
        self._waiting_bytes += len(item.frame)
        self._output_added.set()

    def _drop(self, item: _Outgoing) -> None:
        self._warn("messages are dropped, the workload does not read them")
        if item.log_request is not None and item.log_request not in self._unread_logs:
            self._unread_logs.append(item.log_request)  # more of its entries may still arrive
            self._requests.forget(item.log_request)
            self._outbox.cancel_logs(f"{self.spec.name}{REQUEST_ID_SEPARATOR}{item.log_request}")

    def _warn(self, why: str) -> None:
        """Log a limited number of warnings, so that a workload cannot fill the log of the agent."""
        self._warnings += 1
        if self._warnings <= MAX_WARNINGS:
            log.warning("control interface of '%s': %s", self.spec.name, why)

    async def _read(self) -> None:
        """Read requests of the workload, as fast as the agent can handle them.

        [impl->swdd~agent-listens-for-requests-from-pipe~1]
        [impl->swdd~agent-ensures-control-interface-output-pipe-read~1]
        """
        hello, self._reader.left_behind = last_hello(self._reader.left_behind), b""
        if hello is not None and not await self._receive_safely(hello):
            return
        while not self._session.dead:
            try:
                data = await self._reader.read()
            except OSError as error:
                self._warn(f"the workload replaced or removed a FIFO: {error}")
                return
            if not data:
                self._decoder.reset()
                continue
            for number, frame in enumerate(self._decoder.feed(data)):
                if number % _FRAMES_AT_ONCE == _FRAMES_AT_ONCE - 1:
                    await asyncio.sleep(0)  # let other tasks run
                if not await self._receive_safely(frame):
                    return  # the reading end stays open, but is not read any more
            await asyncio.sleep(0)

    async def _receive_safely(self, frame: bytes | Garbage) -> bool:
        """Handle a frame. An internal error affects only this frame, and is sent to the workload as the answer."""
        try:
            return await self._receive(frame)
        except Exception as error:
            why = internal_error(f"a message of workload '{self.spec.name}'", error)
            if (request_id := request_id_of(frame)) is not None:
                self._queue(error_response(request_id, why))
            return not self._session.dead

    async def _receive(self, frame: bytes | Garbage) -> bool:
        """Return whether the session continues."""
        self._writer.expect_reader()
        reaction: Reaction = self._session.receive(frame)
        match reaction:
            case Accept():
                if encode(ACCEPTED) not in self._urgent:
                    self._send_urgent(encode(ACCEPTED))
            case Answer(response):
                if response.error.message == ACCESS_DENIED:
                    self._outbox.observer.request_denied()
                await self._answer(response)
            case Forward(request):
                await self._forward(request)
            case Close(reason):
                self._warn(f"closed: {reason}")
                self._waiting.clear()
                self._waiting_bytes = 0
                self._send_urgent(encode(closed_message(reason)))
            case Notified(result):
                self._notified(result)
            case Skip(why):
                self._warn(f"a message is ignored: {why}")
        return not self._session.dead

    async def _forward(self, request: Request) -> None:
        """Send the request. While too many are unanswered or queued, wait, and read nothing from the workload.

        [impl->swdd~agent-forward-request-from-control-interface-pipe-to-server~1]
        """
        while self._requests.is_full(self._now()):
            self._answered.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_WAIT / 5):
                    await self._answered.wait()
        await self._queue_slots.acquire()
        self._requests.sent(request, self._now())
        self._outbox.put(ToServer(request=request), self._queue_slots.release)

    def repeat_requests(self, since: str) -> None:
        """Send subscriptions and followed logs to the next server; logs continue at this time (RFC 3339)."""
        for request in self._requests.repeat(since):
            self._outbox.put(ToServer(request=request))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _send_urgent(self, frame: bytes) -> None:
        self._urgent.append(frame)
        self._output_added.set()

    async def _answer(self, response: Response) -> None:
        """Queue an answer. While the queue is full, wait and read no requests from the workload."""
        item = _Outgoing(encode(response_message(response)))
        while not self._fits(item):
            self._space_freed.clear()
            await self._space_freed.wait()
        self._append(item)

    async def _write(self) -> None:
        while True:
            if self._urgent:
                await self._write_urgent()
            elif self._waiting and self._session.accepted:
                await self._write_waiting()
            else:
                self._output_added.clear()
                await self._output_added.wait()

    async def _write_urgent(self) -> None:
        frame = self._urgent.popleft()
        if not await self._writer.write(frame):
            self._warn("the workload sent a hello but does not read")
            self._session.acceptance_failed()

    async def _write_waiting(self) -> None:
        item = self._waiting.popleft()
        self._waiting_bytes -= len(item.frame)
        self._space_freed.set()
        if not await self._writer.write(item.frame):
            self._drop(item)
