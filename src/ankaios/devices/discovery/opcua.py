"""OPC UA: servers known to the discovery endpoints a configuration names.

In: URLs and a filter on application names. Out: one device for each server's own URL. Each look asks every endpoint
anew; one that does not answer has nothing to tell.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from urllib.parse import urlsplit

from msgspec import Struct

from ankaios.devices.discovery import opcua_binary as ua
from ankaios.devices.discovery.base import (
    Devices,
    DiscoveredDevice,
    Properties,
    in_order,
    tell_changes,
)
from ankaios.devices.discovery.details import Details, FilterList, read_details

POLL_SECONDS = 10.0
CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 5.0
MAX_URLS = 256
MAX_URL_LENGTH = 4096
PARALLEL = 32
DEFAULT_URLS = ("opc.tcp://localhost:4840/",)
SCHEME = "opc.tcp"
DEFAULT_PORT = 4840

log = logging.getLogger(__name__)


class OpcuaSettings(Struct, frozen=True):
    """What the details of a configuration say."""

    urls: tuple[str, ...]
    names: FilterList | None


class OpcuaHandler:
    """Servers are reached over the network, so one seen from two nodes is one server."""

    name = "opcua"
    shared = True

    def __init__(self, poll_seconds: float = POLL_SECONDS) -> None:
        self._poll_seconds = poll_seconds

    async def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        settings = read_settings(details)

        async def look() -> Devices:
            return await find_all(settings)

        async with aclosing(tell_changes(look, self._poll_seconds)) as lists:
            async for devices in lists:
                yield devices


def read_settings(text: str) -> OpcuaSettings:
    details = read_details(OpcuaHandler.name, text)
    standard = details.child("opcuaDiscoveryMethod").child("standard")
    urls = standard.strings("discoveryUrls", DEFAULT_URLS)
    if len(urls) > MAX_URLS:
        raise standard.refuse("discoveryUrls", f"must have at most {MAX_URLS} entries")
    for url in urls:
        _check_url(standard, url)
    return OpcuaSettings(tuple(dict.fromkeys(urls)), details.filter_list("applicationNames"))


def _check_url(standard: Details, url: str) -> None:
    host_and_port = _host_and_port(url)
    if host_and_port is None or len(url) > MAX_URL_LENGTH:
        raise standard.refuse("discoveryUrls", f"contains '{url[:200]}'; write opc.tcp://<host>:<port>/<path>")


def _host_and_port(url: str, default_port: int | None = None) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or default_port
    except ValueError:  # a port that is no number, an address that is none
        return None
    return (parts.hostname, port) if parts.scheme == SCHEME and parts.hostname and port else None


async def find_all(settings: OpcuaSettings) -> Devices:
    """Ask all endpoints at the same time and join what they tell."""
    slots = asyncio.Semaphore(PARALLEL)

    async def find_at(url: str) -> list[str]:
        async with slots:
            return await _server_urls(url, settings.names)

    async with asyncio.TaskGroup() as group:
        searches = [group.create_task(find_at(url), name=f"opcua {url}") for url in settings.urls]
    found = {url for search in searches for url in search.result()}
    return in_order({url: DiscoveredDevice(url, {"OPCUA_DISCOVERY_URL": url}) for url in found})


async def _server_urls(url: str, names: FilterList | None) -> list[str]:
    try:
        applications = await find_servers(url)
    except (OSError, EOFError, ValueError) as error:  # a time limit is an OSError; names and answers make ValueErrors
        log.info("OPC UA discovery endpoint %s tells nothing: %s", url, error or type(error).__name__)
        return []
    return [await _reachable(url, discovered) for discovered in wanted_urls(applications, names)]


def wanted_urls(applications: tuple[ua.Application, ...], names: FilterList | None) -> Iterator[str]:
    """For each server that passes the filter the URL it should be reached at."""
    for application in applications:
        if application.type != ua.SERVER or not _passes(application.name, names):
            continue
        url = next((url for url in application.discovery_urls if url.startswith(SCHEME)), None)
        if url is not None and _is_plain(url):
            yield url


def _passes(name: str | None, names: FilterList | None) -> bool:
    return names is None or names.keeps(None if name is None else lambda item: item == name)


def _is_plain(url: str) -> bool:
    """Fit to become an environment variable and to be resolved."""
    return len(url) <= MAX_URL_LENGTH and url.isprintable() and _host_and_port(url, DEFAULT_PORT) is not None


async def _reachable(configured: str, discovered: str) -> str:
    """The discovered URL, unless its host is a name only the server itself understands."""
    host, port = _host_and_port(discovered, DEFAULT_PORT) or ("", 0)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return fallback_url(configured, discovered)
    return discovered


def fallback_url(configured: str, discovered: str) -> str:
    """The address that is known to work; with the discovered path, if none was configured."""
    if urlsplit(configured).path not in ("", "/"):
        return configured
    return configured.rstrip("/") + urlsplit(discovered).path


async def find_servers(url: str) -> tuple[ua.Application, ...]:
    """One conversation without a session: hello, open a channel, find servers, close."""
    host, port = _host_and_port(url) or ("", 0)
    async with asyncio.timeout(CONNECT_SECONDS):
        reader, writer = await asyncio.open_connection(host, port)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await _converse(reader, writer, url)
    finally:
        writer.close()


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: str) -> tuple[ua.Application, ...]:
    timeout_ms = int(ANSWER_SECONDS * 1000)
    writer.write(ua.hello(url))
    await _receive(reader, b"ACK")
    writer.write(ua.open_channel(timeout_ms))
    channel = ua.read_open_channel(await _receive(reader, b"OPN"))
    writer.write(ua.find_servers(channel, url, timeout_ms))
    applications = ua.read_find_servers(await _receive(reader, b"MSG"))
    writer.write(ua.close_channel(channel))
    return applications


async def _receive(reader: asyncio.StreamReader, expected: bytes) -> bytes:
    """One message; only those of kind MSG come in several chunks."""
    body = bytearray()
    for _ in range(ua.MAX_CHUNKS):
        header = ua.read_header(await reader.readexactly(ua.HEADER_SIZE))
        content = await reader.readexactly(header.size)
        if header.kind == b"ERR" or header.final == b"A":
            raise ua.MalformedUa(f"the server ended the conversation: {_reason(header, content)}")
        if header.kind != expected:
            raise ua.MalformedUa(f"expected {expected.decode()}, got {header.kind.decode()}")
        if expected != b"MSG":
            return content
        body += ua.message_part(content)
        if len(body) > ua.MAX_MESSAGE:
            break
        if header.final == b"F":
            return bytes(body)
    raise ua.MalformedUa("the answer is too long")


def _reason(header: ua.ChunkHeader, content: bytes) -> str:
    return ua.read_error(content if header.kind == b"ERR" else ua.message_part(content))
