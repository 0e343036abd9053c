"""The ONVIF handler with a camera on loopback multicast that sends valid and invalid answers."""

import asyncio
import logging
import socket
from contextlib import aclosing
from typing import Any

import pytest

from ankaios.devices.core.discovered_device import Devices
from ankaios.devices.discovery.base import HandlerLost
from ankaios.devices.discovery.onvif import ws_discovery
from ankaios.devices.discovery.onvif.handler import OnvifHandler
from tests.integration.devices.onvif_camera import FakeCamera, running

BOMB = b"<!DOCTYPE a [<!ENTITY a 'aaaaaaaa'><!ENTITY b '&a;&a;&a;'>]><a>&b;</a>"


def handler(port: int, **more: Any) -> OnvifHandler:
    return OnvifHandler(poll_seconds=0.05, interface="lo", port=port, second=0.2, **more)


async def first_list(
    port: int, details: str = "", properties: dict[str, bytes | None] | None = None, **more: Any
) -> Devices:
    async with asyncio.timeout(20), aclosing(handler(port, **more).discover(details, properties or {})) as lists:
        return await anext(lists)


async def test_a_camera_is_found_with_its_addresses() -> None:
    camera = FakeCamera()
    async with running(camera) as port:
        (device,) = await first_list(port)
    assert device.id == f"{camera.url}-camera-1"
    assert device.properties == {
        "ONVIF_DEVICE_SERVICE_URL": camera.url,
        "ONVIF_DEVICE_UUID": "camera-1",
        "ONVIF_DEVICE_IP_ADDRESS": "127.0.0.1",
        "ONVIF_DEVICE_MAC_ADDRESS": "00:11:22:33:44:55",
    }
    assert camera.requests == ["GetSystemDateAndTime", "GetNetworkInterfaces"]


async def test_an_empty_network_is_reported_as_an_empty_list() -> None:
    async with running() as port:
        assert await first_list(port) == ()


async def test_cameras_appear_and_vanish_and_their_addresses_are_requested_once() -> None:
    one, two = FakeCamera("one"), FakeCamera("two")
    two.http_answer = b"HTTP/1.1 503 Unavailable\r\n\r\n"
    async with asyncio.timeout(30), running(one, two) as port, aclosing(handler(port).discover("", {})) as lists:
        assert [device.properties["ONVIF_DEVICE_UUID"] for device in await anext(lists)] == ["one"]
        two.http_answer = None
        assert len(await anext(lists)) == 2
        one.answers_probes = False
        one.http_answer = b"HTTP/1.1 503 Unavailable\r\n\r\n"
        assert [device.properties["ONVIF_DEVICE_UUID"] for device in await anext(lists)] == ["two"]
    assert one.requests.count("GetNetworkInterfaces") == 1
    assert one.requests.count("GetSystemDateAndTime") >= 3


async def test_a_camera_is_kept_after_a_lost_datagram() -> None:
    camera = FakeCamera()
    async with asyncio.timeout(30), running(camera) as port, aclosing(handler(port).discover("", {})) as lists:
        assert len(await anext(lists)) == 1
        camera.answers_probes = False
        rounds = len(camera.probes)
        vanished = asyncio.ensure_future(anext(lists))
        assert await vanished == ()
        assert len(camera.probes) - rounds == 4


async def test_credentials_are_sent_as_a_digest() -> None:
    camera = FakeCamera(password="sesame")
    wanted = "macAddresses: {items: ['00:11:22:33:44:55']}"
    async with running(camera) as port:
        assert await first_list(port, wanted) == ()
        wrong: dict[str, bytes | None] = {"username_default": b"admin", "password_default": b"guess"}
        assert await first_list(port, wanted, wrong) == ()
        right: dict[str, bytes | None] = {"username_camera_1": b"admin", "password_camera_1": b"sesame"}
        assert len(await first_list(port, wanted, right)) == 1


async def test_a_rejected_password_is_not_sent_again() -> None:
    camera, other = FakeCamera(password="sesame"), FakeCamera("other")
    other.answers_probes = False
    async with asyncio.timeout(30), running(camera, other) as port, aclosing(handler(port).discover("", {})) as lists:
        (device,) = await anext(lists)
        assert "ONVIF_DEVICE_MAC_ADDRESS" not in device.properties
        other.answers_probes = True
        await anext(lists)
    assert camera.requests.count("GetNetworkInterfaces") == 1


