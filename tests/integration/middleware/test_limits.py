"""No client can make the server store more than its limits, nor prevent it from serving others."""

import asyncio
import errno
import logging
import resource
import socket
import struct
from contextlib import AsyncExitStack

import pytest
from h2.connection import H2Connection
from h2.events import DataReceived
from h2.settings import SettingCodes

from ankaios.common.channels import Channel
from ankaios.common.messages import (
    AgentGone,
    BroadcastStates,
    ClientGone,
    FromAgent,
    FromClient,
    Respond,
    ToServerMessage,
)
from ankaios.common.pb.ank_base_pb2 import Error, ExecutionState, Response, WorkloadInstanceName, WorkloadState
from ankaios.common.pb.grpc_api_pb2 import FromServer
from ankaios.grpc.async_connection import AsyncConnection
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.open_handshakes import ConnectionLimits, connection_limits
from ankaios.grpc.wire_format import ConnectionBroken, Status, length_prefixed, request_headers
from ankaios.middleware.client import connect
from ankaios.middleware.connecting import CannotConnect, ConnectionLost, ConnectionSettings
from ankaios.middleware.methods import Method
from ankaios.middleware.server import Limits, MiddlewareServer
from tests.integration.middleware.raw import final_headers_of, opened, raw_call, raw_connection
from tests.integration.middleware.support import (
    LONG_KEEPALIVE,
    TIME_LIMIT,
    Running,
    a_commander_hello,
    a_request,
    an_agent_hello,
    answering,
    assert_served,
    received,
    running_server,
)

SMALL = Limits(max_message_size=10_000, max_queued_bytes=3_000_000, max_queued_messages=1_000, keepalive=LONG_KEEPALIVE)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def a_state(text: str) -> WorkloadState:
    name = WorkloadInstanceName(workloadName="web", agentName="agent_B", id="x")
    return WorkloadState(instanceName=name, executionState=ExecutionState(additionalInfo=text))


