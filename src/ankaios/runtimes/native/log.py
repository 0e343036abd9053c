"""Reads the stored output of a native workload.

Input: the folder with `log.1` and `log`, and the log options. Output: the lines as the workload printed them, oldest
first, and with `follow` also new lines. A line of a log file has the form `<UTC stamp> <stream> <F|P> <text>`; P marks
a part of a line without its end.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from io import BufferedReader
from itertools import islice
from pathlib import Path

from ankaios.runtimes.runtime_connector import LogOptions, RuntimeFailed, Unsupported

FOLLOW_PAUSE = 0.2
LONGEST_RECORD = 96 * 1024  # a line of a log file; the keeper splits longer lines of the workload
_BATCH = 256


def log_stamp(text: str) -> bytes:
    """Convert a time, given as RFC 3339 or seconds since 1970, to the format of the log."""
    try:
        moment = datetime.fromtimestamp(float(text), UTC) if _is_number(text) else datetime.fromisoformat(text)
        utc = moment.astimezone(UTC)  # a time without a time zone is in the zone of this machine
    except (ValueError, OverflowError, OSError) as fault:
        expected = "expected RFC 3339, as in 2026-01-31T12:00:00Z, within the years 1 to 9999 in UTC"
        raise Unsupported(f"cannot read the time '{text:.100}': {expected}") from fault
    return utc.isoformat(timespec="microseconds").replace("+00:00", "000Z").encode()


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def wanted_text(line: bytes, since: bytes | None, until: bytes | None) -> bytes | None:
    """Return the text that the workload printed; None if the line is outside the given times or malformed."""
    stamp, _, rest = line.partition(b" ")
    _, _, rest = rest.partition(b" ")
    kind, blank, text = rest.partition(b" ")
    if not blank or (since and stamp < since) or (until and stamp > until):
        return None
    return text if kind == b"F" else text.removesuffix(b"\n")


async def read_log(folder: Path, options: LogOptions, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """`ended` returns whether the output is complete."""
    since = log_stamp(options.since) if options.since is not None else None
    until = log_stamp(options.until) if options.until is not None else None
    last: deque[bytes] | None = None
    with _translated_errors(folder), closing(_Follower(folder)) as follower:
        if options.tail is not None and options.tail >= 0:
            last = deque(maxlen=options.tail)
            if until is None:
                follower.skip_to_last(options.tail * LONGEST_RECORD)
        while True:
            over, found = ended(), False  # evaluated before reading, so that the last lines are not missed
            for lines in _batches(follower.lines()):
                texts = [text for line in lines if (text := wanted_text(line, since, until)) is not None]
                if last is not None:
                    last.extend(texts)
                elif texts:
                    found = True
                    yield b"".join(texts)
                await asyncio.sleep(0)
            if last:
                yield b"".join(last)
            if over or not options.follow:
                return
            last = None
            if not found:
                await asyncio.sleep(FOLLOW_PAUSE)


@contextmanager
def _translated_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise RuntimeFailed(f"cannot read the log in '{folder}': {fault.strerror}") from fault


def _batches(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Split into small batches, between which the event loop can run other tasks."""
    while batch := list(islice(lines, _BATCH)):
        yield batch


class _Follower:
    """Reads whole lines, the older file first, and continues in the new file after a rotation."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "log"
        # The newer file is opened first: if the log is rotated in between, both are the same and no line is missed.
        newer, older = _open(self._path), _open(folder / "log.1")
        self._files = [file for file in (older, newer) if file is not None]
        if newer and older and _inode(newer) == _inode(older):
            self._files.remove(newer)
        self._rest = b""

    def skip_to_last(self, size: int) -> None:
        """Skip the lines before the last `size` bytes."""
        for number in reversed(range(len(self._files))):
            file = self._files[number]
            written = os.fstat(file.fileno()).st_size
            if written > size:
                file.seek(written - size - 1)
                file.readline()  # the end of a skipped line
                for older in self._files[:number]:
                    older.close()
                del self._files[:number]
                return
            size -= written

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that were written since the last call."""
        while True:
            while len(self._files) > 1:
                yield from self._remaining(self._files[0])
                self._files.pop(0).close()
            rotated = self._rotated()  # evaluated before reading: nothing is added to a rotated file
            if self._files:
                yield from self._remaining(self._files[0])
            if not rotated or not (newer := _open(self._path)):
                return
            self._files.append(newer)

    def _remaining(self, file: BufferedReader) -> Iterator[bytes]:
        while line := file.readline():
            self._rest += line
            if self._rest.endswith(b"\n"):
                yield self._rest
                self._rest = b""

    def _rotated(self) -> bool:
        try:
            now = self._path.stat().st_ino
        except FileNotFoundError:
            return False
        return not self._files or now != _inode(self._files[-1])

    def close(self) -> None:
        for file in self._files:
            file.close()


def _open(path: Path) -> BufferedReader | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _inode(file: BufferedReader) -> int:
    return os.fstat(file.fileno()).st_ino
