"""An ONVIF camera for tests: answers probes on loopback multicast and SOAP over HTTP; a test may change the answers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from ankaios.devices.discovery.onvif import ws_discovery
from ankaios.devices.discovery.onvif.safe_xml import parse_xml

SOAP_OK = "<s:Envelope xmlns:s='http://www.w3.org/2003/05/soap-envelope'><s:Body>{}</s:Body></s:Envelope>"


class FakeCamera:
    """Its attributes define the answers; a test may change them at any time."""

    def __init__(self, uuid: str = "Camera-1", password: str | None = None) -> None:
        self.uuid = uuid
        self.password = password
        self.url = ""
        self.scopes = "onvif://www.onvif.org/name/test"
        self.answers_probes = True
        self.raw_answers: list[bytes] = []
        self.http_answer: bytes | None = None
        self.http_answers: dict[str, bytes] = {}
        self.unanswered_operations: set[str] = set()
        self.requests: list[str] = []
        self.probes: list[bytes] = []

    def answers_to(self, probe: bytes) -> list[bytes]:
        self.probes.append(probe)
        return [*self.raw_answers, self._probe_matches()] if self.answers_probes else self.raw_answers

    def _probe_matches(self) -> bytes:
        return SOAP_OK.format(
            "<ProbeMatches><ProbeMatch><EndpointReference><Address>urn:uuid:"
            f"{self.uuid}</Address></EndpointReference><Scopes>{self.scopes}</Scopes><XAddrs>{self.url}</XAddrs>"
            "</ProbeMatch></ProbeMatches>"
        ).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"Content-Length: (\d+)", head)
            assert length is not None
            body = await reader.readexactly(int(length[1]))
            operation = re.search(r'action="[^"]*/(\w+)"', head)
            assert operation is not None
            self.requests.append(operation[1])
            if operation[1] in self.unanswered_operations:
                await reader.read()  # until the client ends the connection
                return
            writer.write(self.http_answers.get(operation[1]) or self.http_answer or self._soap(operation[1], body))
            await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    def _soap(self, operation: str, body: bytes) -> bytes:
        if operation == "GetNetworkInterfaces" and not self._is_allowed(body):
            return b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
        content = SOAP_OK.format(
            "<R><HwAddress>00:11:22:33:44:55</HwAddress><IPv4><Address>127.0.0.1</Address></IPv4></R>"
        ).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content

    def _is_allowed(self, body: bytes) -> bool:
        """Compute the digest as a camera does."""
        if self.password is None:
            return True
        token = parse_xml(body).find("Header/Security/UsernameToken")
        if token is None:
            return False
        _, digest, nonce, created = (child.text or "" for child in token)
        proof = hashlib.sha1(base64.b64decode(nonce) + (created + self.password).encode()).digest()
        return base64.b64encode(proof).decode() == digest


class _Network(asyncio.DatagramProtocol):
    """Forwards each probe to all cameras."""

    def __init__(self, cameras: tuple[FakeCamera, ...]) -> None:
        self._cameras = cameras

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        for camera in self._cameras:
            for answer in camera.answers_to(data):
                self._transport.sendto(answer, addr)


@asynccontextmanager
async def running(*cameras: FakeCamera) -> AsyncIterator[int]:
    """Let cameras answer on the loopback interface; yields the port to probe."""
    sock = ws_discovery.open_socket("lo")
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: _Network(cameras), sock=sock)
    servers = []
    try:
        for camera in cameras:
            server = await asyncio.start_server(camera.serve, "127.0.0.1", 0)
            servers.append(server)
            camera.url = camera.url or f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/onvif/device_service"
        yield sock.getsockname()[1]
    finally:
        transport.close()
        for server in servers:
            server.close()
