"""The two ends of FIFOs that another process may open, close, fill or forget at any time.

Nothing here blocks, and nothing but the waiting caller waits. A frame is written whole or not at all; one that no pipe
can hold at once is continued until it is complete before anything else follows.
"""

import asyncio
import fcntl
import os
import stat
import struct
import termios
from contextlib import suppress
from pathlib import Path

READ_SIZE = 64 * 1024
PAGE = 4096
MAX_PIPE = 1024 * 1024
WRITE_LIMIT = 0.5
REOPEN_PAUSE = 0.1
REOPEN_ATTEMPTS = 5
PACE_LIMIT = 0.4
_LOOK_AGAIN = 0.005
_LOOK_SOON = 0.0005


class NoFifo(OSError):
    """Something else lies where the FIFO was: the workload may put there what it likes."""


# A file system may give the number of a removed FIFO to the next file, so the kind is compared as well.
FifoIdentity = tuple[int, int, int]


def make_fifo(path: Path) -> FifoIdentity:
    """An existing FIFO is used again: a workload that outlived the agent still has it open.

    A FIFO with a second name may be that of another workload, or of another program.
    """
    with suppress(FileNotFoundError):
        found = path.lstat()
        if stat.S_ISFIFO(found.st_mode) and found.st_nlink == 1:
            return _identity(found)
        path.unlink()
    os.mkfifo(path, 0o700)
    return _identity(path.lstat())


def _identity(found: os.stat_result) -> FifoIdentity:
    return found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode)


def is_fifo_at(path: Path, made: FifoIdentity) -> bool:
    """Whether the FIFO that was made is still there, and nothing else."""
    try:
        return _identity(path.lstat()) == made
    except OSError:
        return False


def open_fifo(path: Path, mode: int) -> int:
    """Never through a link, and nothing but a FIFO is opened at all.

    A workload could lead the agent to any file of the host, and opening a device may already start what it controls.
    """
    place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISFIFO(os.fstat(place).st_mode):
            raise NoFifo(f"'{path}' is no FIFO")
        return os.open(f"/proc/self/fd/{place}", mode | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(place)


def unread_bytes(fd: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0])


def fits_at_once(size: int, unread: int, capacity: int) -> bool:
    """Whether a pipe takes `size` bytes in one write.

    The kernel stores pages, not bytes. Neighbouring pages hold together more than one page, else they had been merged,
    so what is unread takes at most twice its pages, and one more at each end.
    """
    used = 2 * -(-unread // PAGE) + 2 if unread else 0
    return used + -(-size // PAGE) <= capacity // PAGE


class FifoReader:
    """The reading end; there always is one, so that a workload can open the other end at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._fd = open_fifo(path, os.O_RDONLY)
        self._fresh = True  # without a writer this is not the end yet
        # What lies here already was meant for an agent that has gone, and may start in the middle of a message.
        self.left_behind = b""
        with suppress(BlockingIOError):
            self.left_behind = os.read(self._fd, MAX_PIPE)

    async def read(self) -> bytes:
        """Some bytes; none means that the last writer closed its end."""
        while True:
            if self._fresh:
                await self._readable()
                self._fresh = False
            try:
                data = os.read(self._fd, READ_SIZE)
            except BlockingIOError:
                await self._readable()
                continue
            if not data:
                self._reopen()
            return data

    def _reopen(self) -> None:
        """Only a fresh descriptor waits for the next writer; the old one goes after, so that a reader stays."""
        old, self._fd = self._fd, open_fifo(self._path, os.O_RDONLY)
        self._fresh = True
        os.close(old)

    async def _readable(self) -> None:
        ready = self._loop.create_future()
        self._loop.add_reader(self._fd, _resolve, ready)
        try:
            await ready
        finally:
            self._loop.remove_reader(self._fd)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)


class FifoWriter:
    """The writing end, opened when there is something to say and kept open while somebody reads.

    [impl->swdd~agent-handles-control-interface-input-pipe-not-read~1]
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._fd: int | None = None
        self._rest = memoryview(b"")
        self._patient = True
        self._paces = True

    def expect_reader(self) -> None:
        """The workload shows signs of life: it is worth waiting for again."""
        self._patient = True

    async def write(self, frame: bytes) -> bool:
        """False: nobody took it, and nothing of it was written.

        Who did not read once is not waited for again before it shows signs of life, so that messages for a workload
        which does not read are dropped as fast as they come.
        """
        for attempt in range(REOPEN_ATTEMPTS + 1):
            if attempt:
                await asyncio.sleep(REOPEN_PAUSE)
            with suppress(BrokenPipeError):
                if self._open():
                    self._patient = await self._push(frame)
                    return self._patient
            self._close_end()
            if not self._patient:
                break
        self._patient = False
        return False

    def _open(self) -> bool:
        if self._fd is None:
            try:
                self._fd = open_fifo(self._path, os.O_WRONLY)
            except OSError:
                return False  # no reader, or no FIFO any more
            # The reading end going away shows as an error, which counts as "readable". What the reader left belongs to
            # nobody; the kernel forgets it as soon as this end is closed, too.
            self._loop.add_reader(self._fd, self._close_end)
        return True

    async def _push(self, frame: bytes) -> bool:
        """Write it in one go as soon as there is room; False if there is none within the limit."""
        await self._until_empty()
        deadline = self._loop.time() + (WRITE_LIMIT if self._patient else 0)
        while not (self._has_room(len(frame)) and self._write_now(frame)):
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(_LOOK_AGAIN)
        return True

    async def _until_empty(self) -> None:
        """Wait a little until the reader has taken the last frame.

        The Python SDK reads more than it looks at: what arrives together with an earlier frame stays in its buffer
        until the next one makes the pipe readable. A reader that is slow anyway is not slowed down further.
        """
        deadline = self._loop.time() + PACE_LIMIT
        while self._fd is not None and unread_bytes(self._fd):
            if not self._paces or self._loop.time() >= deadline:
                self._paces = False
                return
            await asyncio.sleep(_LOOK_SOON)
        self._paces = True

    def _has_room(self, size: int) -> bool:
        if self._fd is None:
            raise BrokenPipeError
        if self._rest:
            return False
        if size <= PAGE:
            return True  # the kernel itself writes so much wholly or not at all
        capacity, unread = self._grow(4 * size), unread_bytes(self._fd)
        return unread == 0 or fits_at_once(size, unread, capacity)

    def _grow(self, wanted: int) -> int:
        assert self._fd is not None
        capacity = fcntl.fcntl(self._fd, fcntl.F_GETPIPE_SZ)
        if capacity >= min(wanted, MAX_PIPE):
            return capacity
        try:
            return fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, min(wanted, MAX_PIPE))
        except OSError:
            return capacity  # the user's share of pipe memory is used up

    def _write_now(self, frame: bytes) -> bool:
        assert self._fd is not None
        try:
            written = os.write(self._fd, frame)
        except BlockingIOError:
            return False
        if written < len(frame):
            self._rest = memoryview(frame)[written:]
            self._loop.add_writer(self._fd, self._continue)
        return True

    def _continue(self) -> None:
        assert self._fd is not None
        try:
            self._rest = self._rest[os.write(self._fd, self._rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._close_end()
            return
        if not self._rest:
            self._loop.remove_writer(self._fd)

    def _close_end(self) -> None:
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = None
        self._rest = memoryview(b"")

    def close(self) -> None:
        self._close_end()


def _resolve(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
