"""The workload's side of a control interface, as an SDK would use it."""

import asyncio
import os
from pathlib import Path

from ankaios.agent.core.framing import FrameDecoder, encode
from ankaios.common.pb.ank_base_pb2 import CompleteStateRequest, Request
from ankaios.common.pb.control_api_pb2 import FromAnkaios, Hello, ToAnkaios


class Pipes:
    """Opens both FIFOs without blocking; `receive` waits for the next message."""

    def __init__(self, folder: Path) -> None:
        self._out = os.open(folder / "output", os.O_WRONLY | os.O_NONBLOCK)
        self._in = os.open(folder / "input", os.O_RDONLY | os.O_NONBLOCK)
        self._decoder = FrameDecoder()
        self._received: list[FromAnkaios] = []

    def write(self, data: bytes) -> int:
        return os.write(self._out, data)

    async def write_all(self, data: bytes) -> None:
        """Continue when the pipe has space again."""
        while data:
            try:
                data = data[self.write(data) :]
            except BlockingIOError:
                await asyncio.sleep(0.002)

    def send(self, message: ToAnkaios) -> None:
        self.write(encode(message.SerializeToString()))

    def hello(self, version: str = "1.0.0") -> None:
        self.send(ToAnkaios(hello=Hello(protocolVersion=version)))

    def ask(self, request_id: str, *masks: str) -> None:
        request = Request(requestId=request_id, completeStateRequest=CompleteStateRequest(fieldMask=masks))
        self.send(ToAnkaios(request=request))

    async def receive(self, seconds: float = 5.0) -> FromAnkaios:
        async with asyncio.timeout(seconds):
            while not self._received:
                self._poll()
                await asyncio.sleep(0.002)
        return self._received.pop(0)

    async def receives_nothing(self, seconds: float = 0.1) -> bool:
        await asyncio.sleep(seconds)
        self._poll()
        return not self._received

    def _poll(self) -> None:
        try:
            data = os.read(self._in, 1 << 20)
        except BlockingIOError:
            return
        for frame in self._decoder.feed(data):
            assert isinstance(frame, bytes)
            self._received.append(FromAnkaios.FromString(frame))

    def close(self) -> None:
        os.close(self._out)
        os.close(self._in)
