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
from typing import Annotated

from msgspec import Meta, Struct

from ankaios.common.errors import Unavailable
from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.discovery.base import HandlerLost, Properties, in_order, poll
from ankaios.devices.discovery.details import FilterList, invalid_details, read_details
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


class Standard(Struct, frozen=True, rename="camel"):
    """The only discovery method of OPC UA."""

    discovery_urls: Annotated[tuple[str, ...], Meta(max_length=MAX_URLS)] = DEFAULT_URLS


class DiscoveryMethod(Struct, frozen=True):
    standard: Standard


class OpcuaDetails(Struct, frozen=True, rename="camel"):
    """The discovery details of a configuration."""

    opcua_discovery_method: DiscoveryMethod
    application_names: FilterList | None = None

    @property
    def urls(self) -> tuple[str, ...]:
        return self.opcua_discovery_method.standard.discovery_urls


class OpcuaHandler:
    """Servers are reached over the network, so a server that two nodes see is one server."""

    name = "opcua"
    shared = True

    def __init__(self, poll_seconds: float = POLL_SECONDS) -> None:
        self._poll_seconds = poll_seconds

    def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        settings = read_opcua_details(details)

        async def look() -> Devices:
            return await find_all(settings, await asyncio.to_thread(_load_client))

        return poll(look, self._poll_seconds)


def _load_client() -> FindServers:
    """Runs in a thread: the import takes several tenths of a second."""
    try:
        from ankaios.devices.discovery.opcua.find_servers import find_servers
    except ImportError as error:
        raise HandlerLost(
            f"cannot look for OPC UA servers: {error}; install the package with: pip install 'ankaios[opcua]'"
        ) from error
    return find_servers


def read_opcua_details(text: str) -> OpcuaDetails:
    details = read_details(OpcuaHandler.name, text, OpcuaDetails)
    for url in details.urls:
        if host_and_port(url) is None or len(url) > MAX_URL_LENGTH:
            why = f"discoveryUrls contains '{url[:200]}'; write opc.tcp://<host>:<port>/<path>"
            raise invalid_details(OpcuaHandler.name, why)
    return details


async def find_all(details: OpcuaDetails, find_servers: FindServers) -> Devices:
    """Ask all endpoints at the same time and merge their answers."""
    slots = asyncio.Semaphore(PARALLEL)

    async def find_at(url: str) -> list[str]:
        async with slots:
            return await _server_urls(url, details.application_names, find_servers)

    async with asyncio.TaskGroup() as group:
        searches = [group.create_task(find_at(url), name=f"opcua {url}") for url in dict.fromkeys(details.urls)]
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
