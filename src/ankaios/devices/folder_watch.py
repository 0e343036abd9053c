"""Tells when files appear in or disappear from a folder, by inotify.

In: a folder that exists. Out: names of files, as the kernel reports them. Owns the inotify descriptor.
"""

import asyncio
import ctypes
import os
import struct
from pathlib import Path
from types import TracebackType

_CREATED = 0x100 | 0x80  # made or moved in
_DELETED = 0x200 | 0x40  # deleted or moved out
_FOLDER_GONE = 0x400 | 0x800
_END = _FOLDER_GONE | 0x8000  # the last is told when the watch itself is ended
_OVERFLOW = 0x4000
_HEADER = struct.Struct("iIII")
_MOST_WAITING = 1024

_libc = ctypes.CDLL(None, use_errno=True)


class FolderGone(OSError):
    """The folder itself was removed or moved."""


class FolderWatch:
    """`async with FolderWatch(path) as watch: name, exists = await watch.next()`.

    ("", True) says that more happened than is told one by one: look at the folder yourself.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = -1
        self._events: asyncio.Queue[tuple[str, bool] | None] = asyncio.Queue(_MOST_WAITING + 2)
        self._ended = False

    async def __aenter__(self) -> "FolderWatch":
        self._descriptor = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            mask = _CREATED | _DELETED | _FOLDER_GONE
            _checked(_libc.inotify_add_watch(self._descriptor, os.fsencode(self._folder), mask))
        except OSError:
            os.close(self._descriptor)
            raise
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    async def next(self) -> tuple[str, bool]:
        event = await self._events.get()
        if event is None:
            raise FolderGone(f"the folder '{self._folder}' is gone")
        return event

    def _read(self) -> None:
        content = os.read(self._descriptor, 65536)
        place = 0
        while place < len(content):
            _, mask, _, length = _HEADER.unpack_from(content, place)
            name = content[place + _HEADER.size : place + _HEADER.size + length].rstrip(b"\0")
            place += _HEADER.size + length
            self._tell(os.fsdecode(name), mask)

    def _tell(self, name: str, mask: int) -> None:
        """Two places are kept: one for the mark that stands for all the rest, one for the end of the folder."""
        if self._ended or (self._events.qsize() > _MOST_WAITING and not mask & _END):
            return
        if mask & _END:
            self._ended = True
            self._events.put_nowait(None)
        elif mask & _OVERFLOW or self._events.qsize() == _MOST_WAITING:
            self._events.put_nowait(("", True))
        else:
            self._events.put_nowait((name, bool(mask & _CREATED)))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
