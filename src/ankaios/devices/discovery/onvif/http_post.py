"""One HTTP/1.1 POST to a device that may be slow, broken or hostile.

Input: a URL and a body. Output: status and body, or `PostFailed` within the time limit. Redirects are not followed, the
connection is not reused, and the answer is limited to `MAX_ANSWER` bytes.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

MAX_ANSWER = 256 * 1024
MAX_HEADER = 32 * 1024
PORTS = {"http": 80, "https": 443}


class PostFailed(Exception):
    """There was no complete answer."""


class HttpAnswer(Struct, frozen=True):
    status: int
    body: bytes


async def post(url: str, content_type: str, body: bytes, limit: float) -> HttpAnswer:
    """Send one request and read the answer, all within `limit` seconds."""
    try:
        async with asyncio.timeout(limit):
            return await _post(_target(url), content_type, body)
    except TimeoutError as error:
        raise PostFailed(f"no complete answer within {limit} s") from error
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
        raise PostFailed(str(error) or type(error).__name__) from error


def _target(url: str) -> SplitResult:
    """Accept only URLs that can be written into a request unchanged."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("not an http or https URL")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("the URL contains characters that are not allowed")
    return parts


async def _post(target: SplitResult, content_type: str, body: bytes) -> HttpAnswer:
    port = target.port or PORTS[target.scheme]
    reader, writer = await asyncio.open_connection(target.hostname, port, ssl=_tls(target.scheme), limit=MAX_HEADER)
    try:
        path = (target.path or "/") + (f"?{target.query}" if target.query else "")
        host = target.netloc.rpartition("@")[2]
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {content_type}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        return await _answer(reader)
    finally:
        writer.transport.abort()  # an orderly close has no time limit


def _tls(scheme: str) -> Any:
    """Cameras sign their own certificates, so there is nothing to verify them with."""
    if scheme != "https":
        return None
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _answer(reader: asyncio.StreamReader) -> HttpAnswer:
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = _status(head[0])
        if status >= 200:  # lower ones are provisional: "100 Continue"
            break
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return HttpAnswer(status, await _chunks(reader))
    if "content-length" in headers:
        return HttpAnswer(status, await reader.readexactly(_size(headers["content-length"], 10)))
    return HttpAnswer(status, await _until_end(reader))


def _status(line: str) -> int:
    version, _, rest = line.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
        raise ValueError("not an HTTP/1.1 answer")
    return int(rest[:3])


def _size(text: str, base: int) -> int:
    size = int(text, base)
    if not 0 <= size <= MAX_ANSWER:
        raise ValueError(f"the answer is longer than {MAX_ANSWER} bytes")
    return size


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := _size((await reader.readuntil(b"\r\n")).partition(b";")[0].decode("latin-1").strip(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
        _size(str(len(body)), 10)
    return bytes(body)


async def _until_end(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while part := await reader.read(MAX_HEADER):
        body += part
        _size(str(len(body)), 10)
    return bytes(body)