@pytest.mark.parametrize(("size", "count"), [(100_000, 200), (500, 20_000)])
async def test_a_client_that_never_reads_is_disconnected_and_others_are_not_affected(
    size: int, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        running_server(limits=SMALL) as running,
        raw_call(running, Method.CLI, a_commander_hello()) as lazy,
        running.agent("agent_A") as agent,
    ):
        await running.next()  # the agent
        got = 0
        for _ in range(count // 10):
            for _ in range(10):
                running.server.dispatch(BroadcastStates((a_state("x" * size),)))
            for _ in range(10):
                got += len((await received(agent)).updateWorkloadState.workloadStates)
            if lazy.broken:
                break
        assert lazy.broken
        gone = await running.next()
        assert isinstance(gone, ClientGone)
        assert "it does not read" in caplog.text
        running.server.dispatch(BroadcastStates((a_state("after"),)))
        assert (await received(agent)).updateWorkloadState.workloadStates[0].executionState.additionalInfo == "after"
        assert got >= 40


async def test_one_answer_may_be_larger_than_the_queue() -> None:
    async with running_server(limits=SMALL) as running, running.client() as cli:
        await cli.send(a_request())
        message = await running.next()
        assert isinstance(message, FromClient)
        answer = Response(requestId=message.request.requestId, error=Error(message="x" * 9_000_000))
        running.server.dispatch(Respond(answer))
        assert len((await received(cli)).response.error.message) == 9_000_000


async def test_a_message_that_is_too_large_is_refused_by_its_prefix() -> None:
    """Not one byte of it needs to be sent."""
    async with (
        running_server(limits=SMALL) as running,
        answering(running) as noted,
        running.client() as other,
        raw_call(running, Method.AGENT, an_agent_hello("agent_A")) as agent,
    ):
        agent.write(struct.pack(">BI", 0, 10_001))
        trailers = await final_headers_of(agent)
        assert int(trailers["grpc-status"]) == Status.RESOURCE_EXHAUSTED
        assert trailers["grpc-message"] == "a message of 10001 bytes exceeds the limit of 10000 bytes"
        await assert_served(other)
        assert noted == [FromAgent("agent_A", an_agent_hello("agent_A")), AgentGone("agent_A")]


async def test_the_sender_of_a_message_that_is_too_large_gets_the_reason() -> None:
    async with running_server(limits=SMALL) as running, running.client() as cli:
        with pytest.raises(ConnectionLost, match=r"a message of 50.* bytes exceeds the limit of 10000 bytes"):
            await cli.send(a_request("x" * 50_000))
            await received(cli)


async def test_a_message_of_exactly_the_limit_passes() -> None:
    async with running_server(limits=SMALL) as running, running.client() as cli:
        request = a_request("x")
        request.request.requestId = "x" * (10_001 - request.ByteSize() - 3)
        while request.ByteSize() < 10_000:
            request.request.requestId += "x"
        assert request.ByteSize() == 10_000
        await cli.send(request)
        assert isinstance(await running.next(), FromClient)


async def test_a_huge_length_costs_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with (
        running_server() as running,
        raw_call(running, Method.CLI, a_commander_hello()) as stream,
    ):
        stream.write(struct.pack(">BI", 0, 0xFFFFFFFF) + b"x" * 1_000_000)
        assert "exceeds the limit of 67108864 bytes" in (await final_headers_of(stream))["grpc-message"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


async def test_a_hello_has_a_smaller_size_limit() -> None:
    async with running_server() as running:
        with pytest.raises(CannotConnect) as failure:
            async with running.client(hello=a_commander_hello("1" * 2_000_000)):
                pass
        assert "exceeds the limit of 1048576 bytes" in failure.value.reason


async def test_a_call_without_hello_ends_in_time() -> None:
    async with (
        running_server(limits=Limits(hello_timeout=0.2, keepalive=LONG_KEEPALIVE)) as running,
        raw_connection(running) as connection,
    ):
        stream = opened(connection, Method.AGENT)
        headers = await final_headers_of(stream)
        assert int(headers["grpc-status"]) == Status.DEADLINE_EXCEEDED
        assert headers["grpc-message"] == "No hello in time."


async def test_compressed_messages_are_refused_with_a_reason() -> None:
    async with running_server() as running, raw_call(running, Method.CLI, a_commander_hello()) as stream:
        stream.write(struct.pack(">BI", 1, 3) + b"abc")
        trailers = await final_headers_of(stream)
        assert int(trailers["grpc-status"]) == Status.UNIMPLEMENTED
        assert trailers["grpc-message"] == "compressed messages are not supported"


async def test_a_message_that_is_no_protobuf_ends_the_call_with_a_reason() -> None:
    async with running_server() as running, raw_call(running, Method.CLI, a_commander_hello()) as stream:
        stream.write(length_prefixed(b"\xff\xff\xff"))
        trailers = await final_headers_of(stream)
        assert int(trailers["grpc-status"]) == Status.INVALID_ARGUMENT
        assert "cannot decode a ToServer message" in trailers["grpc-message"]


@pytest.mark.parametrize("size", [1, 5, 6])
async def test_a_stream_that_ends_in_a_message_is_refused_and_cleaned_up(size: int) -> None:
    async with running_server() as running, raw_call(running, Method.AGENT, an_agent_hello("agent_A")) as stream:
        await running.next()
        stream.write((struct.pack(">BI", 0, 100) + b"x")[:size])
        stream.half_close()
        assert await running.next() == AgentGone("agent_A")
        trailers = await final_headers_of(stream)
        assert int(trailers["grpc-status"]) == Status.INVALID_ARGUMENT
        assert trailers["grpc-message"] == "the stream ended in the middle of a message"


async def test_senders_wait_for_a_full_channel_without_loss() -> None:
    """No messages are taken for a while: the senders wait, and all messages arrive later."""
    async with running_server(capacity=1) as running, running.agent("agent_A") as agent:
        sending = asyncio.create_task(_send(agent.send, 3_000))
        await asyncio.sleep(0.2)
        assert not sending.done()
        await running.next()
        for number in range(3_000):
            message = await running.next()
            assert isinstance(message, FromAgent)
            assert message.message.request.requestId.endswith(f"#{number}")
        await sending


async def _send(send: object, count: int) -> None:
    for number in range(count):
        await send(a_request(f"web@{'x' * 2000}#{number}"))  # type: ignore[operator]


async def test_the_client_refuses_messages_that_are_too_large() -> None:
    async with running_server() as running:
        settings = ConnectionSettings(running.url, max_message_size=1000)
        async with connect(settings, Method.CLI, a_commander_hello()) as cli:
            await cli.send(a_request())
            message = await running.next()
            assert isinstance(message, FromClient)
            answer = Response(requestId=message.request.requestId, error=Error(message="x" * 2000))
            running.server.dispatch(Respond(answer))
            with pytest.raises(ConnectionLost, match="exceeds the limit of 1000 bytes"):
                await received(cli)


async def test_many_streams_on_one_connection_are_independent() -> None:
    async with running_server() as running, answering(running), raw_connection(running) as connection:
        streams = [opened(connection, Method.CLI, a_commander_hello()) for _ in range(100)]
        for stream in streams[1:]:
            request = a_request()
            request.request.completeStateRequest.fieldMask.append("x" * 300_000)
            stream.write(length_prefixed(request.SerializeToString()))
        streams[0].write(length_prefixed(a_request().SerializeToString()))
        async with asyncio.timeout(30):
            for stream in streams:
                assert await stream.receive(FromServer) is not None


async def test_a_flood_of_pings_ends_the_connection() -> None:
    ping = b"\0\0\x08\6\0\0\0\0\0" + b"ankaios!"
    async with running_server() as running, answering(running), running.client() as other:
        lazy, writer = await asyncio.open_connection("127.0.0.1", running.server.port)
        writer.write(PREFACE + b"\0\0\0\4\0\0\0\0\0")
        with pytest.raises(ConnectionError):
            for _ in range(20_000):
                writer.write(ping * 1000)
                await writer.drain()
        assert lazy is not None
        await assert_served(other)


async def test_a_peer_with_a_huge_window_and_huge_frames_gets_everything_as_fast_as_it_reads() -> None:
    """The socket buffer is full here, not the window."""
    client = H2Connection()
    client.initiate_connection()
    client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1, SettingCodes.MAX_FRAME_SIZE: 2**24 - 1})
    client.increment_flow_control_window(2**31 - 65536)
    client.send_headers(1, request_headers(Method.AGENT.value, secure=False, authority="x"))
    client.send_data(1, length_prefixed(an_agent_hello("agent_A").SerializeToString()))
    async with running_server() as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.server.port, limit=65536)
        writer.write(client.data_to_send())
        await running.next()
        for size in (15_000_000, *[1_000_000] * 15):
            running.server.dispatch(Respond(Response(requestId="agent_A@x", error=Error(message="x" * size))))
        stream = running.server._agent_calls["agent_A"]
        assert stream.queued_bytes > 10_000_000
        assert not stream.connection._writable
        total = 0
        async with asyncio.timeout(10):
            while total < 30_000_000:
                for event in client.receive_data(await reader.read(65536)):
                    total += len(event.data) if isinstance(event, DataReceived) else 0
        assert stream.queued_bytes == 0
        writer.close()


