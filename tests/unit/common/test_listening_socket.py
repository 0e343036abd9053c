"""The listening socket, bound here or taken over from systemd."""

import os
import socket

import pytest

from ankaios.common.listening_socket import bind_socket, inherited_socket


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_bound_socket_accepts_connections(host: str) -> None:
    with bind_socket(host, 0) as listener, socket.create_connection((host, listener.getsockname()[1]), 5):
        listener.settimeout(5)
        listener.accept()[0].close()


def test_an_address_in_use_is_an_error() -> None:
    with bind_socket("127.0.0.1", 0) as listener, pytest.raises(OSError, match="in use"):
        bind_socket("127.0.0.1", listener.getsockname()[1])


@pytest.mark.parametrize(("count", "pid"), [("", ""), ("0", "own"), ("x", "own"), ("1", "1"), ("1", "")])
def test_variables_that_are_not_for_this_process_are_ignored(
    monkeypatch: pytest.MonkeyPatch, count: str, pid: str
) -> None:
    monkeypatch.setenv("LISTEN_FDS", count)
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()) if pid == "own" else pid)
    assert inherited_socket() is None
    assert "LISTEN_FDS" not in os.environ
