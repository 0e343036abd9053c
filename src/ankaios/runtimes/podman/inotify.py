"""Reports when entries appear in or are removed from folders, and when files are written.

Input: folders and files. Output: calls with folder and name. The module owns one descriptor for all of them. The calls
are hints: if the kernel rejects a watch or drops events, the periodic resync of the caller still finds the change.
"""

import asyncio
import os
import struct
from collections.abc import Callable
from contextlib import suppress

from ankaios.runtimes.kernel import Kernel

IN_MODIFY = 0x2
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_DELETE = 0x200
IN_Q_OVERFLOW = 0x4000
IN_IGNORED = 0x8000
IN_ONLYDIR = 0x1000000
_CHANGES = IN_MOVED_TO | IN_CREATE | IN_DELETE
_HEAD = struct.Struct("iIII")
_READ = 64 * 1024


class Inotify:
    """Calls `on_change(folder, name)`. An empty name means that the kernel dropped events."""

    def __init__(self, on_change: Callable[[str, str], None]) -> None:
        self._kernel = Kernel()
        self._descriptor = self._kernel.call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        self._on_change = on_change
        self._paths: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def add(self, folder: str) -> None:
        """Raises OSError if the folder cannot be watched."""
        self._add(folder, _CHANGES | IN_ONLYDIR)

    def add_file(self, path: str) -> None:
        """Calls `on_change` with the folder and the name of the file whenever it is written."""
        self._add(path, IN_MODIFY)

    def _add(self, path: str, mask: int) -> None:
        if path in self._watches:
            return
        watch = self._kernel.call("inotify_add_watch", self._descriptor, os.fsencode(path), mask)
        self._paths[watch] = path
        self._watches[path] = watch

    def remove(self, folder: str) -> None:
        watch = self._watches.pop(folder, None)
        if watch is not None:
            self._paths.pop(watch, None)
            with suppress(OSError):  # the kernel may have removed it
                self._kernel.call("inotify_rm_watch", self._descriptor, watch)

    def _read(self) -> None:
        with suppress(BlockingIOError):
            for watch, mask, name in _events(os.read(self._descriptor, _READ)):
                self._handle(watch, mask, name)

    def _handle(self, watch: int, mask: int, name: str) -> None:
        if mask & IN_Q_OVERFLOW:
            self._on_change("", "")
        elif path := self._paths.get(watch):
            if mask & IN_IGNORED:  # the folder or file was removed, and the kernel removed the watch
                del self._paths[watch]
                self._watches.pop(path, None)
            elif name:
                self._on_change(path, name)
            else:  # a file
                self._on_change(*os.path.split(path))

    def close(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1


def _events(data: bytes) -> list[tuple[int, int, str]]:
    found = []
    at = 0
    while at + _HEAD.size <= len(data):
        watch, mask, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        found.append((watch, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))))
        at += length
    return found
