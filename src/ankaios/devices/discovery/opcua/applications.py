"""Which applications of an OPC UA discovery endpoint become devices, and under which URL.

Input: the answer to FindServers. Output: URLs. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from msgspec import Struct

from ankaios.devices.discovery.details import FilterList

SCHEME = "opc.tcp"
DEFAULT_PORT = 4840
MAX_URL_LENGTH = 4096
SERVER = 0  # the application type of a server


class Application(Struct, frozen=True):
    """One application as a discovery endpoint describes it."""

    name: str | None
    type: int
    discovery_urls: tuple[str, ...]


def host_and_port(url: str, default_port: int | None = None) -> tuple[str, int] | None:
    """None if the URL is not `opc.tcp` or has no usable host and port."""
    try:
        parts = urlsplit(url)
        port = parts.port or default_port
    except ValueError:  # the port is not a number, or the address is malformed
        return None
    return (parts.hostname, port) if parts.scheme == SCHEME and parts.hostname and port else None


def wanted_urls(applications: Iterable[Application], names: FilterList | None) -> Iterator[str]:
    """The URL of each server that passes the filter."""
    for application in applications:
        if application.type != SERVER or not _passes(application.name, names):
            continue
        url = next((url for url in application.discovery_urls if url.startswith(SCHEME)), None)
        if url is not None and _is_usable(url):
            yield url


def _passes(name: str | None, names: FilterList | None) -> bool:
    return names is None or names.keeps(None if name is None else lambda item: item == name)


def _is_usable(url: str) -> bool:
    """The URL becomes an environment variable, and its host is resolved."""
    return len(url) <= MAX_URL_LENGTH and url.isprintable() and host_and_port(url, DEFAULT_PORT) is not None


def fallback_url(configured: str, discovered: str) -> str:
    """The configured address, which is reachable, with the discovered path if none was configured."""
    if urlsplit(configured).path not in ("", "/"):
        return configured
    return configured.rstrip("/") + urlsplit(discovered).path
