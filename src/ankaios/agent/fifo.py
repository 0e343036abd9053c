"""Reader and writer of FIFOs whose other end an untrusted process can open, close, fill or ignore at any time.

Input: frames to write, and paths. Output: the bytes that were read. No call blocks the event loop. A frame is written
completely or not at all; a frame that is larger than the pipe is completed before the next one.
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
_WRITE_POLL = 0.005
_EMPTY_POLL = 0.0005


class NoFifo(OSError):
    """The path is not a FIFO; the workload can replace it."""


# A file system can reuse the inode number of a removed FIFO for another file, so the file type is compared as well.
FifoIdentity = tuple[int, int, int]


def make_fifo(path: Path) -> FifoIdentity:
    """Create a FIFO, or reuse an existing one, which a workload that outlived the agent still has open.

    A FIFO with a second link is replaced, because it may belong to another workload or program.
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
    """Return whether the path is still the created FIFO."""
    try:
        return _identity(path.lstat()) == made
    except OSError:
        return False


def open_fifo(path: Path, mode: int) -> int:
    """Open a FIFO. Symbolic links are not followed, and other file types are not opened.

    Otherwise a workload could make the agent open any file of the host. Opening a device can already have effects.
    """
    place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISFIFO(os.fstat(place).st_mode):
            raise NoFifo(f"'{path}' is not a FIFO")
        return os.open(f"/proc/self/fd/{place}", mode | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(place)


def unread_bytes(fd: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0])


def fits_at_once(size: int, unread: int, capacity: int) -> bool:
    """Return whether a pipe accepts `size` bytes in one write.

    The kernel stores pages, not bytes. Two neighbouring pages together contain more than one page of data, because they
    would be merged otherwise. So unread data needs at most twice its pages, and one more at each end.
    """
    used = 2 * -(-unread // PAGE) + 2 if unread else 0
    return used + -(-size // PAGE) <= capacity // PAGE


class FifoReader:
    """The reading end. It is always open, so that a workload can open the other end at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._fd = open_fifo(path, os.O_RDONLY)
        self._fresh = True  # no writer has connected yet, so an empty read is not the end
        # Data that is already in the FIFO was sent to an earlier agent, and may start in the middle of a message.
        self.left_behind = b""
        with suppress(BlockingIOError):
            self.left_behind = os.read(self._fd, MAX_PIPE)

    async def read(self) -> bytes:
        """Return some bytes; empty bytes mean that the last writer has closed its end."""
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
        """Open a new descriptor, which waits for the next writer. The old one is closed after that, not before."""
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
    """The writing end. It is opened for the first frame and stays open while the workload reads.

    [impl->swdd~agent-handles-control-interface-input-pipe-not-read~1]
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._fd: int | None = None
        self._rest = memoryview(b"")
        self._waits_for_reader = True
        self._waits_until_empty = True

    def expect_reader(self) -> None:
        """Wait for the reader again, because the workload has sent data."""
        self._waits_for_reader = True

    async def write(self, frame: bytes) -> bool:
        """Return False if no reader accepted the frame; nothing of it is written then.

        After a timeout, the writer does not wait again until the workload sends data. So messages to a workload that
        does not read are dropped without delay.
        """
        for attempt in range(REOPEN_ATTEMPTS + 1):
            if attempt:
                await asyncio.sleep(REOPEN_PAUSE)
            with suppress(BrokenPipeError):
                if self._open():
                    self._waits_for_reader = await self._push(frame)
                    return self._waits_for_reader
            self._close_end()
            if not self._waits_for_reader:
                break
        self._waits_for_reader = False
        return False

    def _open(self) -> bool:
        if self._fd is None:
            try:
                self._fd = open_fifo(self._path, os.O_WRONLY)
            except OSError:
                return False  # no reader, or the path is not a FIFO any more
            # When the reading end is closed, the descriptor becomes "readable" with an error. The kernel discards
            # unread data as soon as this end is closed as well.
            self._loop.add_reader(self._fd, self._close_end)
        return True

    async def _push(self, frame: bytes) -> bool:
        """Write the frame at once when the pipe has space. Return False if it has none within the limit."""
        await self._until_empty()
        deadline = self._loop.time() + (WRITE_LIMIT if self._waits_for_reader else 0)
        while not (self._fits(len(frame)) and self._write_now(frame)):
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(_WRITE_POLL)
        return True

    async def _until_empty(self) -> None:
        """Wait for a short time until the reader has read the last frame.

        The Python SDK reads more than one frame into its buffer, and handles the second one only when the pipe becomes
        readable again. For a slow reader, the writer does not wait.
        """
        deadline = self._loop.time() + PACE_LIMIT
        while self._fd is not None and unread_bytes(self._fd):
            if not self._waits_until_empty or self._loop.time() >= deadline:
                self._waits_until_empty = False
                return
            await asyncio.sleep(_EMPTY_POLL)
        self._waits_until_empty = True

    def _fits(self, size: int) -> bool:
        if self._fd is None:
            raise BrokenPipeError
        if self._rest:
            return False
        if size <= PAGE:
            return True  # the kernel writes up to one page atomically
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
            return capacity  # the limit of pipe memory of the user is reached

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
