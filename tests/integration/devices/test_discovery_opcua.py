"""The OPC UA handler against a server of another implementation, and against servers that misbehave."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from asyncua import Server, ua

from ankaios.devices.discovery import opcua
from ankaios.devices.discovery.opcua import OpcuaHandler, OpcuaSettings, find_all, find_servers
from ankaios.devices.discovery.opcua_binary import MalformedUa


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@asynccontextmanager
async def thermometer(port: int) -> AsyncIterator[str]:
    """A real server."""
    server = Server()
    await server.init()
    server.application_type = ua.ApplicationType.Server
    server.set_server_name("Thermometer")
    url = f"opc.tcp://127.0.0.1:{port}/some/path"
    server.set_endpoint(url)
    async with server:
        yield url


def details(*ports: int, more: str = "") -> str:
    urls = [f"opc.tcp://127.0.0.1:{port}/" for port in ports]
    return f"opcuaDiscoveryMethod: {{standard: {{discoveryUrls: {urls} }}}}\n{more}"


async def test_a_real_server_is_found_when_it_starts_and_lost_when_it_stops() -> None:
    port = free_port()
    async with asyncio.timeout(60), aclosing(OpcuaHandler(poll_seconds=0.1).discover(details(port), {})) as lists:
        assert await anext(lists) == ()
        async with thermometer(port) as url:
            (device,) = await anext(lists)
            assert (device.id, device.properties) == (url, {"OPCUA_DISCOVERY_URL": url})
        assert await anext(lists) == ()


async def test_the_name_of_a_real_server_passes_the_filter_or_does_not() -> None:
    port = free_port()
    async with thermometer(port):
        for items, count in (("[Thermometer]", 1), ("[Other]", 0)):
            text = details(port, more=f"applicationNames: {{items: {items}}}")
            async with aclosing(OpcuaHandler().discover(text, {})) as lists:
                assert len(await anext(lists)) == count


def text(value: str) -> bytes:
    return struct.pack("<i", len(value)) + value.encode()


def message(kind: bytes, content: bytes, final: bytes = b"F") -> bytes:
    return kind + final + struct.pack("<I", 8 + len(content)) + content


def answer(type_id: int) -> bytes:
    return b"\x01\0" + struct.pack("<HqII", type_id, 0, 1, 0) + b"\0" + struct.pack("<i", -1) + b"\0\0\0"


ACK = message(b"ACK", bytes(20))
OPEN = message(
    b"OPN", bytes(4) + struct.pack("<iii", -1, -1, -1) + bytes(8) + answer(449) + struct.pack("<III", 0, 1, 1)
)


def found(name: str, url: str) -> bytes:
    """A FindServers answer with one server."""
    before_name, between, after = struct.pack("<iii", 1, -1, -1), struct.pack("<iii", 0, -1, -1), struct.pack("<i", 1)
    return answer(425) + before_name + b"\x02" + text(name) + between + after + text(url)


FOUND = found("chunked", "opc.tcp://127.0.0.1:4840/")


@asynccontextmanager
async def scripted(*answers: bytes) -> AsyncIterator[str]:
    """A server that sends one answer after each thing it hears, whatever that was."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for one in answers:
                if not await reader.read(4096):
                    break
                writer.write(one)
                await writer.drain()
            await reader.read()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"opc.tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_an_answer_in_several_chunks_is_put_together() -> None:
    head, middle, tail = FOUND[:10], FOUND[10:40], FOUND[40:]
    chunks = [message(b"MSG", bytes(16) + part, final) for part, final in ((head, b"C"), (middle, b"C"), (tail, b"F"))]
    async with scripted(ACK, OPEN, b"".join(chunks)) as url:
        (application,) = await find_servers(url)
    assert application.name == "chunked"


@pytest.mark.parametrize(
    "answers",
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
        (message(b"ERR", struct.pack("<I", 0x80830000) + text("no such endpoint")),),
        (OPEN,),
        (ACK, ACK),
        (ACK, OPEN, message(b"MSG", bytes(16) + struct.pack("<I", 0x80800000) + text("aborted"), b"A")),
        (ACK, OPEN, message(b"MSG", bytes(8))),
        (ACK, OPEN, message(b"MSG", bytes(16) + b"\xff" * 50)),
        (ACK, OPEN, message(b"MSG", bytes(16), b"C") * 100),
        (b"MSGF\xff\xff\xff\xff",),
    ],
    ids=["http", "error", "order", "order of open", "abort", "short", "garbage", "endless chunks", "huge"],
)
async def test_a_server_that_misbehaves_tells_nothing_and_disturbs_nobody(answers: tuple[bytes, ...]) -> None:
    good = (ACK, OPEN, message(b"MSG", bytes(16) + FOUND))
    async with scripted(*answers) as bad_url, scripted(*good) as good_url:
        (device,) = await find_all(OpcuaSettings((bad_url, good_url), None))
    assert device.id == "opc.tcp://127.0.0.1:4840/"


async def test_a_server_that_keeps_silent_is_left_after_the_limit(monkeypatch: Any) -> None:
    monkeypatch.setattr(opcua, "ANSWER_SECONDS", 0.2)
    async with asyncio.timeout(10), scripted(ACK) as url:
        assert await find_all(OpcuaSettings((url,), None)) == ()


async def test_a_host_only_the_server_knows_is_replaced_by_the_configured_one() -> None:
    answers = (ACK, OPEN, message(b"MSG", bytes(16) + found("x", "opc.tcp://no-such-host.invalid:1/some/path")))
    async with asyncio.timeout(20), scripted(*answers) as url:
        (device,) = await find_all(OpcuaSettings((url,), None))
    assert device.id == f"{url}some/path"


async def test_a_host_name_that_is_none_tells_nothing() -> None:
    assert await find_all(OpcuaSettings(("opc.tcp://a..b:4840/", f"opc.tcp://{'x' * 70}:4840/"), None)) == ()


async def test_an_answer_that_is_longer_than_allowed_is_not_taken_in() -> None:
    chunk = message(b"MSG", bytes(16 + 500_000), b"C")
    async with asyncio.timeout(20), scripted(ACK, OPEN, chunk * 3) as url:
        with pytest.raises(MalformedUa, match="too long"):
            await find_servers(url)
