"""One POST over a real socket: every framing of an answer, and a limit for invalid ones."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ankaios.devices.discovery.onvif.http_post import MAX_ANSWER, HttpAnswer, PostFailed, post


@asynccontextmanager
async def answering(
    answer: bytes, hold: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that records one request and sends these bytes."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            requests.append(head + await reader.readexactly(4))
            writer.write(answer)
            await writer.drain()
            if hold:
                await reader.read()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ],
    ids=["length", "until the end", "chunks", "continue"],
)
async def test_every_framing_of_an_answer_is_understood(answer: bytes) -> None:
    async with answering(answer) as (url, _):
        assert await post(url, "text/xml", b"body", 5) == HttpAnswer(200, b"hello")


async def test_the_request_names_host_path_query_and_type() -> None:
    async with answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") as (url, requests):
        assert (await post(url + "/a/b?c=d", "text/xml", b"body", 5)).status == 404
    (request,) = requests
    assert request.startswith(b"POST /a/b?c=d HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nContent-Type: text/xml\r\nContent-Length: 4\r\n" in request
    assert request.endswith(b"\r\n\r\nbody")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % (MAX_ANSWER + 1),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"8000\r\n" + b"x" * 0x8000 + b"\r\n") * 9,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MAX_ANSWER + 1),
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
    ],
    ids=["nothing", "too short", "no length", "large chunk", "many chunks", "endless", "no status", "no http"],
)
async def test_an_answer_that_is_incomplete_or_too_long_fails(answer: bytes) -> None:
    async with answering(answer) as (url, _):
        with pytest.raises(PostFailed):
            await post(url, "text/xml", b"body", 5)


async def test_a_server_that_does_not_answer_fails_after_the_limit() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n", hold=True) as (url, _):
        with pytest.raises(PostFailed, match=r"within 0\.2 s"):
            await post(url, "text/xml", b"body", 0.2)


@pytest.mark.parametrize(
    "url", ["http://a b/", "http://127.0.0.1/\r\nX: y", "gopher://h/", "http://h:port/", "http://ü/"]
)
async def test_a_url_that_would_inject_a_request_is_rejected(url: str) -> None:
    with pytest.raises(PostFailed):
        await post(url, "text/xml", b"body", 5)


def own_certificate(folder: Path) -> ssl.SSLContext:
    """A self-signed certificate, as cameras have it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "camera")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "camera.pem").write_bytes(private + certificate.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "camera.pem")
    return context


async def test_a_camera_with_a_self_signed_certificate_is_accepted(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    async with answering(answer, tls=own_certificate(tmp_path)) as (url, _):
        assert await post(url, "text/xml", b"body", 5) == HttpAnswer(200, b"hello")
