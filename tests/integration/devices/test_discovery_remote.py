"""Handlers in other processes: registration and discovery over real sockets, with another gRPC implementation."""

import asyncio
import socket
import stat
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived

from ankaios.common.errors import Unavailable
from ankaios.devices.core.discovered_device import Devices
from ankaios.devices.discovery import remote
from ankaios.devices.discovery.base import DiscoveryHandler, HandlerLost, InvalidDetails
from ankaios.devices.discovery.registration_server import REGISTER, RegistrationServer
from ankaios.devices.discovery.registry import HandlerRegistry
from ankaios.devices.discovery.remote import Endpoint, RemoteHandler
from ankaios.devices.pb import discovery_pb2 as pb
from ankaios.devices.unix_rpc import UnixServer, unix_channel
from ankaios.grpc import server_call
from ankaios.grpc.server import server_streaming
from ankaios.grpc.wire_format import CallFailed, Status

PROGRAM = Path(__file__).with_name("file_handler.py")


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[HandlerRegistry]:
    registry = HandlerRegistry({})
    server = RegistrationServer(registry, directory)
    await server.start()
    try:
        yield registry
    finally:
        await server.close()


@asynccontextmanager
async def file_handler(
    directory: Path, name: str = "file", kind: str = "uds"
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(sys.executable, str(PROGRAM), str(directory), name, kind)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def registered(registry: HandlerRegistry, name: str, count: int = 1) -> list[DiscoveryHandler]:
    while len(handlers := registry.get(name)) < count:
        await registry.wait_changed(registry.version)
    return handlers


def ids(devices: Devices) -> list[str]:
    return [device.id for device in devices]


@pytest.mark.parametrize("kind", ["uds", "network"])
async def test_a_handler_of_another_process_registers_and_reports_its_devices(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "devices"
    file.write_text("one\n")
    async with asyncio.timeout(60), serving(tmp_path) as registry, file_handler(tmp_path, kind=kind):
        (handler,) = await registered(registry, "file")
        assert (handler.name, handler.shared) == ("file", True)
        async with aclosing(handler.discover(str(file), {"KEY": b"value", "NONE": None})) as lists:
            (device,) = await anext(lists)
            assert (device.id, device.properties) == ("one", {"KEY": "value"})
            assert device.device_specs[0].permissions == "r"
            file.write_text("one\ntwo\n")
            assert ids(await anext(lists)) == ["one", "two"]


async def test_a_killed_handler_is_lost_and_works_after_it_registered_again(tmp_path: Path) -> None:
    file = tmp_path / "devices"
    file.write_text("one\n")
    async with asyncio.timeout(60), serving(tmp_path) as registry:
        async with file_handler(tmp_path) as process:
            (handler,) = await registered(registry, "file")
            async with aclosing(handler.discover(str(file), {})) as lists:
                assert ids(await anext(lists)) == ["one"]
                process.kill()
                with pytest.raises(HandlerLost, match="'file'"):
                    await anext(lists)
        (tmp_path / "file.sock").unlink(missing_ok=True)
        with pytest.raises(HandlerLost):
            await anext(handler.discover(str(file), {}))
        before = registry.version
        async with file_handler(tmp_path):
            await registry.wait_changed(before)
            assert registry.get("file") == [handler]
            async with aclosing(handler.discover(str(file), {})) as lists:
                assert ids(await anext(lists)) == ["one"]


async def test_two_endpoints_of_one_name_are_both_called(tmp_path: Path) -> None:
    file = tmp_path / "devices"
    file.write_text("one\n")
    async with (
        asyncio.timeout(60),
        serving(tmp_path) as registry,
        file_handler(tmp_path, kind="uds"),
        file_handler(tmp_path, kind="network"),
    ):
        for handler in await registered(registry, "file", 2):
            async with aclosing(handler.discover(str(file), {})) as lists:
                assert ids(await anext(lists)) == ["one"]


async def test_rejected_details_and_missing_answers_are_different_errors(tmp_path: Path) -> None:
    async with asyncio.timeout(60), serving(tmp_path) as registry, file_handler(tmp_path):
        (found,) = await registered(registry, "file")
        assert isinstance(found, RemoteHandler)
        with pytest.raises(InvalidDetails, match="no file is named"):
            await anext(found.discover("invalid", {}))
        handler = RemoteHandler("file", found.endpoint, True, silence_seconds=0.2)
        async with aclosing(handler.discover("unanswered", {})) as lists:
            assert await anext(lists) == ()


async def register(directory: Path, request: pb.RegisterDiscoveryHandlerRequest) -> None:
    channel = unix_channel(directory / "agent-registration.sock")
    try:
        await channel.unary(REGISTER, request, pb.Empty, time_limit=10)
    finally:
        channel.close()


async def test_a_bad_registration_is_answered_with_the_reason(tmp_path: Path) -> None:
    async with asyncio.timeout(20), serving(tmp_path) as registry:
        with pytest.raises(CallFailed, match="absolute path") as caught:
            await register(tmp_path, pb.RegisterDiscoveryHandlerRequest(name="x", endpoint="relative"))
        assert caught.value.status is Status.INVALID_ARGUMENT
        with pytest.raises(CallFailed, match="exceeds the limit of 65536 bytes"):
            await register(tmp_path, pb.RegisterDiscoveryHandlerRequest(name="x", endpoint="/" + "x" * 100_000))
        assert registry._registered == []
        await register(tmp_path, pb.RegisterDiscoveryHandlerRequest(name="x", endpoint="/a"))
        assert len(registry.get("x")) == 1


async def test_a_stale_socket_is_replaced_and_one_in_use_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "agent-registration.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    async with asyncio.timeout(20), serving(tmp_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(Unavailable, match=r"another agent.*DISCOVERY_HANDLERS_DIRECTORY"):
            await RegistrationServer(HandlerRegistry({}), tmp_path).start()
        await register(tmp_path, pb.RegisterDiscoveryHandlerRequest(name="x", endpoint="/a"))
    assert not path.exists()


async def test_a_path_that_is_too_long_for_a_socket_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="longer than 107 bytes"):
        await RegistrationServer(HandlerRegistry({}), tmp_path / ("x" * 100)).start()


@asynccontextmanager
async def scripted(path: Path, *lists: list[pb.Device]) -> AsyncIterator[RemoteHandler]:
    """A handler that sends these lists and ends."""

    async def discover(
        _request: pb.DiscoverRequest, _metadata: Mapping[str, str]
    ) -> AsyncGenerator[pb.DiscoverResponse, None]:
        for devices in lists:
            yield pb.DiscoverResponse(devices=devices)

    server = UnixServer(path, {remote.DISCOVER: server_streaming(pb.DiscoverRequest, discover)})
    await server.start()
    try:
        yield RemoteHandler("scripted", Endpoint(path=str(path)), False)
    finally:
        await server.close()


async def test_invalid_devices_are_omitted_and_repeated_lists_are_not_reported(tmp_path: Path) -> None:
    good, bad = pb.Device(id="good"), pb.Device(id="", properties={"A": "b"})
    received: list[list[str]] = []
    async with asyncio.timeout(20), scripted(tmp_path / "s", [good, bad], [bad, good], [], [good]) as handler:
        with pytest.raises(HandlerLost, match="ended the stream"):
            async for devices in handler.discover("", {}):
                received.append(ids(devices))
    assert received == [["good"], [], ["good"]]


async def test_a_message_that_is_too_long_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_MESSAGE_SIZE", 1000)
    async with asyncio.timeout(20), scripted(tmp_path / "s", [pb.Device(id="x" * 2000)]) as handler:
        with pytest.raises(HandlerLost, match="exceeds the limit of 1000 bytes"):
            await anext(handler.discover("", {}))


async def test_a_list_with_too_many_devices_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_DEVICES", 2)
    async with asyncio.timeout(20), scripted(tmp_path / "s", [pb.Device(id=str(n)) for n in range(3)]) as handler:
        with pytest.raises(HandlerLost, match="more than 2 devices"):
            await anext(handler.discover("", {}))


async def test_a_server_without_discovery_is_a_lost_handler(tmp_path: Path) -> None:
    async with asyncio.timeout(20), serving(tmp_path):
        handler = RemoteHandler("odd", Endpoint(path=str(tmp_path / "agent-registration.sock")), False)
        with pytest.raises(HandlerLost, match=r"'odd'.*UNIMPLEMENTED"):
            await anext(handler.discover("", {}))


async def test_the_agent_stops_during_a_registration_that_never_ends(tmp_path: Path) -> None:
    server = RegistrationServer(HandlerRegistry({}), tmp_path)
    await server.close()
    await server.start()
    channel = unix_channel(server.path)
    async with asyncio.timeout(5), channel.call(REGISTER):
        # A connection is served in order: when this is answered, the request before it has arrived.
        request = pb.RegisterDiscoveryHandlerRequest(name="x", endpoint="/a")
        await channel.unary(REGISTER, request, pb.Empty, time_limit=5)
        await server.close()
    channel.close()
    assert not server.path.exists()


async def test_a_registration_without_content_is_ended_after_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_call, "REQUEST_TIMEOUT", 0.1)
    async with asyncio.timeout(20), serving(tmp_path):
        channel = unix_channel(tmp_path / "agent-registration.sock")
        with pytest.raises(CallFailed, match=r"within 0\.1 s"):
            async with channel.call(REGISTER) as call:
                await call.response_headers()
        channel.close()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 1000, b"\xff" * 1000])
async def test_an_endpoint_with_another_protocol_is_a_lost_handler(tmp_path: Path, answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "s")
    async with asyncio.timeout(20), server:
        with pytest.raises(HandlerLost):
            await anext(RemoteHandler("odd", Endpoint(path=str(tmp_path / "s")), False).discover("", {}))


async def test_a_socket_is_addressed_as_localhost(tmp_path: Path) -> None:
    requests: list[dict[bytes, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        while not requests:
            events = http.receive_data(await reader.read(4096))
            requests.extend(dict(event.headers) for event in events if isinstance(event, RequestReceived))
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "s")
    async with asyncio.timeout(20), server:
        with pytest.raises(HandlerLost):
            await anext(RemoteHandler("x", Endpoint(path=str(tmp_path / "s")), False).discover("", {}))
    assert requests[0][b":authority"] == b"localhost"
    assert requests[0][b":path"] == b"/v0.DiscoveryHandler/Discover"
