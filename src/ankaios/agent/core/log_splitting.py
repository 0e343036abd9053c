"""Splits the output of a workload into log lines, and packs log lines into messages of a size that all peers accept.

Input: bytes in pieces of any size. Output: lines, then `LogEntriesResponse` messages of at most 2 MiB. An unfinished
line is limited to 50 MiB.
"""

from collections.abc import Iterable, Iterator

from ankaios.common.pb.ank_base_pb2 import LogEntriesResponse, LogEntry, WorkloadInstanceName

MAX_LINE = 50 * 1024 * 1024
MAX_RESPONSE = 2 * 1024 * 1024
LINE_TOO_LONG = "The previous log message exceeded the maximum 50 MB size. Closing the log campaign."
ENTRY_TRUNCATED = "The previous message was truncated due to exceeding the maximum 2 MB size."
TRUNCATED_SUFFIX = " [truncated]"
# Upper bound of the tags and length prefixes of an entry in a response and of the message in an entry.
_OVERHEAD = 32


class LineSplitter:
    """Splits at LF, keeps CR, and replaces bytes that are not UTF-8."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self.overflowed = False

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that this piece completes. After an overflow it always returns an empty list."""
        if self.overflowed:
            return []
        complete, newline, rest = data.rpartition(b"\n")
        lines: list[str] = []
        if newline:
            first, *others = complete.split(b"\n")
            lines = [_text(b"".join([*self._pieces, first])), *map(_text, others)]
            self._pieces, self._size = [], 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > self._limit:
            self.overflowed = True
            self._pieces = []
            lines.append(LINE_TOO_LONG)
        return lines

    def finish(self) -> list[str]:
        """Return the last line if it has no LF."""
        last, self._pieces = self._pieces, []
        return [_text(b"".join(last))] if last else []


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def as_responses(
    name: WorkloadInstanceName, lines: Iterable[str], limit: int = MAX_RESPONSE
) -> Iterator[LogEntriesResponse]:
    """Pack the lines, in order, into as few responses as the limit allows. No response is empty."""
    pending, size = LogEntriesResponse(), 0
    for line in lines:
        entry = LogEntry(workloadName=name, message=line)
        cost = _cost(entry.ByteSize())
        if cost > limit:
            if pending.logEntries:
                yield pending
            yield _truncated(name, line, limit)
            pending, size = LogEntriesResponse(), 0
            continue
        if size + cost > limit:
            yield pending
            pending, size = LogEntriesResponse(), 0
        pending.logEntries.append(entry)
        size += cost
    if pending.logEntries:
        yield pending


def _cost(size: int) -> int:
    """Return the size of an entry with its tag and length prefix."""
    return 1 + max(1, (size.bit_length() + 6) // 7) + size


def _truncated(name: WorkloadInstanceName, line: str, limit: int) -> LogEntriesResponse:
    notice = LogEntry(workloadName=name, message=ENTRY_TRUNCATED)
    spare = _OVERHEAD + name.ByteSize() + len(TRUNCATED_SUFFIX) + _cost(notice.ByteSize())
    # Cut at a character boundary: the bytes of an incomplete character are dropped.
    head = line.encode()[: max(0, limit - spare)].decode("utf-8", "ignore")
    entry = LogEntry(workloadName=name, message=head + TRUNCATED_SUFFIX)
    return LogEntriesResponse(logEntries=[entry, notice])
