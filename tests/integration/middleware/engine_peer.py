"""A server below gRPC, in a thread: it lets one caller in and then does what a script says, good or bad."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ankaios.common.pb.grpc_api_pb2 import FromServer
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.grpc_call import RESPONSE_HEADERS, frame
from ankaios.middleware.http2_engine.engine import Http2Engine
from ankaios.middleware.http2_engine.events import DataReceived, Event, RequestReceived

PATIENCE = 10.0


class EnginePeer:
    """One connection of one caller, as the server sees it."""

    def __init__(self, connected: socket.socket, over: threading.Event) -> None:
        self.socket = connected
        self._over = over
        self.engine = Http2Engine(client_side=False)
        self.engine.begin()
        self.call = 0
        self.received = b""
        """What the caller has sent on its stream."""

    def let_in(self) -> None:
        """Wait for the call with its hello and answer with headers."""
        self.read_until(lambda: bool(self.call and self.received))
        self.engine.send_headers(self.call, RESPONSE_HEADERS, end=False)
        self.flush()

    def say(self, message: FromServer) -> None:
        self.send(frame(message.SerializeToString()))

    def send(self, data: bytes) -> None:
        """However large; reads while the window is closed."""
        rest = memoryview(data)
        while rest:
            size = self.engine.sendable(self.call)
            if size > 0:
                self.engine.send_data(self.call, rest[:size])
                rest = rest[size:]
                self.flush()
            else:
                self._read()

    def flush(self) -> None:
        self.socket.sendall(self.engine.take_outgoing())

    def read_until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            self._read()

    def stay_silent(self) -> None:
        """Until the test is over; the kernel still takes every byte."""
        self._over.wait(PATIENCE)

    def leave(self) -> None:
        """Close our side; what the caller still sends is read, for else it would be told of a reset."""
        self.socket.shutdown(socket.SHUT_WR)
        while self.socket.recv(65536):
            pass

    def _read(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the caller is gone")
        for event in self.engine.receive(data):
            self._take(event)
        self.flush()

    def _take(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self.call = event.stream_id
        elif isinstance(event, DataReceived):
            self.received += event.data
            self.engine.acknowledge(event.stream_id, len(event.data))


@contextmanager
def engine_server(script: Callable[[EnginePeer], None]) -> Iterator[ConnectionSettings]:
    """Serves one caller by the script, then closes the connection. A failed script fails the test."""
    faults: list[BaseException] = []
    over = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            connected, _ = listener.accept()
            connected.settimeout(PATIENCE)
            with connected:
                peer = EnginePeer(connected, over)
                try:
                    script(peer)
                except Exception as fault:
                    if not isinstance(fault, OSError):
                        faults.append(fault)
                    raise
                peer.leave()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield ConnectionSettings(
                f"http://127.0.0.1:{listener.getsockname()[1]}", keepalive_interval=5.0, keepalive_timeout=5.0
            )
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)
    assert not faults, faults