async def test_addresses_that_were_not_received_in_time_are_requested_again() -> None:
    camera = FakeCamera()
    camera.unanswered_operations = {"GetNetworkInterfaces"}
    async with (
        asyncio.timeout(30),
        running(camera) as port,
        aclosing(handler(port, post_seconds=0.3).discover("", {})) as lists,
    ):
        (device,) = await anext(lists)
        assert "ONVIF_DEVICE_MAC_ADDRESS" not in device.properties
        camera.unanswered_operations = set()
        (device,) = await anext(lists)
        assert device.properties["ONVIF_DEVICE_MAC_ADDRESS"] == "00:11:22:33:44:55"


async def test_invalid_addresses_count_as_unknown() -> None:
    camera = FakeCamera()
    camera.http_answers["GetNetworkInterfaces"] = b"HTTP/1.1 200 OK\r\n\r\n" + BOMB
    async with running(camera) as port:
        (device,) = await first_list(port)
    assert set(device.properties) == {"ONVIF_DEVICE_SERVICE_URL", "ONVIF_DEVICE_UUID"}


async def test_scopes_are_read_from_the_answer_to_the_probe() -> None:
    camera = FakeCamera()
    async with running(camera) as port:
        assert len(await first_list(port, f"scopes: {{items: ['{camera.scopes}']}}")) == 1
        assert await first_list(port, f"scopes: {{items: ['{camera.scopes}'], action: Exclude}}") == ()
    assert camera.requests.count("GetSystemDateAndTime") == 1


HOSTILE_DATAGRAMS = [
    b"",
    b"\xff" * 100,
    BOMB,
    b"<a>" * 5000,
    b"x" * 60_000,
    b"<Envelope><Body/></Envelope>",
    b"<Envelope><Body><ProbeMatches><ProbeMatch/></ProbeMatches></Body></Envelope>",
]


async def test_hostile_datagrams_do_not_affect_valid_ones() -> None:
    camera = FakeCamera()
    camera.raw_answers = HOSTILE_DATAGRAMS
    async with running(camera) as port:
        assert len(await first_list(port)) == 1


STRANGE_URLS = [
    "ftp://127.0.0.1/",
    "http://",
    "http://127.0.0.1:99999/",
    "http://127.0.0.1:1/",
    "file:///etc/passwd",
    "x",
    "http://[::/",
]


async def test_an_address_that_cannot_be_used_is_no_camera() -> None:
    hostile = [FakeCamera(url) for url in STRANGE_URLS]
    for camera in hostile:
        camera.url = camera.uuid
    async with running(*hostile, FakeCamera("kind")) as port:
        assert [device.properties["ONVIF_DEVICE_UUID"] for device in await first_list(port)] == ["kind"]


STRANGE_SERVICES = {
    "nothing": b"\r\n\r\n",
    "no-xml": b"HTTP/1.1 200 OK\r\n\r\nnot xml",
    "bomb": b"HTTP/1.1 200 OK\r\n\r\n" + BOMB,
    "long": b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n",
    "negative": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "long-header": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
    "endless": b"HTTP/1.1 200 OK\r\n\r\n" + b"<a>" + b" " * 400_000 + b"</a>",
    "error": b"HTTP/1.1 500 Error\r\n\r\n<a/>",
    "ssh": b"SSH-2.0-OpenSSH\r\n\r\n",
}


async def test_a_service_that_does_not_report_its_time_is_no_camera() -> None:
    hostile = [FakeCamera(name) for name in STRANGE_SERVICES]
    for camera in hostile:
        camera.http_answer = STRANGE_SERVICES[camera.uuid]
    async with running(*hostile, FakeCamera("kind")) as port:
        assert [device.properties["ONVIF_DEVICE_UUID"] for device in await first_list(port)] == ["kind"]
    assert all(camera.requests for camera in hostile)


async def test_a_refused_answer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    camera = FakeCamera()
    camera.raw_answers = [BOMB, b"x" * 60_000]
    with caplog.at_level(logging.WARNING):
        async with running(camera) as port:
            await first_list(port)
    assert "document type" in caplog.text
    assert "refused 1 discovery answers" in caplog.text


async def test_a_probe_that_cannot_be_sent_is_an_error_and_no_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    # Sending to the broadcast address without the socket option for it fails like sending without a route.
    monkeypatch.setattr(ws_discovery, "GROUP", "255.255.255.255")
    monkeypatch.setattr(ws_discovery, "open_socket", lambda interface: socket.socket(type=socket.SOCK_DGRAM))
    with pytest.raises(HandlerLost, match="Permission denied"):
        await anext(OnvifHandler(second=0.1).discover("", {}))


async def test_a_missing_interface_is_an_error_and_no_empty_list() -> None:
    with pytest.raises(HandlerLost, match=r"interface '203\.0\.113\.7'.*ONVIF_DISCOVERY_INTERFACE"):
        await anext(OnvifHandler(interface="203.0.113.7").discover("", {}))
