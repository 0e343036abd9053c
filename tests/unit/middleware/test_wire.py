"""The end of a connection is told once, and nothing can pile up under it; the socket is a fake."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ankaios.middleware.keepalive import Keepalive
from ankaios.middleware.wire import Wire


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.unsent = 0
        self.aborted = False
        self.ended = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def write_eof(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.ended = True


class Telephone(Wire):
    """Says hello and remembers what happens."""

    def __init__(self) -> None:
        super().__init__(Keepalive(), 5.0, None)
        self.story: list[str] = []

    def began(self) -> None:
        self.write(b"hello")

    def received(self, plaintext: bytes) -> None:
        self.story.append(plaintext.decode())

    def resumed(self) -> None:
        self.story.append("resumed")

    def broke(self, reason: str) -> None:
        self.story.append(reason)

    def ask_for_sign(self) -> None:
        self.write(b"?")

    def hear(self, data: bytes) -> None:
        buffer = self.get_buffer(-1)
        buffer[: len(data)] = data
        self.buffer_updated(len(data))


@pytest.fixture
async def transport() -> FakeTransport:
    return FakeTransport()


@pytest.fixture
async def telephone(transport: FakeTransport) -> AsyncIterator[Telephone]:
    made = Telephone()
    made.connection_made(transport)
    yield made
    made.abort("the test is over")


async def test_what_is_heard_is_passed_on(telephone: Telephone, transport: FakeTransport) -> None:
    telephone.hear(b"hi")
    assert telephone.story == ["hi"]
    assert transport.written == [b"hello"]


async def test_only_the_first_ending_counts(telephone: Telephone) -> None:
    telephone.eof_received()
    telephone.abort("later")
    telephone.connection_lost(OSError("even later"))
    assert telephone.story == ["the peer closed the connection"]
    assert telephone.reason == "the peer closed the connection"
    assert telephone.closed.is_set()


async def test_nothing_is_heard_after_the_end(telephone: Telephone) -> None:
    telephone.connection_lost(OSError("cut"))
    telephone.hear(b"hi")
    telephone.resume_writing()
    assert telephone.story == ["the connection broke: cut"]
    assert not telephone.writable


async def test_a_full_socket_stops_writers_until_it_is_empty(telephone: Telephone) -> None:
    writable = []
    for step in (telephone.pause_writing, telephone.resume_writing):
        step()
        writable.append(telephone.writable)
    assert writable == [False, True]
    assert telephone.story == ["resumed"]


async def test_a_peer_that_provokes_answers_and_reads_none_is_cut(
    telephone: Telephone, transport: FakeTransport
) -> None:
    transport.unsent = 4 * 1024 * 1024 + 1
    telephone.write(b"answer")
    assert telephone.story == ["the peer does not read"]
    assert transport.aborted


async def test_a_lingering_end_lets_the_peer_read(telephone: Telephone, transport: FakeTransport) -> None:
    telephone.linger("refused")
    assert telephone.story == ["refused"]
    assert transport.ended
    assert not transport.aborted
