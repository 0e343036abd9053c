"""HTTP/2 as others understand it: the conformance tests of h2spec against a web server made of our link.

They need a server that answers any request with data, which one for gRPC does not.
"""

import asyncio
import re
import shutil
from asyncio.subprocess import PIPE

import pytest

from ankaios.middleware.http2 import Link
from ankaios.middleware.stream import Broken, Stream
from tests.integration.middleware.support import CALM

H2SPEC = shutil.which("h2spec")
# Stream priorities were a rule of RFC 7540, which RFC 9113 has dropped.
DROPPED_RULES = {"Sends HEADERS frame that depend on itself", "Sends PRIORITY frame that depend on itself"}
MINUTE = 60.0


async def answer(stream: Stream) -> None:
    try:
        while await stream.read(1):
            pass
        stream.send_headers([(":status", "200"), ("content-type", "text/plain")])
        stream.write(b"hello")
        stream.finish([("x-done", "yes")])
    except Broken:
        stream.link.forget(stream)


@pytest.mark.skipif(H2SPEC is None, reason="h2spec is not installed")
@pytest.mark.timeout(2 * MINUTE)
async def test_our_http2_conforms_to_its_rfc() -> None:
    assert H2SPEC is not None
    async with asyncio.TaskGroup() as answering:

        def accept(stream: Stream) -> None:
            answering.create_task(answer(stream), name=f"answer {stream.id}")

        listener = await asyncio.get_running_loop().create_server(
            lambda: Link(CALM, MINUTE, accept=accept), "127.0.0.1", 0
        )
        async with listener, asyncio.timeout(MINUTE):
            port = listener.sockets[0].getsockname()[1]
            spec = await asyncio.create_subprocess_exec(
                *(H2SPEC, "--strict", "--host", "127.0.0.1", "--port", str(port)), stdout=PIPE
            )
            told = (await spec.communicate())[0].decode()
    assert re.search(r"\b1\d\d tests, ", told), told
    assert set(re.findall(r"× \d+: (.*)", told)) == DROPPED_RULES, told
