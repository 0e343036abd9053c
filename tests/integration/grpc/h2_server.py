"""A server below gRPC, in a thread: it accepts one call and then follows a script, which may violate the protocol.

It uses `h2` directly, without the code under test.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from google.protobuf.message import Message
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, RequestReceived

TIME_LIMIT = 10.0


class H2Server:
    """The server's end of one connection."""

    def __init__(self, connected: socket.socket, over: threading.Event) -> None:
        self.socket = connected
        self._over = over
        self.h2 = H2Connection(H2Configuration(client_side=False))
        self.h2.initiate_connection()
        self.call = 0
        self.received = b""
        """The data of the call."""

    def accept(self) -> None:
        """Wait for the call with its hello and send headers."""
        self.read_until(lambda: bool(self.call and self.received))
        self.h2.send_headers(self.call, [(":status", "200"), ("content-type", "application/grpc")])
        self.flush()

    def send_message(self, message: Message) -> None:
        payload = message.SerializeToString()
        self.send(b"\0" + len(payload).to_bytes(4, "big") + payload)

    def send(self, data: bytes) -> None:
        """However large; reads while the window is closed."""
        rest = memoryview(data)
        while rest:
            size = min(self.h2.local_flow_control_window(self.call), self.h2.max_outbound_frame_size)
            if size > 0:
                self.h2.send_data(self.call, rest[:size])
                rest = rest[size:]
                self.flush()
            else:
                self.read()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def read_until(self, condition: Callable[[], bool], seconds: float = TIME_LIMIT) -> None:
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            self.read()

    def send_nothing(self) -> None:
        """Until the end of the test; the kernel still receives every byte."""
        self._over.wait(TIME_LIMIT)

    def leave(self) -> None:
        """Close our side, but read what the client still sends, because unread data would reset the socket."""
        self.socket.shutdown(socket.SHUT_WR)
        while self.socket.recv(65536):
            pass

    def read(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the client has closed the connection")
        for event in self.h2.receive_data(data):
            self._take(event)
        self.flush()

    def _take(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self.call = event.stream_id
        elif isinstance(event, DataReceived):
            self.received += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)


@contextmanager
def h2_server(script: Callable[[H2Server], None]) -> Iterator[int]:
    """Serve one client by the script, then close the connection. A failed script fails the test. Yields the port."""
    faults: list[BaseException] = []
    over = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            connected, _ = listener.accept()
            connected.settimeout(TIME_LIMIT)
            with connected:
                server = H2Server(connected, over)
                try:
                    script(server)
                except Exception as fault:
                    if not isinstance(fault, OSError):
                        faults.append(fault)
                    raise
                server.leave()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True, name="h2 server")
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(TIME_LIMIT)
    assert not faults, faults
