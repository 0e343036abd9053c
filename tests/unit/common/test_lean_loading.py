"""What is loaded later is the same as ever, and asyncio gets along without OpenSSL until somebody needs it."""

import subprocess
import sys
from pathlib import Path

from tests.integration.middleware.certificates import Authority

TOOLS = """
import sys
from ankaios.common.lean_loading import RARELY_USED, bring_back_tls, load_asyncio_without_tls, load_later
"""

LEAN = f"""
{TOOLS}
load_asyncio_without_tls()
load_asyncio_without_tls()
import asyncio
"""

CONVERSATION = """
import ssl
here = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
here.load_cert_chain(sys.argv[1], sys.argv[2])
there = ssl.create_default_context()
there.check_hostname, there.verify_mode = False, ssl.CERT_NONE

async def serve(reader, writer):
    writer.write(b"hello")
    writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=here)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=there)
    print((await reader.read()).decode())
    writer.transport.abort()
    server.close()

asyncio.run(main())
"""


def run(script: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=60)


def test_asyncio_works_without_openssl_which_can_be_loaded_later() -> None:
    work = "print('ssl' in sys.modules, asyncio.run(asyncio.sleep(0, 7)))\nimport ssl\nprint(ssl.HAS_TLSv1_3)"
    assert run(LEAN + work).stdout == "False 7\nTrue\n"


def test_a_tls_transport_is_refused_clearly_until_it_is_brought_back(tmp_path: Path) -> None:
    files = Authority(tmp_path).certificate_files("server", san="DNS:x", usage="serverAuth")
    refused = run(LEAN + CONVERSATION, *files)
    assert "stdlib ssl module not available" in refused.stderr
    assert run(LEAN + "bring_back_tls()\nbring_back_tls()\n" + CONVERSATION, *files).stdout == "hello\n"


def test_where_asyncio_is_loaded_already_nothing_changes(tmp_path: Path) -> None:
    files = Authority(tmp_path).certificate_files("server", san="DNS:x", usage="serverAuth")
    assert run("import asyncio\n" + LEAN + "bring_back_tls()\n" + CONVERSATION, *files).stdout == "hello\n"


def test_a_module_is_loaded_when_something_of_it_is_used() -> None:
    script = """
load_later("textwrap", "colorsys", "sys")
import colorsys, textwrap
first = textwrap
print("re" in dir(textwrap), sys is sys.modules["sys"])
print(textwrap.dedent(" a"), first.dedent is textwrap.dedent)
import textwrap
from colorsys import rgb_to_hsv
from textwrap import indent
print(indent("b", ">"), first.fill is textwrap.fill, type(textwrap).__name__, rgb_to_hsv(0, 0, 0))
print(hasattr(first, "no_such_thing"), hasattr(colorsys, "no_such_thing"))
"""
    done = run(TOOLS + script)
    assert done.stdout.splitlines() == [
        "False True",
        "a True",
        ">b True module (0.0, 0.0, 0)",
        "False False",
    ], done.stderr


def test_tracebacks_and_signatures_are_as_ever() -> None:
    script = """
import asyncio, inspect, traceback
async def main(a, b=1):
    raise ValueError("boom")
print(inspect.signature(main), asyncio.iscoroutinefunction(main))
try:
    asyncio.run(main(1))
except ValueError:
    print(traceback.format_exc().splitlines()[-1])
"""
    done = run(f"{TOOLS}load_later(*RARELY_USED){LEAN}{script}")
    assert done.stdout.splitlines() == ["(a, b=1) True", "ValueError: boom"], done.stderr
