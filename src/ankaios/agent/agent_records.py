"""Records of this agent's workloads: stored in memory and in a file, and sent to servers that request them.

Input: states and details of own workloads, requests of the server. Output: messages to the server, and lines of JSON in
a file that the next agent process reads. Owns the records and the file. A file that cannot be written is reported once;
workloads are not affected.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from ankaios.agent.server_link import Outbox
from ankaios.common.execution_state import ExecutionState
from ankaios.common.pb.grpc_api_pb2 import ToServer, WorkloadRecords
from ankaios.common.record_conversion import record_to_pb
from ankaios.common.state_records import StateRecord, StateRecords
from ankaios.common.workload import InstanceName

MOST_LINES = 20_000
_MESSAGE_RECORDS = 500
_LONGEST_LINE = 64 * 1024

log = logging.getLogger(__name__)


class RecordFile:
    """One line of JSON for each record or amendment; the file is rewritten when it becomes too long."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = 0
        self._is_failing = False

    def read(self) -> Iterator[Any]:
        """Yield the records. Unreadable lines are skipped: an agent may have been killed during a write."""
        try:
            with self._path.open("rb") as file:
                for line in islice(iter(lambda: file.readline(_LONGEST_LINE), b""), MOST_LINES * 2):
                    self._lines += 1
                    try:
                        yield msgspec.json.decode(line)
                    except msgspec.DecodeError:
                        continue
        except FileNotFoundError:
            return
        except OSError as error:
            self._failed(error)

    def append(self, record: StateRecord) -> None:
        self._write("ab", [record])

    @property
    def is_long(self) -> bool:
        return self._lines > MOST_LINES

    def replace(self, records: Iterable[StateRecord]) -> None:
        self._lines = 0
        self._write("wb", records)

    def _write(self, mode: str, records: Iterable[StateRecord]) -> None:
        try:
            with open(self._path, mode, opener=_open_private) as file:
                for record in records:
                    file.write(msgspec.json.encode(record) + b"\n")
                    self._lines += 1
            self._is_failing = False
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        if not self._is_failing:
            log.warning("records of workloads are not stored in '%s': %s", self._path, error.strerror)
        self._is_failing = True


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
        for value in self._file.read():
            self._load(value)

    def _load(self, value: Any) -> None:
        try:
            self._records.amend(msgspec.convert(value, StateRecord))
        except msgspec.ValidationError:
            return

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    def note(self, name: InstanceName, state: ExecutionState) -> int:
        """Record a state. Return the time when the instance reached it."""
        record = StateRecord(name, self.now_ms(), state)
        kept = self._records.add(record)
        if kept is record:
            self._store(record)
        return kept.time_ms

    def detail(self, name: InstanceName, **details: Any) -> None:
        """Add details to the last state of the instance, and send them to the server."""
        record = self._records.detail(name, **details)
        if record is not None:
            self._store(record)
            if self._is_wanted:
                self._send([record])

    def _store(self, record: StateRecord) -> None:
        if self._file.is_long:
            self._file.replace(self._records)
        else:
            self._file.append(record)

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
