"""Records of this agent's workloads: stored in memory and in a file, and sent to servers that request them.

Input: states and details of own workloads, requests of the server. Output: messages to the server, and lines in a file
that the next agent process reads. Owns the records and the file. A file that cannot be written is reported once;
workloads are not affected.
"""

import logging
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from ankaios.agent.server_link import Outbox
from ankaios.common.execution_state import ExecutionState
from ankaios.common.pb.grpc_api_pb2 import ToServer, WorkloadRecords
from ankaios.common.proto_conversion import record_to_pb
from ankaios.common.state_records import StateRecord, StateRecords
from ankaios.common.workload import InstanceName

MOST_LINES = 20_000
_MESSAGE_RECORDS = 500
_LONGEST_LINE = 64 * 1024

log = logging.getLogger(__name__)


class RecordFile:
    """One line for each record or amendment: a checksum and JSON.

    The file is written again with the present records when it is too long or damaged, also by a failed write: otherwise
    the next record would become a part of an incomplete line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = 0
        self._is_damaged = False
        self._is_failing = False

    def read(self) -> Iterator[StateRecord]:
        """Yield the records. Damaged lines are skipped and reported."""
        damaged = 0
        try:
            with self._path.open("rb") as file:
                for line in islice(iter(lambda: file.readline(_LONGEST_LINE), b""), MOST_LINES * 2):
                    self._lines += 1
                    record = _decoded(line)
                    if record is None:
                        damaged += 1
                    else:
                        yield record
        except FileNotFoundError:
            return
        except OSError as error:
            self._failed(error)
        if damaged:
            self._is_damaged = True
            log.warning("%d of %d records in '%s' are damaged and ignored", damaged, self._lines, self._path)

    def store(self, record: StateRecord, present: Iterable[StateRecord]) -> None:
        """Append the record, or write the present records again, which contain it."""
        try:
            if self._is_damaged or self._lines > MOST_LINES:
                self._rewrite(present)
            else:
                self._write(self._path, "ab", [record])
            self._is_damaged = self._is_failing = False
        except OSError as error:
            self._failed(error)

    def _rewrite(self, records: Iterable[StateRecord]) -> None:
        self._lines = 0
        draft = self._path.with_name(self._path.name + ".new")
        self._write(draft, "wb", records)
        draft.replace(self._path)

    def _write(self, path: Path, mode: str, records: Iterable[StateRecord]) -> None:
        with open(path, mode, opener=_open_private) as file:
            for record in records:
                file.write(_encoded(record))
                self._lines += 1

    def _failed(self, error: OSError) -> None:
        if not self._is_failing:
            log.warning("records of workloads are not stored in '%s': %s", self._path, error.strerror)
        self._is_damaged = self._is_failing = True


def _encoded(record: StateRecord) -> bytes:
    content = msgspec.json.encode(record)
    return b"%08x %s\n" % (zlib.crc32(content), content)


def _decoded(line: bytes) -> StateRecord | None:
    """Return None for a line that was not written completely by `_encoded`."""
    checksum, _, content = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(content[:-1]) or not content.endswith(b"\n"):
        return None
    try:
        return msgspec.json.decode(content, type=StateRecord)
    except ValueError:
        return None


def _open_private(path: str, flags: int) -> int:
    """Open for the user of the agent only, because records contain output of workloads."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


class AgentRecords:
    def __init__(self, path: Path, outbox: Outbox, clock: Callable[[], float] = time.time) -> None:
        self._records = StateRecords()
        self._file = RecordFile(path)
        self._outbox = outbox
        self._clock = clock
        self._is_wanted = False
        for record in self._file.read():
            self._records.amend(record)

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    def note(self, name: InstanceName, state: ExecutionState) -> int:
        """Record a state. Return the time when the instance reached it."""
        record = StateRecord(name, self.now_ms(), state)
        kept = self._records.add(record)
        if kept is record:
            self._file.store(record, self._records)
        return kept.time_ms

    def detail(self, name: InstanceName, **details: Any) -> None:
        """Add details to the last state of the instance, and send them to the server."""
        record = self._records.detail(name, **details)
        if record is not None:
            self._file.store(record, self._records)
            if self._is_wanted:
                self._send([record])

    def disconnected(self) -> None:
        self._is_wanted = False

    def send_since(self, time_ms: int) -> None:
        """Send the records that the server has missed, and from now on each new detail."""
        self._is_wanted = True
        missed = self._records.select(since_ms=time_ms)
        for begin in range(0, len(missed), _MESSAGE_RECORDS):
            self._send(missed[begin : begin + _MESSAGE_RECORDS])

    def _send(self, records: Iterable[StateRecord]) -> None:
        message = WorkloadRecords(records=map(record_to_pb, records))
        self._outbox.put_transient(ToServer(workloadRecords=message))