async def test_closing_during_the_replacement_of_a_connection_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with AsyncExitStack() as stack, running_server(capacity=1) as running:
        first = await stack.enter_async_context(raw_call(running, Method.AGENT, an_agent_hello("agent_A")))
        first.connection._transport.pause_reading()
        for _ in range(20):
            connection = await stack.enter_async_context(raw_connection(running))
            opened(connection, Method.AGENT, an_agent_hello("agent_A"))
        await asyncio.sleep(0.1)
        await running.server.close()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_connection_is_closed_even_if_its_user_is_cancelled_twice() -> None:
    stuck: asyncio.Future[AsyncConnection] = asyncio.get_running_loop().create_future()

    async def use(running: Running) -> None:
        async with running.client() as cli:
            for _ in range(2):  # the channel takes one, the server holds the other
                await cli.send(a_request("x" * 5_000_000))
            stuck.set_result(cli._call.connection)
            await cli.send(a_request("x" * 5_000_000))

    async with running_server(capacity=1) as running:
        user = asyncio.create_task(use(running))
        async with asyncio.timeout(10):
            connection = await stuck
        user.cancel()
        await asyncio.sleep(0.01)
        assert not user.done()
        user.cancel()
        await asyncio.wait([user])
        assert connection.reason == "the connection was closed"


