"""Writes the output of a native workload to its log. Part of its shim, so it imports few modules.

Input: pieces of two streams. Output: the files `log.1` and `log`, which `log.py` reads. The module owns the open
file.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

LONGEST_LINE = 16 * 1024
STREAMS = (b"stdout", b"stderr")


class Log:
    """Writes lines of two streams with time stamps to two files with a limited total size."""

    def __init__(self, size: int) -> None:
        self._half = max(size // 2, 1)
        self._rest = [b"", b""]
        self._open()

    def _open(self) -> None:
        self._file = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._file).st_size

    def add(self, stream: int, data: bytes, end: bool = False) -> None:
        """Write whole lines, and buffer the rest until its end arrives.

        On a full disk, log lines are lost but the workload continues.
        """
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        stamp = time_stamp() + b" " + STREAMS[stream]
        written = [b"%s F %s\n" % (stamp, line) for line in lines]
        if rest and (end or len(rest) > LONGEST_LINE):
            written.append(b"%s P %s\n" % (stamp, rest))
            rest = b""
        self._rest[stream] = rest
        if written:
            with suppress(OSError):
                self._write(b"".join(written))

    def _write(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._half:
            self._rotate()
        rest = data
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, self._size)  # a part of a line would spoil the next one
            raise
        self._size += len(data)

    def _rotate(self) -> None:
        """Keep the present file until the new one is open, so that the next line can try again."""
        old = self._file
        with suppress(FileNotFoundError):  # renamed by an earlier attempt, or removed
            os.replace("log", "log.1")  # noqa: PTH105
        self._open()
        os.close(old)


def time_stamp() -> bytes:
    """Return the UTC time with a fixed length, so that time stamps can be compared as text."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % nanoseconds
