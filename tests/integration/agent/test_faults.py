"""Faults that an agent detects: invalid settings, full disks, rejected connections."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest

from ankaios.common.channels import ToServerChannel
from ankaios.common.messages import AgentGone, FromAgent
from ankaios.common.workload import ControlInterfaceAccess, File, Operation, StateRule
from ankaios.middleware.server import MiddlewareServer
from tests.integration.agent.running_agent import an_agent_at
from tests.integration.agent.scripted_server import Session, a_server
from tests.support.builders import a_workload
from tests.support.certificates import Authority
from tests.unit.agent.harness import server_hello, update_workload

ACCESS = ControlInterfaceAccess((StateRule(Operation.READ, ("desiredState",)),))


@asynccontextmanager
async def an_agent_process(*flags: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ankaios.agent", *flags),
        env={**os.environ, "PYTHONPATH": "src", **environment},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ended(process: asyncio.subprocess.Process, seconds: float = 20.0) -> tuple[int, str]:
    async with asyncio.timeout(seconds):
        _, output = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_agent_ends_after_a_signal_and_keeps_its_folder(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "agent.conf").write_text("version = 'v1'\nruntimes = ['native']\n")
    async with a_server() as server:
        flags = ("-x", str(tmp_path / "agent.conf"), "-k", "-n", "A", "-s", server.url, "-r", str(tmp_path))
        async with an_agent_process(*flags) as agent:
            session = await server.session(20)
            agent.send_signal(number)
            code, output = await ended(agent)
            assert (code, "Traceback" in output) == (0, False)
            async with asyncio.timeout(3):
                await session.gone.wait()
    assert (tmp_path / "A_io").is_dir()


async def test_an_agent_ends_with_code_1_if_the_server_has_another_version(tmp_path: Path) -> None:
    async with a_server() as server:
        server.refuse = (grpc.StatusCode.FAILED_PRECONDITION, "Unsupported protocol version")
        async with an_agent_process("-k", "-n", "A", "-s", server.url, "-r", str(tmp_path)) as agent:
            code, output = await ended(agent)
    assert code == 1
    assert "Ankaios version mismatch: 'Unsupported protocol version'" in output


async def test_an_agent_does_not_start_without_run_folder_or_security_setting(tmp_path: Path) -> None:
    async with an_agent_process("-k", "-n", "A", "-r", str(tmp_path / "missing")) as agent:
        code, output = await ended(agent)
        assert (code, "does not exist" in output) == (1, True)
    async with an_agent_process("-n", "A", "-r", str(tmp_path)) as agent:
        code, output = await ended(agent)
        assert (code, "--insecure" in output) == (1, True)


async def test_an_invalid_certificate_or_name_is_reported_in_one_line(tmp_path: Path) -> None:
    flags = []
    for name in ("ca_pem", "crt_pem", "key_pem"):
        (tmp_path / name).write_text("no certificate")
        (tmp_path / name).chmod(0o600)
        flags += [f"--{name}", str(tmp_path / name)]
    async with an_agent_process("-n", "A", "-r", str(tmp_path), *flags) as agent:
        code, output = await ended(agent)
        assert (code, "Traceback" in output) == (1, False)
        assert "ERROR] Failed to load certificate files!: 'cannot use ca_pem" in output
    async with an_agent_process("-n", 300 * "A", "-k", "-r", str(tmp_path)) as agent:
        code, output = await ended(agent)
        assert (code, "Traceback" in output) == (1, False)
        assert "File name too long" in output


async def test_an_agent_connects_with_mutual_tls(tmp_path: Path) -> None:
    """Ed25519 certificates, as the documentation makes them."""
    authority = Authority(tmp_path / "ca")
    inbox = ToServerChannel(100)
    server = MiddlewareServer(inbox, authority.server())
    await server.start("127.0.0.1", 0)
    certificate, key = authority.certificate_files("agent", san="DNS:A", usage="clientAuth")
    flags = ["--ca_pem", authority.certificate, "--crt_pem", certificate, "--key_pem", key, "-r", tmp_path]
    async with an_agent_process("-n", "A", "-s", f"https://127.0.0.1:{server.port}", *map(str, flags)):
        async with asyncio.timeout(20):
            hello = await inbox.receive()
        assert isinstance(hello, FromAgent)
        assert hello.message.agentHello.agentName == "A"
    await server.close()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with space for a few small files."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=9", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tiny file system needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


async def next_state(session: Session, *names: str) -> str:
    """The next state of one of these workloads; others may report a retry at any time."""
    while True:
        (state,) = await session.states(1)
        if state.split()[0] in names:
            return state


async def test_a_full_disk_affects_only_workloads_that_need_it(full_disk: Path) -> None:
    big = a_workload("big", "A", files=(File("/data", data="x" * 100_000),))
    many = a_workload("many", "A", files=tuple(File(f"/{number}/f", data="") for number in range(9)))
    plain = a_workload("plain", "A")
    requester = a_workload("requester", "A", access=ACCESS)
    async with a_server() as server, an_agent_at(server.url, full_disk) as podman:
        session = await server.session()
        session.send(server_hello(big))
        assert await session.states(1) == ["big PENDING_STARTING"]
        failed = (await session.receive("updateWorkloadState")).updateWorkloadState.workloadStates[0].executionState
        assert failed.additionalInfo == (
            "Failed to create workload file: 'write failed for '/data': 'No space left on device''"
        )
        session.send(update_workload((many, plain)))
        reports = [await next_state(session, "many", "plain") for _ in range(4)]
        assert sorted(reports) == [
            "many PENDING_STARTING",
            "many PENDING_STARTING_FAILED",
            "plain PENDING_STARTING",
            "plain RUNNING_OK",
        ]
        for number in range(20):  # nothing is left
            try:
                (full_disk / f"filler{number}").touch()
            except OSError:
                break
        session.send(update_workload((requester,)))
        assert [await next_state(session, "requester") for _ in range(2)] == [
            "requester PENDING_STARTING",
            "requester RUNNING_OK",
        ]
        assert podman.named("requester").extras.control_interface is None


async def test_a_failed_workload_starts_soon_after_the_disk_has_space_again(full_disk: Path) -> None:
    needs_space = a_workload("needs-space", "A", files=(File("/data", data="x" * 40_000),))
    async with a_server() as server, an_agent_at(server.url, full_disk):
        filler = full_disk / "filler"
        filler.write_bytes(b"x" * 40_000)
        session = await server.session()
        session.send(server_hello(needs_space))
        assert await session.states(2) == ["needs-space PENDING_STARTING", "needs-space PENDING_STARTING_FAILED"]
        filler.unlink()
        async with asyncio.timeout(15):
            while (await session.states(1)) != ["needs-space RUNNING_OK"]:
                pass
        assert [path.read_text() for path in full_disk.glob("**/files/data")] == ["x" * 40_000]


async def test_the_second_of_two_agents_of_one_name_is_rejected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are on two machines; on one machine the second one waits, see tests/system/test_agent_faults.py."""
    inbox = ToServerChannel(1000)
    server = MiddlewareServer(inbox, None)
    await server.start("127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.port}"
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with an_agent_at(url, tmp_path / "one"):
        assert isinstance(await inbox.receive(), FromAgent)
        async with an_agent_at(url, tmp_path / "two"):
            await asyncio.sleep(1.5)
            assert not [item for item in [await inbox.receive() for _ in range(len(inbox))] if _is_end_or_hello(item)]
            complaints = [line for line in caplog.messages if line.startswith("no connection to the server")]
            assert len(complaints) == 1
            assert "Two agents have the name 'A': the one at 127.0.0.1 is connected" in complaints[0]
    await server.close()


def _is_end_or_hello(item: object) -> bool:
    return isinstance(item, AgentGone) or (isinstance(item, FromAgent) and item.message.HasField("agentHello"))