async def test_an_agent_that_does_not_read_can_still_be_replaced() -> None:
    limits = Limits(keepalive=Keepalive(60, 0.2))
    async with (
        running_server(limits=limits) as running,
        raw_call(running, Method.AGENT, an_agent_hello("agent_A")) as lazy,
    ):
        await running.next()
        lazy.connection._transport.pause_reading()
        for _ in range(5):
            running.server.dispatch(Respond(Response(requestId="agent_A@x", error=Error(message="x" * 1_000_000))))
        async with running.agent("agent_A"):
            assert await running.next() == AgentGone("agent_A")
            assert isinstance(await running.next(), FromAgent)
        lazy.connection._transport.resume_reading()
        async with asyncio.timeout(10):
            with pytest.raises(ConnectionBroken):
                while await lazy.receive(FromServer):
                    pass


async def test_a_fault_of_the_server_ends_one_call_only(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(Channel[ToServerMessage]):
        async def send(self, item: ToServerMessage) -> None:
            match item:
                case FromAgent():
                    raise RuntimeError("a bug")
                case _:
                    await super().send(item)

    server = MiddlewareServer(Faulty(10), None)
    await server.start("127.0.0.1", 0)
    running = Running(server, server._to_server, f"http://127.0.0.1:{server.port}")
    async with running.client() as cli:
        async with running.agent("agent_A") as agent:
            with pytest.raises(ConnectionLost, match=r"internal error of the server \(INTERNAL\)"):
                await received(agent)
        assert await running.next() == AgentGone("agent_A")
        assert "a bug" in caplog.text
        await cli.send(a_request())
        assert isinstance(await running.next(), FromClient)
    await server.close()


async def test_calls_end_when_the_channel_is_closed() -> None:
    async with running_server() as running, running.client() as cli:
        running.channel.close()
        await cli.send(a_request())
        with pytest.raises(ConnectionLost, match=r"the server is stopping \(UNAVAILABLE\)"):
            await received(cli)


# Unfinished messages, connections that end, and the number of connections


async def test_unfinished_messages_of_one_connection_have_a_limit_in_total() -> None:
    """Each of them may become a valid message, but together they are larger than any message may be."""
    limits = Limits(max_message_size=1_000_000, keepalive=LONG_KEEPALIVE)
    async with (
        running_server(limits=limits) as running,
        answering(running),
        running.client() as other,
        raw_connection(running) as connection,
    ):
        streams = [opened(connection, Method.CLI, a_commander_hello()) for _ in range(50)]
        for stream in streams:
            stream.write(struct.pack(">BI", 0, 1_000_000) + bytes(200_000))
        async with asyncio.timeout(TIME_LIMIT):
            await connection.closed.wait()
        assert "too many bytes of unfinished or unread messages" in (connection.reason or "")
        await assert_served(other)


async def test_a_message_that_is_not_complete_in_time_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.grpc.server_call.message_time_limit", lambda size: 0.2)
    async with running_server() as running, raw_call(running, Method.AGENT, an_agent_hello("agent_A")) as stream:
        await running.next()
        await asyncio.sleep(0.3)  # no message has begun
        assert stream.broken is None
        stream.write(struct.pack(">BI", 0, 100) + b"x")
        trailers = await final_headers_of(stream)
        assert int(trailers["grpc-status"]) == Status.DEADLINE_EXCEEDED
        assert trailers["grpc-message"] == "a message of 100 bytes was not complete within 0 s"
        assert await running.next() == AgentGone("agent_A")


async def test_messages_of_a_connection_that_ended_are_not_processed_any_more() -> None:
    async with running_server(capacity=1) as running:
        async with raw_call(running, Method.CLI, a_commander_hello()) as stream:
            data = b"".join(length_prefixed(a_request(str(number)).SerializeToString()) for number in range(1_000))
            stream.write(data)
            await running.next()
        received_count = 0
        while isinstance(await running.next(), FromClient):
            received_count += 1
        assert received_count < 10


async def test_connections_that_send_nothing_are_ended_and_others_are_served() -> None:
    limits = Limits(setup_timeout=0.3, keepalive=LONG_KEEPALIVE)
    async with running_server(limits=limits) as running, answering(running), running.client() as other:
        idle = [await asyncio.open_connection("127.0.0.1", running.server.port) for _ in range(50)]
        async with asyncio.timeout(10):
            for reader, writer in idle:
                assert await reader.read() == b""
                writer.close()
        await assert_served(other)


async def test_a_connection_without_calls_is_ended() -> None:
    limits = Limits(setup_timeout=0.3, hello_timeout=0.1, keepalive=LONG_KEEPALIVE)
    async with running_server(limits=limits) as running, raw_connection(running) as connection:
        stream = opened(connection, Method.CLI)
        assert (await final_headers_of(stream))["grpc-message"] == "No hello in time."
        async with asyncio.timeout(10):
            await connection.closed.wait()
        assert "the connection is not used" in (connection.reason or "")


async def test_command_connections_leave_descriptors_for_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.middleware.server.own_connection_limits", lambda: ConnectionLimits(8, 4, 2, 2))
    async with running_server() as running, running.client(), running.client():
        with pytest.raises(CannotConnect) as failure:
            async with running.client():
                pass
        assert "too many command connections: 2 are open" in failure.value.reason
        async with running.agent("agent_A"):
            assert isinstance(await running.next(), FromAgent)


async def test_connections_that_are_not_set_up_are_limited_for_each_address(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ankaios.middleware.server.own_connection_limits", lambda: ConnectionLimits(8, 4, 2, 2))
    async with running_server() as running:
        idle = [await asyncio.open_connection("127.0.0.1", running.server.port) for _ in range(40)]
        for _ in range(50):
            rejected = [reader for reader, _ in idle if reader.at_eof()]
            if len(rejected) == 36:
                break
            await asyncio.sleep(0.05)
        assert len(rejected) == 36
        lines = [record for record in caplog.records if "too many are not set up yet" in record.message]
        assert len(lines) == 10
        other = await asyncio.open_connection("127.0.0.1", running.server.port, local_addr=("127.0.0.2", 0))
        other[1].write(PREFACE + b"\0\0\0\4\0\0\0\0\0")
        async with asyncio.timeout(10):
            assert await other[0].read(9)
        for _, writer in (*idle, other):
            writer.close()


async def test_without_descriptors_accepting_pauses_and_continues_later(caplog: pytest.LogCaptureFixture) -> None:
    async with running_server() as running, answering(running):
        listener = running.server._grpc._listener
        assert listener is not None
        real, attempts, has_tried = listener._socket, [], asyncio.Event()

        class WithoutDescriptors:
            def accept(self) -> None:
                attempts.append(1)
                has_tried.set()
                raise OSError(errno.EMFILE, "too many open files")

            def fileno(self) -> int:
                return real.fileno()

        listener._socket = WithoutDescriptors()  # type: ignore[assignment]
        connecting = asyncio.create_task(_use_once(running))
        async with asyncio.timeout(TIME_LIMIT):
            await has_tried.wait()
        assert not connecting.done()
        listener._socket = real
        async with asyncio.timeout(10):
            await connecting
        assert len(attempts) <= 3
        assert caplog.text.count("Cannot accept connections for a moment: Too many open files.") <= 3


async def _use_once(running: Running) -> None:
    async with running.client() as cli:
        await assert_served(cli)


async def test_a_burst_of_connections_that_waited_for_the_server_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the backlog together when the server is ready, more than the limit for one address."""
    monkeypatch.setattr("ankaios.middleware.server.own_connection_limits", lambda: connection_limits(1024))
    count = 100
    async with AsyncExitStack() as stack:
        early = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=4096))
        settings = ConnectionSettings(
            f"http://127.0.0.1:{early.getsockname()[1]}", keepalive=Keepalive(60.0), connect_timeout=60.0
        )

        async def open_one() -> None:
            await stack.enter_async_context(connect(settings, Method.CLI, a_commander_hello()))

        opening = [asyncio.create_task(open_one()) for _ in range(count)]
        await asyncio.sleep(0.3)
        server = MiddlewareServer(Channel(count), None, Limits(keepalive=LONG_KEEPALIVE))
        stack.push_async_callback(server.close)
        server.listen_on(early)
        results = await asyncio.gather(*opening, return_exceptions=True)
    assert [result for result in results if result is not None] == []
