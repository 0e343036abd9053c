"""The FindServers request of OPC UA, without a session, through asyncua.

Input: the URL of a discovery endpoint. Output: the applications it describes, or `NoAnswer`. Each call opens and closes
one connection. The endpoint is not trusted: asyncua takes over the limits that a server announces and buffers what the
server sends, so times and sizes are limited here.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from asyncua import ua
from asyncua.client.ua_client import UASocketProtocol
from asyncua.ua.ua_binary import struct_from_binary

from ankaios.common.errors import Unavailable
from ankaios.devices.discovery.opcua.applications import Application, host_and_port

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 5.0
MAX_CHUNK = 64 * 1024
MAX_CHUNKS = 64
MAX_MESSAGE = 1024 * 1024
MAX_APPLICATIONS = 1000
CHANNEL_LIFETIME_MS = 60_000
_HEADER = 8

# asyncua logs what servers send, with tracebacks. The handler logs one line for each endpoint that does not answer.
logging.getLogger("asyncua").setLevel(logging.CRITICAL + 1)


class NoAnswer(Unavailable):
    """The endpoint did not give an acceptable answer in time."""


class _LimitedProtocol(UASocketProtocol):  # type: ignore[misc, unused-ignore]
    """Passes complete chunks on, as long as size and number of all chunks stay within the limits."""

    def __init__(self) -> None:
        super().__init__(timeout=ANSWER_SECONDS)
        self.refusal = ""
        self._pending = bytearray()
        self._chunks = 0
        self._received = 0

    def data_received(self, data: bytes) -> None:
        if self.refusal:
            return
        self._pending += data
        self._received += len(data)
        while self._is_acceptable() and len(self._pending) >= _HEADER and len(self._pending) >= self._chunk_size():
            size = self._chunk_size()
            chunk = bytes(self._pending[:size])
            del self._pending[:size]
            self._chunks += 1
            super().data_received(chunk)

    def _chunk_size(self) -> int:
        return int.from_bytes(self._pending[4:_HEADER], "little")

    def _is_acceptable(self) -> bool:
        if len(self._pending) >= _HEADER and not _HEADER <= self._chunk_size() <= MAX_CHUNK:
            self.refusal = f"a chunk of {self._chunk_size()} bytes is out of bounds"
        elif self._received > MAX_MESSAGE or self._chunks > MAX_CHUNKS:
            self.refusal = "the answer is too long"
        if self.refusal and self.transport is not None:
            self.transport.abort()
        return not self.refusal


async def find_servers(url: str) -> tuple[Application, ...]:
    """The applications that the endpoint describes."""
    host, port = host_and_port(url) or ("", 0)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            transport, protocol = await asyncio.get_running_loop().create_connection(_LimitedProtocol, host, port)
    except (OSError, ValueError) as error:  # TimeoutError is an OSError; a malformed host name is a ValueError
        raise NoAnswer(str(error) or type(error).__name__) from error
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await _exchange(protocol, url)
    except Exception as error:  # for bytes that are not OPC UA, asyncua raises errors of many kinds
        raise NoAnswer(protocol.refusal or str(error) or type(error).__name__) from error
    finally:
        transport.close()


async def _exchange(protocol: _LimitedProtocol, url: str) -> tuple[Application, ...]:
    """Open a channel without security: which servers exist is not confidential."""
    await protocol.send_hello(url, MAX_MESSAGE, MAX_CHUNKS)
    channel = ua.OpenSecureChannelParameters()
    channel.SecurityMode = ua.MessageSecurityMode.None_
    channel.RequestedLifetime = CHANNEL_LIFETIME_MS
    await protocol.open_secure_channel(channel)
    request = ua.FindServersRequest()
    request.Parameters.EndpointUrl = url
    answer = await protocol.send_request(request)
    # A long answer takes asyncua some tenths of a second.
    applications = await asyncio.to_thread(_read_applications, answer)
    await protocol.close_secure_channel()
    return applications


def _read_applications(answer: Any) -> tuple[Application, ...]:
    response = struct_from_binary(ua.FindServersResponse, answer)
    response.ResponseHeader.ServiceResult.check()
    if len(response.Servers) > MAX_APPLICATIONS:
        raise ValueError(f"more than {MAX_APPLICATIONS} applications")
    return tuple(
        Application(each.ApplicationName.Text, int(each.ApplicationType), tuple(filter(None, each.DiscoveryUrls or ())))
        for each in response.Servers
    )
