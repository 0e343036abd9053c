"""A client in a separate process that sends requests as fast as the server reads them, and reads all answers.

with FloodingClient(server.port, "desiredState"):
    ...
"""

import asyncio
import signal
import subprocess
import sys

from ankaios.cli.connection import commander_hello
from ankaios.common.pb.ank_base_pb2 import CompleteStateRequest, Request
from ankaios.common.pb.grpc_api_pb2 import ToServer
from ankaios.middleware.client import ServerConnection, connect
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method


class FloodingClient:
    def __init__(self, port: int, mask: str) -> None:
        command = [sys.executable, "-m", "tests.support.flooding_client", str(port), mask]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "flooding\n"
        self.answers = 0

    def __enter__(self) -> "FloodingClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        output, _ignored = self._process.communicate(timeout=30)
        self.answers = int(output)


async def _send_without_end(server: ServerConnection, mask: str) -> None:
    request = Request(requestId="flood", completeStateRequest=CompleteStateRequest(fieldMask=[mask]))
    while True:
        await server.send(ToServer(request=request))
        await asyncio.sleep(0)


async def _flood(port: int, mask: str) -> int:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    settings = ConnectionSettings(f"http://127.0.0.1:{port}")
    answers = 0
    async with connect(settings, Method.COMMAND, commander_hello()) as server:
        sending = asyncio.create_task(_send_without_end(server, mask))
        print("flooding", flush=True)
        while not ended.is_set():
            await server.receive()
            answers += 1
        sending.cancel()
    return answers


if __name__ == "__main__":
    print(asyncio.run(_flood(int(sys.argv[1]), sys.argv[2])))
