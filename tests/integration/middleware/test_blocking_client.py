"""The client without an event loop, over real sockets: the same exchanges and errors as the asyncio client."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ankaios.common.messages import ClientGone, FromClient, Respond
from ankaios.common.pb.ank_base_pb2 import Error, Response
from ankaios.common.pb.grpc_api_pb2 import FromServer, Goodbye, ToServer
from ankaios.grpc.blocking_call import WaitInterrupted
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.wire_format import length_prefixed
from ankaios.middleware.blocking_client import BlockingConnection, connect_blocking
from ankaios.middleware.connecting import (
    AccessRefused,
    CannotConnect,
    ConnectionLost,
    ConnectionSettings,
    VersionRefused,
)
from ankaios.middleware.methods import Method
from ankaios.middleware.server import Limits
from tests.integration.grpc.h2_server import TIME_LIMIT, H2Server, h2_server
from tests.integration.middleware.support import (
    LONG_KEEPALIVE,
    Running,
    a_commander_hello,
    a_greeting,
    a_request,
    an_agent_hello,
    an_answer,
    answering,
    running_server,
)
from tests.support.certificates import Authority


def settings_of(running: Running, **changes: Any) -> ConnectionSettings:
    settings = ConnectionSettings(running.url, keepalive=Keepalive(5.0, 5.0))
    return settings._replace(**changes)


def cli(settings: ConnectionSettings, hello: ToServer | None = None) -> BlockingConnection:
    return connect_blocking(settings, Method.CLI, hello or a_commander_hello())


def request(settings: ConnectionSettings, request_id: str = "id") -> FromServer | None:
    with cli(settings) as connection:
        connection.send(a_request(request_id))
        return connection.receive(TIME_LIMIT)


def large(size: int) -> FromServer:
    return FromServer(response=Response(requestId="large", error=Error(message="x" * size)))


@contextmanager
def scripted(script: Callable[[H2Server], None]) -> Iterator[ConnectionSettings]:
    with h2_server(script) as port:
        yield ConnectionSettings(f"http://127.0.0.1:{port}", keepalive=Keepalive(5.0, 5.0))


# Exchanges


async def test_a_request_is_answered() -> None:
    async with running_server() as running, answering(running):
        answer = await asyncio.to_thread(request, settings_of(running))
    assert answer is not None
    assert answer.response.requestId == "id"


async def test_requests_may_be_sent_without_waiting_and_are_answered_in_order() -> None:
    def exchange(settings: ConnectionSettings) -> list[str]:
        with cli(settings) as connection:
            for number in range(100):
                connection.send(a_request(str(number)))
            answers = [connection.receive(TIME_LIMIT) for _ in range(100)]
        return [answer.response.requestId for answer in answers if answer]

    async with running_server() as running, answering(running):
        answered = await asyncio.to_thread(exchange, settings_of(running))
    assert answered == [str(number) for number in range(100)]


async def test_the_server_is_notified_of_the_end_immediately() -> None:
    async with running_server() as running:
        waiting = asyncio.create_task(asyncio.to_thread(request, settings_of(running)))
        message = await running.next()
        assert isinstance(message, FromClient)
        running.server.dispatch(Respond(an_answer(message.request.requestId)))
        assert await running.next() == ClientGone(message.connection)
        await waiting


async def test_a_goodbye_is_answered_by_the_end_of_the_stream() -> None:
    def leave(settings: ConnectionSettings) -> str:
        with cli(settings) as connection:
            connection.send(ToServer(goodbye=Goodbye()))
            with pytest.raises(ConnectionLost) as lost:
                connection.receive(TIME_LIMIT)
        return str(lost.value)

    async with running_server() as running:
        assert await asyncio.to_thread(leave, settings_of(running)) == "the server ended the connection"


async def test_a_large_request_is_sent_as_fast_as_the_server_reads_it() -> None:
    async with running_server() as running:
        sending = asyncio.create_task(asyncio.to_thread(request, settings_of(running), "x" * 20_000_000))
        message = await running.next()
        assert isinstance(message, FromClient)
        assert len(message.request.requestId) > 20_000_000
        await running.server.close()
        with pytest.raises(ConnectionLost):
            await sending


@pytest.mark.parametrize("size", [20 * 1024 * 1024, 63 * 1024 * 1024])
def test_a_large_answer_passes(size: int) -> None:
    def script(peer: H2Server) -> None:
        peer.accept()
        peer.send_message(large(size))
        peer.send_message(a_greeting())
        peer.read_until(lambda: False)

    with scripted(script) as settings, cli(settings) as connection:
        answer = connection.receive(TIME_LIMIT)
        assert answer is not None
        assert len(answer.response.error.message) == size
        assert connection.receive(TIME_LIMIT) == a_greeting()


# Acceptance and rejection


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


async def refusal(running: Running, **changes: Any) -> str:
    with pytest.raises(CannotConnect) as failure:
        await asyncio.to_thread(request, settings_of(running, **changes))
    assert str(failure.value) == f"Could not connect to Ankaios server on '{running.url}'."
    return failure.value.reason


async def test_requests_are_answered_over_mutual_tls(authority: Authority) -> None:
    async with running_server(authority.server()) as running, answering(running):
        answer = await asyncio.to_thread(request, settings_of(running, pem=authority.cli()), "x" * 1_000_000)
    assert answer is not None
    assert len(answer.response.requestId) == 1_000_000


async def test_a_server_of_another_authority_is_not_trusted(authority: Authority, tmp_path: Path) -> None:
    async with running_server(Authority(tmp_path).server()) as running:
        reason = await refusal(running, pem=authority.cli())
    assert reason.startswith("the certificate of the server is not trusted, checked with")
    assert str(authority.certificate) in reason


async def test_a_server_with_another_name_is_not_trusted(authority: Authority) -> None:
    async with running_server(authority.server("localhost")) as running:
        assert "ank-server" in await refusal(running, pem=authority.cli())


async def test_a_client_certificate_of_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    foreign = Authority(tmp_path).issue("x", san="", usage="clientAuth", ca=authority.certificate)
    async with running_server(authority.server()) as running:
        reason = await refusal(running, pem=foreign)
    assert reason == f"the server rejected the certificate '{foreign.crt.origin}': unknown ca"


async def test_a_server_without_tls_is_detected(authority: Authority) -> None:
    async with running_server() as running:
        running.url = running.url.replace("http:", "https:")
        assert await refusal(running, pem=authority.cli()) == "the server does not use TLS"


async def test_a_server_that_sends_nothing_may_use_tls(authority: Authority) -> None:
    async with running_server(authority.server()) as running:
        running.url = running.url.replace("https:", "http:")
        reason = await refusal(running)
    assert "if the server uses TLS, certificate files and an https address are needed" in reason


async def test_another_version_is_refused() -> None:
    async with running_server() as running:
        with pytest.raises(VersionRefused) as failure, cli(settings_of(running), a_commander_hello("2.0.0")) as refused:
            await asyncio.to_thread(refused.receive, TIME_LIMIT)
    assert failure.value.text == "Unsupported protocol version '2.0.0'. Currently supported '1'"


async def test_a_rejection_is_reported_also_while_sending() -> None:
    def send_until_refused(settings: ConnectionSettings) -> None:
        with cli(settings, a_commander_hello("2.0.0")) as refused:
            for _ in range(1000):
                refused.send(a_request("x" * 100_000))

    async with running_server() as running:
        with pytest.raises(VersionRefused):
            await asyncio.to_thread(send_until_refused, settings_of(running))


async def test_a_wrong_hello_and_a_wrong_certificate_are_refused(authority: Authority) -> None:
    def come_in(settings: ConnectionSettings, method: Method, hello: ToServer) -> None:
        with connect_blocking(settings, method, hello) as connection:
            connection.receive(TIME_LIMIT)

    async with running_server(authority.server()) as running:
        settings = settings_of(running, pem=authority.agent("agent_B"))
        with pytest.raises(AccessRefused, match="does not match SAN"):
            await asyncio.to_thread(come_in, settings, Method.AGENT, an_agent_hello("agent_A"))
        with pytest.raises(CannotConnect) as failure:
            await asyncio.to_thread(come_in, settings, Method.CLI, an_agent_hello("agent_A"))
    assert failure.value.reason == "the server rejected the call: No CommanderHello received. (INVALID_ARGUMENT)"


def sending_another_protocol(peer: H2Server) -> None:
    peer.socket.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def hanging_up(peer: H2Server) -> None:
    peer.read_until(lambda: bool(peer.call))


@pytest.mark.parametrize("script", [sending_another_protocol, hanging_up])
def test_a_server_that_does_not_accept_the_call_is_no_connection(script: Callable[[H2Server], None]) -> None:
    with scripted(script) as settings, cli(settings) as connection, pytest.raises(CannotConnect) as failure:
        connection.receive(TIME_LIMIT)
    assert failure.value.reason


def test_a_server_that_never_responds_is_reported_in_time() -> None:
    with scripted(H2Server.send_nothing) as settings:
        short_settings = settings._replace(connect_timeout=0.3)
        with cli(short_settings) as connection, pytest.raises(CannotConnect) as failure:
            connection.receive(TIME_LIMIT)
    assert failure.value.reason == "no response within 0.3 s"


def test_a_time_limit_and_an_interrupt_also_end_the_wait_for_a_server_that_never_responds() -> None:
    read_end, write_end = os.pipe()
    with scripted(H2Server.send_nothing) as settings, cli(settings) as connection:
        assert connection.receive(0.05) is None
        connection.watch(read_end)
        os.write(write_end, b"!")
        with pytest.raises(WaitInterrupted):
            connection.receive(None)
    os.close(read_end)
    os.close(write_end)


def test_a_tls_handshake_without_response_ends_in_time(authority: Authority) -> None:
    with scripted(H2Server.send_nothing) as settings:
        secure = settings._replace(url=settings.url.replace("http:", "https:"), pem=authority.cli())
        with pytest.raises(CannotConnect) as failure:
            cli(secure._replace(connect_timeout=0.3))
    assert failure.value.reason == "no response within 0.3 s"


# Losing the server


def lost(script: Callable[[H2Server], None], **changes: Any) -> str:
    """Why there are no more messages after the first."""
    with scripted(script) as settings, cli(settings._replace(**changes)) as connection:
        assert connection.receive(TIME_LIMIT) == a_greeting()
        with pytest.raises(ConnectionLost) as failure:
            connection.receive(None)
        with pytest.raises(ConnectionLost):
            connection.send(a_request())
    return str(failure.value)


def greeting(peer: H2Server) -> None:
    peer.accept()
    peer.send_message(a_greeting())


def test_a_server_that_closes_in_the_middle_of_a_message_is_lost() -> None:
    def script(peer: H2Server) -> None:
        greeting(peer)
        peer.send(length_prefixed(large(1000).SerializeToString())[:500])

    assert lost(script) == "the peer closed the connection"


def test_a_stream_that_ends_in_the_middle_of_a_message_is_reported() -> None:
    def script(peer: H2Server) -> None:
        greeting(peer)
        peer.h2.send_data(peer.call, length_prefixed(b"12345")[:7], end_stream=True)
        peer.flush()
        peer.read_until(lambda: False)

    assert lost(script) == "the stream ended in the middle of a message (INVALID_ARGUMENT)"


def test_messages_that_arrived_before_the_end_are_returned() -> None:
    def script(peer: H2Server) -> None:
        peer.accept()
        for number in range(3):
            peer.send_message(large(number))

    with scripted(script) as settings, cli(settings) as connection:
        sizes = [len(message.response.error.message) for _ in range(3) if (message := connection.receive(TIME_LIMIT))]
        with pytest.raises(ConnectionLost):
            connection.receive(TIME_LIMIT)
    assert sizes == [0, 1, 2]


def test_a_status_is_reported_instead_of_the_end_of_the_stream() -> None:
    def script(peer: H2Server) -> None:
        greeting(peer)
        peer.h2.send_headers(peer.call, [("grpc-status", "8"), ("grpc-message", "too%20much")], end_stream=True)
        peer.flush()
        peer.read_until(lambda: False)

    assert lost(script) == "too much (RESOURCE_EXHAUSTED)"


def test_resets_and_goaways_end_the_connection() -> None:
    def resetting(peer: H2Server) -> None:
        greeting(peer)
        peer.h2.reset_stream(peer.call)
        peer.flush()
        peer.read_until(lambda: False)

    def leaving(peer: H2Server) -> None:
        greeting(peer)
        peer.h2.close_connection(0, b"shutdown")
        peer.flush()

    assert lost(resetting) == "the peer reset the stream"
    assert lost(leaving) == "the peer ended the connection (0, shutdown)"


def test_a_server_that_violates_http2_is_disconnected() -> None:
    def script(peer: H2Server) -> None:
        greeting(peer)
        peer.read_until(lambda: len(peer.received) > 50)
        peer.socket.sendall(b"\xff" * 100)
        peer.read_until(lambda: False)

    with scripted(script) as settings, cli(settings) as connection:
        assert connection.receive(TIME_LIMIT) == a_greeting()
        connection.send(a_request("x" * 50))
        with pytest.raises(ConnectionLost, match=r"^HTTP/2 protocol error: "):
            connection.receive(TIME_LIMIT)


def test_a_message_that_is_too_large_is_refused_by_its_prefix() -> None:
    def script(peer: H2Server) -> None:
        greeting(peer)
        peer.send(b"\0" + (10_001).to_bytes(4, "big"))
        peer.read_until(lambda: False)

    with scripted(script) as settings, cli(settings._replace(max_message_size=10_000)) as connection:
        assert connection.receive(TIME_LIMIT) == a_greeting()
        with pytest.raises(ConnectionLost) as failure:
            connection.receive(TIME_LIMIT)
    assert str(failure.value) == "a message of 10001 bytes exceeds the limit of 10000 bytes (RESOURCE_EXHAUSTED)"


async def test_the_sender_of_a_message_that_is_too_large_gets_the_reason() -> None:
    async with running_server(limits=Limits(max_message_size=10_000, keepalive=LONG_KEEPALIVE)) as running:
        with pytest.raises(ConnectionLost, match=r"a message of 50.* bytes exceeds the limit of 10000 bytes"):
            await asyncio.to_thread(request, settings_of(running), "x" * 50_000)


def test_a_message_that_cannot_be_decoded_is_reported() -> None:
    def script(peer: H2Server) -> None:
        greeting(peer)
        peer.send(length_prefixed(b"\xff\xff"))
        peer.read_until(lambda: False)

    with scripted(script) as settings, cli(settings) as connection:
        assert connection.receive(TIME_LIMIT) == a_greeting()
        with pytest.raises(ConnectionLost, match="cannot decode a FromServer message"):
            connection.receive(TIME_LIMIT)


def test_a_server_that_floods_the_connection_is_disconnected() -> None:
    def script(peer: H2Server) -> None:
        greeting(peer)
        for _ in range(50):
            for _ in range(100):
                peer.h2.ping(b"12345678")
            peer.flush()

    assert lost(script) == "HTTP/2 protocol error: more than 1000 frames without data in a second"


# Peers that do not respond


def test_a_server_that_does_not_respond_is_detected_while_waiting_without_limit() -> None:
    def script(peer: H2Server) -> None:
        greeting(peer)
        peer.send_nothing()

    assert lost(script, keepalive=Keepalive(0.2, 0.3)) == "the peer does not respond"


def test_a_server_that_does_not_respond_is_detected_while_data_waits_to_be_sent() -> None:
    with scripted(H2Server.send_nothing) as settings:
        quick = settings._replace(keepalive=Keepalive(0.2, 0.3))
        with cli(quick) as connection, pytest.raises(CannotConnect) as failure:
            connection.send(a_request("x" * 20_000_000))
    assert "the peer does not respond" in failure.value.reason


def test_an_idle_connection_is_kept_even_if_the_client_was_busy() -> None:
    def script(peer: H2Server) -> None:
        peer.accept()
        peer.read_until(lambda: len(peer.received) > 50)
        peer.send_message(a_greeting())
        peer.read_until(lambda: False)

    with scripted(script) as defaults:
        settings = defaults._replace(keepalive=Keepalive(0.3, 1.5))
        with cli(settings) as connection:
            assert connection.receive(0.6) is None  # meanwhile a ping was sent
            time.sleep(1.8)  # longer than the limit, but the response has arrived
            assert connection.receive(1.0) is None
            connection.send(a_request("x" * 50))
            assert connection.receive(TIME_LIMIT) == a_greeting()


# Time limits and wake-ups


def test_a_time_limit_and_an_interrupt_lose_nothing_of_a_partial_message() -> None:
    message = length_prefixed(large(1000).SerializeToString())

    def script(peer: H2Server) -> None:
        greeting(peer)
        peer.send(message[:3])
        peer.read_until(lambda: len(peer.received) > 50)
        peer.send(message[3:500])
        peer.read_until(lambda: len(peer.received) > 150)
        peer.send(message[500:])
        peer.read_until(lambda: False)

    read_end, write_end = os.pipe()
    with scripted(script) as settings, cli(settings) as connection:
        assert connection.receive(TIME_LIMIT) == a_greeting()
        assert connection.receive(0.05) is None
        connection.send(a_request("x" * 50))
        assert connection.receive(0.05) is None
        connection.watch(read_end)
        os.write(write_end, b"!")
        with pytest.raises(WaitInterrupted):
            connection.receive(None)
        connection.watch(None)
        connection.send(a_request("x" * 100))
        assert connection.receive(TIME_LIMIT) == large(1000)
    os.close(read_end)
    os.close(write_end)
