"""Performs single health checks over the network and on files.

Input: a check, its time limit and the process of the workload. Output: a `HealthResult`. Owns no resources after a
check. Data from a workload is read up to a limit.
"""

import asyncio
import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

from ankaios.agent.core.health import HealthResult, http_result, no_answer
from ankaios.agent.namespace_sockets import NamespaceSockets
from ankaios.common.durations import parse_duration
from ankaios.common.health import FileCheck, HttpCheck, TcpCheck
from ankaios.runtimes.runtime_connector import CheckTarget

MAX_STATUS_LINE = 4096
MAX_DRAINED = 64 * 1024
DRAIN_LIMIT = 0.2  # the response is read, because some servers log an error if the connection is closed earlier
OPENAT2, RESOLVE_IN_ROOT, RESOLVE_NO_MAGICLINKS = 437, 0x10, 0x02

_libc = ctypes.CDLL(None, use_errno=True)


async def probe_network(
    sockets: NamespaceSockets, target: CheckTarget, check: HttpCheck | TcpCheck, limit: float
) -> HealthResult:
    try:
        address = ip_address(check.host)
    except ValueError:
        return HealthResult(f"'{check.host}' is not an IP address")
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        async with asyncio.timeout(limit):
            with await sockets.open(target, family) as connection:
                await asyncio.get_running_loop().sock_connect(connection, (str(address), check.port))
                return await _get(connection, check) if isinstance(check, HttpCheck) else HealthResult()
    except TimeoutError:
        return no_answer(limit)
    except OSError as error:
        return HealthResult(_reason(error))


def _reason(error: OSError) -> str:
    text = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return text[0].lower() + text[1:]


async def _get(connection: socket.socket, check: HttpCheck) -> HealthResult:
    loop = asyncio.get_running_loop()
    host = f"[{check.host}]" if ":" in check.host else check.host
    request = (
        f"GET {check.path} HTTP/1.1\r\nHost: {host}:{check.port}\r\n"
        "User-Agent: ankaios\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
    await loop.sock_sendall(connection, request.encode(errors="replace"))
    response = b""
    while b"\n" not in response and len(response) < MAX_STATUS_LINE:
        piece = await loop.sock_recv(connection, MAX_STATUS_LINE)
        if not piece:
            return http_result(response)
        response += piece
    await _drain(connection)
    return http_result(response)


async def _drain(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(DRAIN_LIMIT):
            left = MAX_DRAINED
            while left > 0 and (piece := await loop.sock_recv(connection, 16 * 1024)):
                left -= len(piece)


def probe_file(target: CheckTarget, check: FileCheck) -> HealthResult:
    """Check the file. Blocks if the file system hangs."""
    try:
        found = _stat_inside(target, check.path)
    except OSError as error:
        return HealthResult(_reason(error))
    longest = parse_duration(check.max_age) if check.max_age is not None else None
    age = time.time() - found.st_mtime
    if longest is not None and age > longest / 1000:
        return HealthResult(f"it was changed {age:.0f} s ago, more than {check.max_age}")
    return HealthResult()


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _stat_inside(target: CheckTarget, path: str) -> os.stat_result:
    """Resolve the path, including all symbolic links, inside the root folder of the process."""
    root = os.open(f"/proc/{target.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        how = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
        found = _libc.syscall(OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if found < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(root)
    try:
        return os.fstat(found)
    finally:
        os.close(found)


class BlockingProbe:
    """Runs a function that may hang in a separate thread, at most one at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[], HealthResult], limit: float) -> HealthResult:
        if self._thread is not None and self._thread.is_alive():
            return HealthResult("the file system does not answer")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[HealthResult] = loop.create_future()

        def perform() -> None:
            result = work()
            with suppress(RuntimeError):  # the agent has ended
                loop.call_soon_threadsafe(lambda: None if answer.done() else answer.set_result(result))

        self._thread = threading.Thread(target=perform, name="file check", daemon=True)
        self._thread.start()
        try:
            async with asyncio.timeout(limit):
                return await answer
        except TimeoutError:
            return no_answer(limit)
