"""A peer of the server that is independent of its sources: its messages are defined from the tables of the protocol,
its gRPC library is grpcio.

    with ServerProcess("--insecure") as server, server.agent("n1") as n1, server.cli() as cli:
        cli.send_request("r1", completeStateRequest={"fieldMask": ["agents"]})
        cli.receive()  # {'response': {'requestId': 'r1', 'completeStateResponse': {...}}}

Messages are given and received as plain dicts in the JSON form of protobuf; fields that are not set are missing.
"""

import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import descriptor_pb2, json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

HERE = Path(__file__).parent
TIME_LIMIT = 15.0
METHODS = {
    "agent": "/grpc_api.AgentConnection/ConnectAgent",
    "cli": "/grpc_api.CliConnection/ConnectCli",
    "commander": "/grpc_api.CommandConnection/ConnectCommand",
}
READY = re.compile(rb"ready on port (\d+)")
Plain = dict[str, Any]


@cache
def message_class(name: str) -> type[Message]:
    return GetMessageClass(_pool().FindMessageTypeByName(name))


@cache
def _pool() -> DescriptorPool:
    """A separate pool: other tests load other sources of the same names."""
    import grpc_tools
    from grpc_tools import protoc

    include = Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        arguments = ["", f"-I{HERE}", f"-I{include}", f"--descriptor_set_out={out}", "ank_base.proto", "grpc_api.proto"]
        assert protoc.main(arguments) == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


def plain(message: Message) -> Plain:
    form: Plain = json_format.MessageToDict(message, descriptor_pool=_pool())
    return form


class Conversation:
    """One stream to the server."""

    def __init__(self, channel: grpc.Channel, method: str) -> None:
        self._outbox: queue.Queue[Message | None] = queue.Queue()
        self._channel = channel
        call = channel.stream_stream(
            METHODS[method],
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_class("grpc_api.FromServer").FromString,
        )
        self._call = call(iter(self._outbox.get, None), timeout=120)

    def send(self, **content: Any) -> None:
        message = message_class("grpc_api.ToServer")()
        json_format.ParseDict(content, message, descriptor_pool=_pool())
        self.send_raw(message)

    def send_raw(self, message: Message) -> None:
        self._outbox.put(message)

    def send_request(self, request_id: str, **content: Any) -> None:
        self.send(request={"requestId": request_id, **content})

    def receive_raw(self) -> Message:
        return next(self._call)  # type: ignore[no-any-return]

    def receive(self) -> Plain:
        return plain(self.receive_raw())

    def receive_response(self) -> Plain:
        """The next response; states that are sent to all clients are skipped."""
        while True:
            message = self.receive()
            if "response" in message:
                response: Plain = message["response"]
                return response

    def answer(self, request_id: str, **content: Any) -> Plain:
        """Send a request and return the response without its id."""
        self.send_request(request_id, **content)
        response = self.receive_response()
        assert response.pop("requestId") == request_id
        return response

    def rest(self) -> list[Plain]:
        """Everything until the server ends the stream."""
        return [plain(message) for message in self._call]

    def failure(self) -> tuple[grpc.StatusCode, str]:
        """How the server ended the stream."""
        with suppress(grpc.RpcError):
            self.rest()
        return self._call.code(), self._call.details()

    def goodbye(self) -> None:
        self.send(goodbye={})

    def half_close(self) -> None:
        self._outbox.put(None)

    def close(self) -> None:
        self._outbox.put(None)
        self._call.cancel()
        self._channel.close()

    def __enter__(self) -> "Conversation":
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self.close()


class ServerProcess:
    """The real `ank-server`; its log is in `log`."""

    def __init__(self, *arguments: str, environ: dict[str, str] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ank-server-test-")
        self.folder = Path(self._folder.name)
        self._arguments = arguments
        self.address: str | None = "127.0.0.1:0"
        self._environ = {**os.environ, "RUST_LOG": "info", **(environ or {})}
        for name in ("PYTHONDONTWRITEBYTECODE", "NOTIFY_SOCKET"):
            self._environ.pop(name, None)
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def start(self, *more: str) -> "ServerProcess":
        """Until it is ready."""
        self.launch(*more)
        for line in self._lines():
            if found := READY.search(line):
                self.port = int(found[1])
                return self
        raise AssertionError(f"the server did not start\n{self.log}")

    def run_to_end(self, *more: str) -> int:
        """For starts that must fail: the exit code."""
        self.launch(*more)
        assert self.process is not None
        return self.process.wait(TIME_LIMIT)

    def launch(self, *more: str) -> None:
        """Without waiting until it is ready."""
        with (self.folder / "log").open("wb") as log:
            address = ["-a", self.address] if self.address else []
            command = [sys.executable, "-m", "ankaios.server", *address, *self._arguments, *more]
            self.process = subprocess.Popen(
                command, env=self._environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def _lines(self) -> Iterator[bytes]:
        """The lines of the log as they come, until the process ends."""
        assert self.process is not None
        end = time.monotonic() + TIME_LIMIT
        with (self.folder / "log").open("rb") as log:
            while time.monotonic() < end:
                line = log.readline()
                if line:
                    yield line
                elif self.process.poll() is not None:
                    return
                else:
                    time.sleep(0.01)

    def wait_for_log(self, text: str) -> None:
        assert any(text.encode() in line for line in self._lines()), f"'{text}' is not in\n{self.log}"

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(TIME_LIMIT)

    # --- peers

    def connect(self, method: str, credentials: grpc.ChannelCredentials | None = None) -> Conversation:
        target = f"127.0.0.1:{self.port}"
        if credentials is None:
            return Conversation(grpc.insecure_channel(target), method)
        options = [("grpc.ssl_target_name_override", "ank-server")]
        return Conversation(grpc.secure_channel(target, credentials, options), method)

    def cli(self, version: str = "1.0.1", method: str = "cli") -> Conversation:
        peer = self.connect(method)
        peer.send(commanderHello={"protocolVersion": version})
        return peer

    def agent(self, name: str, **more: Any) -> Conversation:
        peer = self.connect("agent")
        peer.send(agentHello={"agentName": name, "protocolVersion": "1.0.1", **more})
        return peer

    def __enter__(self) -> "ServerProcess":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._folder.cleanup()
