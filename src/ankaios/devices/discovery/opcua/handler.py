"""OPC UA: the servers known to the discovery endpoints that a configuration names.

Input: URLs and a filter on application names. Output: one device for each server's own URL. Each round asks every
endpoint; an endpoint that does not answer contributes nothing. Needs the package `asyncua`, which is loaded when a
configuration names the handler.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from msgspec import Struct

from ankaios.common.errors import Unavailable
from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.discovery.base import MissingPackage, Properties, in_order, poll
from ankaios.devices.discovery.details import Details, FilterList, read_details
from ankaios.devices.discovery.opcua.applications import (
    DEFAULT_PORT,
    MAX_URL_LENGTH,
    Application,
    fallback_url,
    host_and_port,
    wanted_urls,
)

POLL_SECONDS = 10.0
RESOLVE_SECONDS = 3.0
MAX_URLS = 256
PARALLEL = 32
DEFAULT_URLS = ("opc.tcp://localhost:4840/",)

FindServers = Callable[[str], Awaitable[tuple[Application, ...]]]

log = logging.getLogger(__name__)


class OpcuaSettings(Struct, frozen=True):
    """The content of the discovery details."""

    urls: tuple[str, ...]
    names: FilterList | None


class OpcuaHandler:
    """Servers are reached over the network, so a server that two nodes see is one server."""

    name = "opcua"
    shared = True

    def __init__(self, poll_seconds: float = POLL_SECONDS) -> None:
        self._poll_seconds = poll_seconds

    async def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        settings = read_opcua_settings(details)
        find_servers = await asyncio.to_thread(_load_client)

        async def look() -> Devices:
            return await find_all(settings, find_servers)

        async with aclosing(poll(look, self._poll_seconds)) as lists:
            async for devices in lists:
                yield devices


def _load_client() -> FindServers:
    """Runs in a thread: the import takes several tenths of a second."""
    try:
        from ankaios.devices.discovery.opcua.find_servers import find_servers
    except ImportError as error:
        raise MissingPackage(
            f"cannot look for OPC UA servers: {error}; install the package with: pip install 'ankaios[opcua]'"
        ) from error
    return find_servers


def read_opcua_settings(text: str) -> OpcuaSettings:
    details = read_details(OpcuaHandler.name, text)
    standard = details.child("opcuaDiscoveryMethod").child("standard")
    urls = standard.strings("discoveryUrls", DEFAULT_URLS)
    if len(urls) > MAX_URLS:
        raise standard.refuse("discoveryUrls", f"must have at most {MAX_URLS} entries")
    for url in urls:
        _check_url(standard, url)
    return OpcuaSettings(tuple(dict.fromkeys(urls)), details.filter_list("applicationNames"))


def _check_url(standard: Details, url: str) -> None:
    if host_and_port(url) is None or len(url) > MAX_URL_LENGTH:
        raise standard.refuse("discoveryUrls", f"contains '{url[:200]}'; write opc.tcp://<host>:<port>/<path>")


async def find_all(settings: OpcuaSettings, find_servers: FindServers) -> Devices:
    """Ask all endpoints at the same time and merge their answers."""
    slots = asyncio.Semaphore(PARALLEL)

    async def find_at(url: str) -> list[str]:
        async with slots:
            return await _server_urls(url, settings.names, find_servers)

    async with asyncio.TaskGroup() as group:
        searches = [group.create_task(find_at(url), name=f"opcua {url}") for url in settings.urls]
    found = {url for search in searches for url in search.result()}
    return in_order({url: DiscoveredDevice(url, {"OPCUA_DISCOVERY_URL": url}) for url in found})


async def _server_urls(url: str, names: FilterList | None, find_servers: FindServers) -> list[str]:
    try:
        applications = await find_servers(url)
    except Unavailable as error:
        log.info("OPC UA discovery endpoint %s gives no answer: %s", url, error)
        return []
    return [await _reachable(url, discovered) for discovered in wanted_urls(applications, names)]


async def _reachable(configured: str, discovered: str) -> str:
    """The discovered URL, unless only the server itself can resolve its host name."""
    host, port = host_and_port(discovered, DEFAULT_PORT) or ("", 0)
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return fallback_url(configured, discovered)
    return discovered
