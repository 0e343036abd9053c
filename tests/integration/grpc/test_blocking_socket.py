"""Names with several addresses, addresses without response, and a slow name resolution."""

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from ankaios.grpc import blocking_socket
from ankaios.grpc.blocking_socket import connected_socket
from ankaios.grpc.wire_format import ConnectionBroken

TIME_LIMIT = 10.0


def at(port: int) -> tuple[int, int, int, str, tuple[str, int]]:
    return socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)


def found_at(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    monkeypatch.setattr(blocking_socket, "_resolve", lambda _host, _port, _limit: [at(port) for port in ports])


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def listening_port(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@pytest.fixture
def mute_port() -> Iterator[int]:
    """Its queue of connections is full, so the kernel answers no further one."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


def test_a_connection_works_and_does_not_block(listener: socket.socket, listening_port: int) -> None:
    connected = connected_socket("127.0.0.1", listening_port, TIME_LIMIT)
    accepted, _ = listener.accept()
    with accepted:
        with pytest.raises(BlockingIOError):
            connected.recv(1)
        connected.send(b"hello")
        assert accepted.recv(5) == b"hello"
    connected.close()


def test_the_second_address_is_tried_if_the_first_refuses(
    monkeypatch: pytest.MonkeyPatch, free_port: int, listening_port: int
) -> None:
    found_at(monkeypatch, free_port, listening_port)
    connected = connected_socket("twofold", 1, TIME_LIMIT)
    assert connected.getpeername() == ("127.0.0.1", listening_port)
    connected.close()


def test_an_address_without_answer_leaves_time_for_the_others(
    monkeypatch: pytest.MonkeyPatch, mute_port: int, listening_port: int
) -> None:
    found_at(monkeypatch, mute_port, listening_port)
    connected = connected_socket("twofold", 1, 0.4)
    assert connected.getpeername() == ("127.0.0.1", listening_port)
    connected.close()


def test_every_reason_is_reported_once(monkeypatch: pytest.MonkeyPatch, free_port: int, mute_port: int) -> None:
    found_at(monkeypatch, free_port, free_port, mute_port)
    with pytest.raises(ConnectionBroken) as failure:
        connected_socket("threefold", 1, 0.3)
    assert str(failure.value) == "Connection refused, no response within 0.3 s"


def test_an_unknown_name_is_reported() -> None:
    with pytest.raises(ConnectionBroken, match=r"^cannot find host 'no\.such\.host\.invalid': "):
        connected_socket("no.such.host.invalid", 1, TIME_LIMIT)


def test_ascii_names_and_international_names_are_looked_up(listening_port: int) -> None:
    connected_socket("localhost", listening_port, TIME_LIMIT).close()
    with pytest.raises(ConnectionBroken, match=r"^cannot find host 'grün\.invalid': "):
        connected_socket("grün.invalid", listening_port, TIME_LIMIT)


def test_a_lookup_ends_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_name: bytes, _port: int, _family: int, _kind: int, _protocol: int = 0, flags: int = 0) -> None:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        time.sleep(0.5)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with pytest.raises(ConnectionBroken) as failure:
        connected_socket("slow.example", 1, 0.1)
    assert str(failure.value) == "cannot find host 'slow.example': no response within 0.1 s"
