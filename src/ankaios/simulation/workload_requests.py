"""Requests and subscriptions of simulated workloads through their control interface, as programs in containers do.

Input: the folder with the FIFOs of a running workload. Output: the responses and events of the real agent and server.
The FIFOs are real ones; both ends are in this process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from google.protobuf.message import DecodeError

from ankaios.agent.core.framing import FrameDecoder, encode
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.control_api_pb2 import FromAnkaios, Hello, ToAnkaios
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.simulation.operator import StateCopy, subscription

RESPONSE_LIMIT = 10.0
_LOOK = 0.02
_SESSION_LOOK = 1.0


@contextmanager
def _session(folder: Path, request: base.Request) -> Iterator[int | None]:
    """Open both FIFOs and send a request. Return the FIFO of responses; None if no agent has opened its ends."""
    with ExitStack() as opened:
        try:
            reader = _opened(opened, folder / "input", os.O_RDONLY)
            writer = _opened(opened, folder / "output", os.O_WRONLY)
            for message in (ToAnkaios(hello=Hello(protocolVersion=PROTOCOL_VERSION)), ToAnkaios(request=request)):
                os.write(writer, encode(message.SerializeToString()))
        except OSError:
            yield None
            return
        yield reader


def _opened(opened: ExitStack, path: Path, mode: int) -> int:
    descriptor = os.open(path, mode | os.O_NONBLOCK | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    return descriptor


async def request_through_fifos(folder: Path, request: base.Request) -> base.Response | None:
    """Return None if there is no agent, or no response in time."""
    with _session(folder, request) as reader:
        if reader is not None:
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(RESPONSE_LIMIT):
                    return await _response(reader, request.requestId)
    return None


async def _response(reader: int, request_id: str) -> base.Response:
    decoder = FrameDecoder()
    while True:
        for response in _decoded(decoder, _read(reader), request_id):
            return response
        await asyncio.sleep(_LOOK)


def _read(reader: int) -> bytes:
    with suppress(BlockingIOError):
        return os.read(reader, 65536)
    return b""


def _decoded(decoder: FrameDecoder, data: bytes, request_id: str) -> list[base.Response]:
    """The responses to a request in these bytes."""
    found = []
    for frame in decoder.feed(data) if data else ():
        with suppress(DecodeError):
            message = FromAnkaios.FromString(frame if isinstance(frame, bytes) else b"")
            if message.response.requestId == request_id:
                found.append(message.response)
    return found


class WorkloadSubscriber(StateCopy):
    """A workload that subscribes for events. The agent continues its subscription when the server is another one."""

    def __init__(self) -> None:
        super().__init__()
        self._sessions = 0
        self._decoder = FrameDecoder()

    async def follow(self, folder: Path, is_alive: Callable[[], bool]) -> None:
        """Subscribe, and apply events as long as the workload and its agent run."""
        loop = asyncio.get_running_loop()
        self._sessions += 1
        self._decoder, request_id = FrameDecoder(), f"events{self._sessions}"
        with _session(folder, subscription(request_id)) as reader:
            if reader is None:
                return
            loop.add_reader(reader, self._receive, reader, request_id)
            try:
                while is_alive():  # noqa: ASYNC110 - the end of a container or an agent has no event
                    await asyncio.sleep(_SESSION_LOOK)
            finally:
                self.end()
                loop.remove_reader(reader)

    def _receive(self, reader: int, request_id: str) -> None:
        data = _read(reader)
        if not data:  # the agent has closed its end
            asyncio.get_running_loop().remove_reader(reader)
        for response in _decoded(self._decoder, data, request_id):
            if not response.HasField("completeStateResponse"):
                self.faults.append(f"the subscription of a workload was rejected: {response.error.message}")
            elif self.copy is None:
                self.begin(response)
            else:
                self.apply(response)
