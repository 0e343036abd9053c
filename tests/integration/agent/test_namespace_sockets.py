"""Checks of a process in a separate network namespace, such as a container.

Needs: the right to make namespaces.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ankaios.agent.health_probes import probe_file, probe_network
from ankaios.agent.namespace_sockets import NamespaceSockets, NamespaceUnavailable
from ankaios.common.health import FileCheck, HttpCheck, TcpCheck
from ankaios.runtimes.check_command import check_target_of
from ankaios.runtimes.runtime_connector import CheckTarget

PORT = 4711
SERVER = f"""
import fcntl, socket, struct
lo = socket.socket()
fcntl.ioctl(lo, 0x8914, struct.pack("16sh", b"lo", 1 | 0x40))  # up
server = socket.create_server(("127.0.0.1", {PORT}))
print("ready", flush=True)
while True:
    connection = server.accept()[0]
    data = connection.recv(100)
    if data.startswith(b"GET /huge"):
        connection.sendall(b"x" * 100000)
    elif data:
        connection.sendall(b"HTTP/1.1 503 Busy\\r\\n\\r\\nno")
    connection.close()
"""


@pytest.fixture(params=["thread", "helper process"])
def target(request: pytest.FixtureRequest) -> Iterator[CheckTarget]:
    options = ["--net"] if request.param == "thread" else ["--user", "--map-root-user", "--net"]
    process = subprocess.Popen(["unshare", *options, sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        yield check_target_of(process.pid)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def sockets(request: pytest.FixtureRequest) -> NamespaceSockets:
    made = NamespaceSockets()
    made._needs_helper = "helper" in request.node.name  # as after a permission error, which root does not get
    return made


async def test_ports_are_those_of_the_process(target: CheckTarget, sockets: NamespaceSockets) -> None:
    assert (await probe_network(sockets, target, TcpCheck(port=PORT), 10.0)).succeeded
    assert (await probe_network(sockets, target, TcpCheck(port=PORT + 1), 10.0)).why == "connection refused"
    assert (await probe_network(sockets, target, HttpCheck(port=PORT), 10.0)).why == "status 503 Busy"
    assert (await probe_network(sockets, target, HttpCheck(port=PORT, path="/huge"), 10.0)).why == (
        "the response is not HTTP"
    )
    with socket.socket() as own:
        assert own.connect_ex(("127.0.0.1", PORT)) != 0


async def test_a_process_that_has_ended_is_not_checked(target: CheckTarget, sockets: NamespaceSockets) -> None:
    """Another process may have its id now."""
    other = CheckTarget(target.pid, target.start + 1)
    with pytest.raises(NamespaceUnavailable, match="cannot reach its network"):
        await probe_network(sockets, other, TcpCheck(port=PORT), 10.0)


async def test_a_check_of_a_server_that_does_not_respond_ends_after_the_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        own = check_target_of(os.getpid())
        async with asyncio.timeout(10):
            found = await probe_network(NamespaceSockets(), own, HttpCheck(port=port, path="/"), 0.2)
    assert found.why == "no answer within 0.2 s"


@pytest.mark.parametrize("host", ["localhost", "", "1.2.3"])
async def test_only_addresses_are_connected_to(host: str) -> None:
    found = await probe_network(NamespaceSockets(), check_target_of(os.getpid()), TcpCheck(port=1, host=host), 1.0)
    assert found.why == f"'{host}' is not an IP address"


def test_links_are_followed_inside_the_root_of_the_process(tmp_path: Path) -> None:
    """A process in another root folder, as in a container: a link to the host finds nothing."""
    (tmp_path / "inside").touch()
    (tmp_path / "good").symlink_to("/inside")
    (tmp_path / "bad").symlink_to("/etc/passwd")
    root = "import os, time, sys; os.chroot(sys.argv[1]); print('ready', flush=True); time.sleep(100)"
    process = subprocess.Popen([sys.executable, "-c", root, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        found = check_target_of(process.pid)
        assert probe_file(found, FileCheck(path="/good")).succeeded
        assert probe_file(found, FileCheck(path="/bad")).why == "no such file or directory"
        os.utime(tmp_path / "inside", (0, 0))
        assert probe_file(found, FileCheck(path="/good")).succeeded
        assert probe_file(found, FileCheck(path="/good", max_age="5s")).why.endswith("s ago, more than 5s")
    finally:
        process.kill()
        process.wait()
