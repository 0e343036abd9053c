"""Invalid bytes of every layer are sent to the port, while another client is served without interruption."""

import asyncio
import contextlib
import logging
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ankaios.common.config import PemMaterial
from ankaios.common.pb.ank_base_pb2 import RUNNING_OK, ExecutionState, WorkloadInstanceName, WorkloadState
from ankaios.common.pb.grpc_api_pb2 import AgentLoadStatus, ToServer, UpdateWorkloadState
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.tls import client_context
from ankaios.grpc.wire_format import length_prefixed
from ankaios.middleware.methods import Method
from ankaios.middleware.server import Limits
from tests.integration.middleware.raw import final_headers_of, opened, raw_connection
from tests.integration.middleware.support import (
    Running,
    a_commander_hello,
    a_request,
    an_agent_hello,
    answering,
    assert_served,
    running_server,
)
from tests.support.certificates import Authority

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
LIMITS = Limits(max_message_size=1_000_000, keepalive=Keepalive(5, 5))
FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def frames() -> st.SearchStrategy[bytes]:
    """HTTP/2 frames with a right length and anything else wrong."""
    return st.builds(
        lambda kind, flags, stream, payload: (
            struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
        ),
        st.integers(0, 12),
        st.integers(0, 255),
        st.one_of(st.sampled_from([0, 1, 3]), st.integers(0, 2**32 - 1)),
        st.binary(max_size=100),
    )


class Watched:
    """Collects errors in the log and exceptions that reach the loop, which must not occur."""

    def __init__(self) -> None:
        self.complaints: list[str] = []

    def loop_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.complaints.append(str(context))


@asynccontextmanager
async def serving_without_errors(
    caplog: pytest.LogCaptureFixture, server: PemMaterial | None = None, client: PemMaterial | None = None
) -> AsyncIterator[Running]:
    """A server that keeps serving its client during and after the body, without a single error."""
    watched = Watched()
    asyncio.get_running_loop().set_exception_handler(watched.loop_exception)
    caplog.clear()
    async with (
        running_server(server, LIMITS) as running,
        answering(running),
        running.client(pem=client) as good,
    ):
        await assert_served(good)
        yield running
        await assert_served(good)
    assert watched.complaints == []
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def throw(running: Running, data: bytes) -> None:
    """Write the bytes, end the stream, wait until the server has closed, too."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.server.port)
    with contextlib.suppress(OSError):
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(10):
            await reader.read()
    writer.close()


@FEW
@given(data=st.binary(max_size=2000))
@example(data=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
@example(data=PREFACE)
async def test_random_bytes_affect_nothing(caplog: pytest.LogCaptureFixture, data: bytes) -> None:
    async with serving_without_errors(caplog) as running:
        await throw(running, data)


@FEW
@given(data=st.lists(frames(), max_size=20))
async def test_random_frames_after_a_valid_preface_affect_nothing(
    caplog: pytest.LogCaptureFixture, data: list[bytes]
) -> None:
    async with serving_without_errors(caplog) as running:
        await throw(running, PREFACE + SETTINGS + b"".join(data))


@FEW
@given(data=st.lists(st.one_of(frames(), st.binary(max_size=50)), min_size=1, max_size=10))
async def test_random_frames_on_an_open_call_affect_nothing(
    caplog: pytest.LogCaptureFixture, data: list[bytes]
) -> None:
    """A well-made call with hello, then invalid frames for its stream and others."""
    async with serving_without_errors(caplog) as running, raw_connection(running) as connection:
        opened(connection, Method.AGENT, an_agent_hello())
        connection.flush()
        for part in data:
            connection._transport.write(part)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await connection.closed.wait()


@FEW
@given(hello=st.one_of(st.just(None), st.binary(max_size=40)), parts=st.lists(st.binary(max_size=300), max_size=10))
async def test_random_payloads_in_valid_frames_affect_nothing(
    caplog: pytest.LogCaptureFixture, hello: bytes | None, parts: list[bytes]
) -> None:
    good = a_commander_hello().SerializeToString()
    async with serving_without_errors(caplog) as running, raw_connection(running) as connection:
        call = opened(connection, Method.CLI)
        call.write(length_prefixed(good if hello is None else hello))
        for part in parts:
            call.write(length_prefixed(part))
        call.half_close()
        await final_headers_of(call)


def messages() -> st.SearchStrategy[bytes]:
    """Real messages with some bytes changed."""
    name = WorkloadInstanceName(workloadName="web", agentName="agent_A", id="abc")
    state = WorkloadState(instanceName=name, executionState=ExecutionState(additionalInfo="", running=RUNNING_OK))
    seeds = [
        a_request("web@id").SerializeToString(),
        an_agent_hello("other").SerializeToString(),
        ToServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[state])).SerializeToString(),
        ToServer(AgentLoadStatus=AgentLoadStatus(agent_name="agent_A")).SerializeToString(),
    ]
    return st.builds(
        lambda seed, at, value: seed[: at % len(seed)] + bytes([value]) + seed[at % len(seed) + 1 :],
        st.sampled_from(seeds),
        st.integers(0, 1000),
        st.integers(0, 255),
    )


@FEW
@given(parts=st.lists(messages(), min_size=1, max_size=30))
async def test_damaged_messages_of_an_agent_affect_nothing(
    caplog: pytest.LogCaptureFixture, parts: list[bytes]
) -> None:
    async with serving_without_errors(caplog) as running, raw_connection(running) as connection:
        call = opened(connection, Method.AGENT, an_agent_hello("agent_A"))
        for part in parts:
            call.write(length_prefixed(part))
        call.half_close()
        await final_headers_of(call)


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> tuple[PemMaterial, PemMaterial]:
    authority = Authority(Path(tmp_path_factory.mktemp("tls")))
    return authority.server(), authority.cli()


@settings(FEW, max_examples=30)
@given(data=st.binary(max_size=500))
@example(data=b"\x16\x03\x01")
@example(data=PREFACE + SETTINGS)
async def test_random_bytes_instead_of_tls_affect_nothing(
    caplog: pytest.LogCaptureFixture, material: tuple[PemMaterial, PemMaterial], data: bytes
) -> None:
    server, client = material
    async with serving_without_errors(caplog, server, client) as running:
        await throw(running, data)


@settings(FEW, max_examples=30)
@given(data=st.binary(min_size=1, max_size=500))
async def test_random_bytes_inside_tls_affect_nothing(
    caplog: pytest.LogCaptureFixture, material: tuple[PemMaterial, PemMaterial], data: bytes
) -> None:
    server, client = material
    context = client_context(client)
    async with serving_without_errors(caplog, server, client) as running:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", running.server.port, ssl=context, server_hostname="ank-server"
        )
        with contextlib.suppress(OSError, ssl.SSLError):
            writer.write(data)
            async with asyncio.timeout(10):
                await reader.read(1)
        writer.transport.abort()
