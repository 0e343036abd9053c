"""A request of a simulated workload through its control interface, as a program in the container sends it.

Input: the folder with the FIFOs of a running workload. Output: the response of the real agent and server, or None.
The FIFOs are real ones; both ends are in this process.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack, suppress
from pathlib import Path

from google.protobuf.message import DecodeError

from ankaios.agent.core.framing import FrameDecoder, encode
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.control_api_pb2 import FromAnkaios, Hello, ToAnkaios
from ankaios.common.version import PROTOCOL_VERSION

RESPONSE_LIMIT = 10.0
_LOOK = 0.02


async def request_through_fifos(folder: Path, request: base.Request) -> base.Response | None:
    """Return None if there is no agent, or no response in time."""
    with ExitStack() as opened:
        try:
            reader = _opened(opened, folder / "input", os.O_RDONLY)
            writer = _opened(opened, folder / "output", os.O_WRONLY)
            for message in (ToAnkaios(hello=Hello(protocolVersion=PROTOCOL_VERSION)), ToAnkaios(request=request)):
                os.write(writer, encode(message.SerializeToString()))
        except OSError:  # no FIFO, or no agent that has opened it
            return None
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(RESPONSE_LIMIT):
                return await _response(reader, request.requestId)
        return None


def _opened(opened: ExitStack, path: Path, mode: int) -> int:
    descriptor = os.open(path, mode | os.O_NONBLOCK | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    return descriptor


async def _response(reader: int, request_id: str) -> base.Response:
    decoder = FrameDecoder()
    while True:
        data = b""
        with suppress(BlockingIOError):
            data = os.read(reader, 65536)
        for frame in decoder.feed(data) if data else ():
            with suppress(DecodeError):
                message = FromAnkaios.FromString(frame if isinstance(frame, bytes) else b"")
                if message.response.requestId == request_id:
                    return message.response
        await asyncio.sleep(_LOOK)
