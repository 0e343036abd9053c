"""The link below the client without an event loop, over real sockets: peers that are early, slow or generous."""

import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ankaios.middleware import blocking_link
from ankaios.middleware.blocking_link import BlockingLink, Woken
from ankaios.middleware.grpc_call import MessageBuffer
from ankaios.middleware.http2_engine.engine import Http2Engine
from ankaios.middleware.http2_engine.events import Headers
from ankaios.middleware.http2_engine.frames import PING, SETTINGS, WINDOW_UPDATE, frame
from ankaios.middleware.http2_engine.settings import INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, encode_settings
from ankaios.middleware.keepalive import Keepalive
from tests.integration.middleware.engine_peer import PATIENCE, EnginePeer

CALL: Headers = [(":method", "POST"), (":scheme", "http"), (":path", "/x"), (":authority", "a")]


class Pair:
    """A link, and the server at the other end of its socket."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.settimeout(PATIENCE)
        self.link = BlockingLink(ours, Keepalive(1000.0, 1000.0), None)
        assert self.link.shake_hands(0)
        self.peer = EnginePeer(theirs, threading.Event())

    def server_says(self, *frames: bytes) -> None:
        self.peer.socket.sendall(b"".join(frames))

    def step(self) -> None:
        self.link.step(time.monotonic() + PATIENCE)

    def open(self) -> None:
        self.link.open(CALL, MessageBuffer(1000))


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.peer.socket.close()
    made.link.close()


@pytest.fixture
def signalled() -> Iterator[int]:
    """A descriptor that has something to say."""
    told, teller = os.pipe()
    os.write(teller, b"!")
    yield told
    os.close(told)
    os.close(teller)


def settings_frame(key: int, value: int) -> bytes:
    return frame(SETTINGS, 0, 0, encode_settings({key: value}))


def test_a_server_that_takes_no_stream_before_we_open_one_is_told_as_the_reason(pair: Pair) -> None:
    pair.server_says(settings_frame(MAX_CONCURRENT_STREAMS, 0))
    pair.step()
    pair.open()
    pair.link.queue(b"hello")
    assert pair.link.reason == "the peer takes no more streams"


def test_a_window_that_is_closed_before_the_hello_is_waited_for(pair: Pair) -> None:
    pair.server_says(settings_frame(INITIAL_WINDOW_SIZE, 3))
    pair.step()
    pair.open()
    pair.server_says(frame(WINDOW_UPDATE, 0, 1, (2).to_bytes(4, "big")))
    pair.link.queue(b"hello")
    pair.peer.read_until(lambda: pair.peer.received == b"hello")
    assert pair.peer.received == b"hello"


def test_after_a_signal_in_the_middle_of_a_message_nothing_follows(pair: Pair, signalled: int) -> None:
    pair.open()
    pair.link.watch(signalled)
    with pytest.raises(Woken):
        pair.link.send(bytes(100_000))  # more than the window allows
    pair.link.send(b"goodbye")
    pair.peer.read_until(lambda: len(pair.peer.received) == 65_535)
    pair.peer.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        pair.peer._read()


def test_a_server_that_stops_reading_is_given_up_also_at_the_end_of_a_message(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_link, "_STALL_LIMIT", 0.1)
    pair.link._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    pair.open()
    pair.link.send(bytes(16_000))
    assert pair.link.reason == "the peer does not take what is sent"


def test_a_slow_server_is_not_given_up(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.peer.flush()
    pair.step()  # from now on one frame takes it all
    pair.open()
    now = 0.0
    wait = pair.link.step

    def wait_long(_: float | None) -> None:
        nonlocal now
        now += 20.0
        pair.peer._read()
        wait(now)

    monkeypatch.setattr(blocking_link, "monotonic", lambda: now)
    monkeypatch.setattr(pair.link, "step", wait_long)
    pair.link._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    pair.link.send(bytes(200_000))
    assert pair.link.reason is None
    assert now > 40.0


def test_a_server_that_would_take_everything_at_once_gets_it_in_parts_without_a_pause(pair: Pair) -> None:
    peer = pair.peer
    peer.engine = Http2Engine(client_side=False, window=2**31 - 1, max_frame=2**24 - 1)
    peer.engine.begin()
    peer.flush()
    pair.step()
    pair.open()
    reader = threading.Thread(target=peer.read_until, args=(lambda: len(peer.received) == 20_000_000,), daemon=True)
    reader.start()
    pair.link.send(bytes(20_000_000))
    assert pair.link.reason is None
    reader.join(PATIENCE)
    assert len(peer.received) == 20_000_000


def test_while_a_reader_takes_its_time_the_peer_gets_its_answers(pair: Pair) -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        pass
    attending = threading.Thread(target=pair.link.attend, args=(writer,))
    attending.start()
    try:
        pair.server_says(settings_frame(INITIAL_WINDOW_SIZE, 1000), frame(PING, 0, 0, b"are you?"))
        heard = b""
        while b"are you?" not in heard:
            heard += pair.peer.socket.recv(1000)
        assert attending.is_alive()
        os.read(reader, 1_000_000)
        attending.join(PATIENCE)
        assert not attending.is_alive()
    finally:
        os.close(reader)
        attending.join(PATIENCE)
        os.close(writer)


def test_a_reader_that_has_gone_is_not_waited_for(pair: Pair) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    pair.link.attend(writer)
    os.close(writer)
