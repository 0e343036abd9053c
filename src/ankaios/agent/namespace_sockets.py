"""Creates sockets in the network namespaces of workloads, without starting a process.

Input: the process of a workload. Output: a non-blocking socket in the network of that process. A socket keeps the
namespace in which it was created, so only its creation needs a separate thread, which changes its namespace and does
nothing else. An agent that is not root is not permitted to do that; it uses a helper process for each socket
(docs/adr/0041).
"""

import asyncio
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ankaios.agent.namespace_helper import CLONE_NEWNET, enter_namespace, new_socket
from ankaios.common.errors import Unavailable
from ankaios.runtimes.runtime_connector import CheckTarget

HELPER = "import sys; sys.path.append(sys.argv[1]); from ankaios.agent import namespace_helper as h; sys.exit(h.main())"
HELPER_LIMIT = 5.0
PACKAGES = Path(__file__).parents[2]


class NamespaceUnavailable(Unavailable):
    """The network of the workload cannot be reached; the text contains the reason."""


class NamespaceSockets:
    """Owns the thread, which is started for the first socket in another namespace."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sockets in namespaces")
        self._own = os.stat("/proc/self/ns/net")  # noqa: PTH116
        self._needs_helper = False

    async def open(self, target: CheckTarget, family: int) -> socket.socket:
        try:
            if self._is_own(target):
                return new_socket(family)
            if not self._needs_helper:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._thread, socket_in_namespace, target, family)
        except PermissionError:
            self._needs_helper = True
        except OSError as error:
            raise NamespaceUnavailable(f"cannot reach its network: {error.strerror}") from error
        return await _open_by_helper(target, family)

    def _is_own(self, target: CheckTarget) -> bool:
        found = os.stat(f"/proc/{target.pid}/ns/net")  # noqa: PTH116
        return (found.st_dev, found.st_ino) == (self._own.st_dev, self._own.st_ino)


def socket_in_namespace(target: CheckTarget, family: int) -> socket.socket:
    """Create a socket. Changes the network namespace of this thread."""
    enter_namespace(target.pid, target.start, "net", CLONE_NEWNET)
    return new_socket(family)


async def _open_by_helper(target: CheckTarget, family: int) -> socket.socket:
    own_end, helper_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with own_end:
        with helper_end:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-S", "-c", HELPER, str(PACKAGES), str(target.pid), str(target.start), str(int(family))),
                stdin=helper_end.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        try:
            async with asyncio.timeout(HELPER_LIMIT):
                await process.wait()
        except TimeoutError:
            process.kill()
            raise NamespaceUnavailable("cannot reach its network: no answer of the helper process") from None
        text, descriptors, _, _ = socket.recv_fds(own_end, 1024, 1, socket.MSG_DONTWAIT)
    if not descriptors:
        raise NamespaceUnavailable(f"cannot reach its network: {text.decode(errors='replace') or 'no answer'}")
    found = socket.socket(fileno=descriptors[0])
    found.setblocking(False)
    return found
