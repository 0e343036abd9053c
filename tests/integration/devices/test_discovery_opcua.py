"""The OPC UA handler with a real server, and with servers that violate the protocol."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest
from asyncua import Server, ua
from hypothesis import given, settings
from hypothesis import strategies as st

from ankaios.devices.core.discovered_device import Devices
from ankaios.devices.discovery.opcua import find_servers as client
from ankaios.devices.discovery.opcua.find_servers import MAX_CHUNK, NoAnswer, find_servers
from ankaios.devices.discovery.opcua.handler import DiscoveryMethod, OpcuaDetails, OpcuaHandler, Standard, find_all


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@asynccontextmanager
async def thermometer(port: int, name: str = "Thermometer") -> AsyncIterator[str]:
    """A real server."""
    server = Server()
    await server.init()
    server.application_type = ua.ApplicationType.Server
    server.set_server_name(name)
    url = f"opc.tcp://127.0.0.1:{port}/some/path"
    server.set_endpoint(url)
    async with server:
        yield url


def details(*ports: int, more: str = "") -> str:
    urls = [f"opc.tcp://127.0.0.1:{port}/" for port in ports]
    return f"opcuaDiscoveryMethod: {{standard: {{discoveryUrls: {urls} }}}}\n{more}"


async def found_at(*urls: str) -> Devices:
    return await find_all(OpcuaDetails(DiscoveryMethod(Standard(urls))), find_servers)


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


async def test_an_answer_of_a_real_server_in_several_chunks_is_put_together() -> None:
    port, name = free_port(), "T" * 200_000
    async with thermometer(port, name):
        (application,) = await find_servers(f"opc.tcp://127.0.0.1:{port}/")
    assert application.name == name


async def test_an_answer_of_a_real_server_that_is_longer_than_allowed_is_refused() -> None:
    port = free_port()
    async with thermometer(port, "T" * 2_000_000):
        with pytest.raises(NoAnswer, match="too long"):
            await find_servers(f"opc.tcp://127.0.0.1:{port}/")


def text(value: str) -> bytes:
    return struct.pack("<i", len(value)) + value.encode()


def message(kind: bytes, content: bytes, final: bytes = b"F") -> bytes:
    return kind + final + struct.pack("<I", 8 + len(content)) + content


def answer(type_id: int) -> bytes:
    return b"\x01\0" + struct.pack("<HqII", type_id, 0, 1, 0) + b"\0" + struct.pack("<i", -1) + b"\0\0\0"


def msg(part: bytes, sequence: int = 2, final: bytes = b"F") -> bytes:
    """A chunk of the answer to the second request, in channel 1 with token 1."""
    return message(b"MSG", struct.pack("<IIII", 1, 1, sequence, 2) + part, final)


ACK = message(b"ACK", struct.pack("<5I", 0, 65536, 65536, 0, 0))
POLICY = text("http://opcfoundation.org/UA/SecurityPolicy#None") + struct.pack("<ii", -1, -1)
TOKEN = struct.pack("<IIIqI", 0, 1, 1, 0, 60_000) + struct.pack("<i", -1)
OPEN = message(b"OPN", struct.pack("<I", 1) + POLICY + struct.pack("<II", 1, 1) + answer(449) + TOKEN)


def applications(*urls: str, name: str = "x") -> bytes:
    """A FindServers answer with one server for each URL."""
    before_name, between = struct.pack("<ii", -1, -1), struct.pack("<iii", 0, -1, -1)
    each = [before_name + b"\x02" + text(name) + between + struct.pack("<i", 1) + text(url) for url in urls]
    return answer(425) + struct.pack("<i", len(each)) + b"".join(each)


URL = "opc.tcp://127.0.0.1:4840/"
GOOD = (ACK, OPEN, msg(applications(URL)))


@asynccontextmanager
async def scripted(*answers: bytes) -> AsyncIterator[str]:
    """A server that sends one answer after each request, for any request."""

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


@pytest.mark.parametrize(
    "answers",
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
        (message(b"ERR", struct.pack("<I", 0x80830000) + text("no such endpoint")),),
        (OPEN,),
        (ACK, ACK),
        (ACK, OPEN, msg(struct.pack("<I", 0x80800000) + text("aborted"), final=b"A")),
        (ACK, OPEN, message(b"MSG", bytes(8))),
        (ACK, OPEN, msg(b"\xff" * 50)),
        (ACK, OPEN, b"".join(msg(b"", number, b"C") for number in range(2, 102))),
        (ACK, OPEN, msg(applications(*[URL] * 1001))),
        (ACK, OPEN, msg(answer(425) + struct.pack("<i", 2**31 - 1))),
        (ACK, OPEN, msg(b"\x01\0" + struct.pack("<HqII", 425, 0, 1, 0) + b"\x40" * 60_000)),
        (b"MSGF\xff\xff\xff\xff" + bytes(100_000),),
    ],
    ids=[
        *("http", "error", "order", "order of open", "abort", "short", "garbage", "endless chunks"),
        *("too many", "huge array", "deep", "huge chunk"),
    ],
)
async def test_a_server_that_violates_the_protocol_is_skipped_and_others_are_found(
    answers: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 1.0)
    async with scripted(*answers) as bad_url, scripted(*GOOD) as good_url:
        (device,) = await found_at(bad_url, good_url)
    assert device.id == URL
    assert "Traceback" not in caplog.text


async def test_a_server_that_does_not_answer_is_skipped_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.2)
    async with asyncio.timeout(10), scripted(ACK) as url:
        assert await found_at(url) == ()


async def test_a_chunk_longer_than_announced_is_refused_before_it_is_buffered() -> None:
    chunk = b"MSGF" + struct.pack("<I", MAX_CHUNK + 1)
    async with asyncio.timeout(20), scripted(ACK, OPEN, chunk) as url:
        with pytest.raises(NoAnswer, match="out of bounds"):
            await find_servers(url)


async def test_an_answer_in_single_bytes_is_understood() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for one in GOOD:
            await reader.read(4096)
            for byte in one:
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with asyncio.timeout(20), server:
        (application,) = await find_servers(f"opc.tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert application.discovery_urls == (URL,)


async def test_a_host_that_only_the_server_can_resolve_is_replaced_by_the_configured_one() -> None:
    answers = (ACK, OPEN, msg(applications("opc.tcp://no-such-host.invalid:1/some/path")))
    async with asyncio.timeout(20), scripted(*answers) as url:
        (device,) = await found_at(url)
    assert device.id == f"{url}some/path"


async def test_no_server_is_found_with_a_malformed_host_name() -> None:
    assert await found_at("opc.tcp://a..b:4840/", f"opc.tcp://{'x' * 70}:4840/") == ()


@settings(max_examples=40, deadline=None)
@given(place=st.integers(0, len(b"".join(GOOD)) - 1), value=st.integers(0, 255))
def test_an_answer_with_one_changed_byte_is_used_or_rejected(place: int, value: int) -> None:
    answers = []
    for one in GOOD:
        broken = bytearray(one)
        if 0 <= place < len(one):
            broken[place] = value
        place -= len(one)
        answers.append(bytes(broken))

    async def request_answer() -> None:
        async with scripted(*answers) as url:
            await found_at(url)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(client, "ANSWER_SECONDS", 0.1)
        asyncio.run(request_answer())
