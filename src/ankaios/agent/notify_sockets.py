"""Sockets on which native workloads report their health with sd_notify.

Input: datagrams. Output: the result of the notify check, for the monitor that is attached. Owns one socket for each
workload instance with a notify check, in `<run folder>/<agent>_io/notify`. All users of the host can send to it, so a
datagram is accepted only from the user of the workload's process or from its session.
"""

import asyncio
import logging
import os
import socket
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ankaios.agent.core.health import HealthResult, parse_notification
from ankaios.common.workload import InstanceName
from ankaios.runtimes.exit_watch import session_of
from ankaios.runtimes.runtime_connector import CheckTarget

MAX_DATAGRAM = 4096
DATAGRAMS_AT_ONCE = 32
FOLDER_MODE = 0o711
_CREDENTIALS = struct.Struct("3i")

log = logging.getLogger(__name__)


class NotifySocket:
    """Buffers the last results until a monitor is attached: a process can report before its state is running."""

    def __init__(self, path: Path) -> None:
        """Raises OSError if the socket cannot be created."""
        self.path = path
        self._pending: list[tuple[HealthResult, int, int]] = []
        self._sink: Callable[[HealthResult], None] | None = None
        self._target: CheckTarget | None = None
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket.bind(str(path))
            path.chmod(0o666)
            asyncio.get_running_loop().add_reader(self._socket, self._read)
        except OSError:
            self._socket.close()
            raise

    def attach(self, target: CheckTarget, sink: Callable[[HealthResult], None]) -> None:
        self._target, self._sink = target, sink
        pending, self._pending = self._pending, []
        for result, pid, uid in pending:
            self._receive(result, pid, uid)

    def detach(self) -> None:
        self._target = self._sink = None

    def _read(self) -> None:
        for _ in range(DATAGRAMS_AT_ONCE):
            try:
                data, ancillary, _, _ = self._socket.recvmsg(MAX_DATAGRAM, socket.CMSG_SPACE(_CREDENTIALS.size))
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                log.warning("cannot read '%s': %s", self.path, error)
                return
            if (result := parse_notification(data)) is None:
                continue
            for level, kind, content in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                    pid, uid, _ = _CREDENTIALS.unpack(content[: _CREDENTIALS.size])
                    self._receive(result, pid, uid)

    def _receive(self, result: HealthResult, pid: int, uid: int) -> None:
        if self._target is None or self._sink is None:
            self._pending = [*self._pending[-3:], (result, pid, uid)]
        elif _is_trusted(self._target, pid, uid):
            self._sink(result)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self.path.unlink(missing_ok=True)


def _is_trusted(target: CheckTarget, pid: int, uid: int) -> bool:
    with suppress(OSError):
        return os.stat(f"/proc/{target.pid}").st_uid == uid or session_of(pid) == target.pid  # noqa: PTH116
    return False


class NotifySockets:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sockets: dict[InstanceName, NotifySocket] = {}

    def open(self, name: InstanceName) -> NotifySocket | None:
        """Return None if the socket cannot be created; the notify check fails then."""
        if name not in self._sockets:
            try:
                self._folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
                self._folder.chmod(FOLDER_MODE)
                self._sockets[name] = NotifySocket(self._folder / _short_name(name))
            except OSError as error:
                log.warning("'%s' has no socket for sd_notify: %s", name.workload, error)
                return None
        return self._sockets[name]

    def close(self, name: InstanceName) -> None:
        if (found := self._sockets.pop(name, None)) is not None:
            found.close()


def _short_name(name: InstanceName) -> str:
    """Return a short name: the path of a socket is limited to 107 characters, so the instance name does not fit."""
    return f"{zlib.crc32(str(name).encode()):08x}{name.id[:8]}"
