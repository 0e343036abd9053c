"""Records of workloads: states with times and reasons, and details about their ends.

Input: states when they are reached, and details that are available later. Output: the records of one or of all
workloads. Owns the records. Their number is limited, for each workload and in total; the oldest are dropped. Server and
agents use the same class.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from ankaios.common.execution_state import ExecutionState
from ankaios.common.workload import InstanceName

FROM_AGENT, FROM_SERVER = "agent", "server"
MOST_OF_WORKLOAD, FEWEST_OF_WORKLOAD = 30, 5
MOST_RECORDS = 100_000
MOST_WORKLOADS = 20_000


class StateRecord(Struct, frozen=True, omit_defaults=True):
    """One state of one instance. Times are milliseconds since 1970; `next_ms` is when the next attempt is planned."""

    name: InstanceName
    time_ms: int
    state: ExecutionState
    source: str = FROM_AGENT
    exit_code: int | None = None
    output: tuple[str, ...] = ()
    out_of_memory: bool = False
    next_ms: int = 0


class StateRecords:
    def __init__(self) -> None:
        self._records: dict[str, deque[StateRecord]] = {}
        self._newest: dict[str, int] = {}  # by agent: the time of the newest record that it has sent
        self._changed: set[str] = set()
        self._added: list[StateRecord] = []
        self.keeps_added = False

    # --- reading ---

    def of_workload(self, workload: str) -> Sequence[StateRecord]:
        return self._records.get(workload, ())

    def last_of(self, name: InstanceName) -> StateRecord | None:
        return next((record for record in reversed(self.of_workload(name.workload)) if record.name == name), None)

    def select(self, workloads: Collection[str] = (), since_ms: int = -1) -> list[StateRecord]:
        """Return records in the order of their times; of all workloads if none is named."""
        names = workloads or self._records
        found = [record for name in names for record in self.of_workload(name) if record.time_ms > since_ms]
        return sorted(found, key=lambda record: record.time_ms)

    def newest_of_agent(self, agent: str) -> int:
        return self._newest.get(agent, 0)

    # --- changing ---

    def add(self, record: StateRecord) -> StateRecord:
        """Add a state that was reached now. Return the last record if the instance already has this state."""
        last = self.last_of(record.name)
        if last is not None and last.state == record.state:
            return last
        self._put(record)
        return record

    def amend(self, record: StateRecord) -> None:
        """Add details to a record, or add a record that was missed."""
        records = self._records.get(record.name.workload, deque())
        for index, known in enumerate(records):
            if (known.name, known.time_ms) == (record.name, record.time_ms) and known.state.is_same(record.state):
                records[index] = record
                self._note(record)
                return
        self._put(record)

    def detail(self, name: InstanceName, **details: Any) -> StateRecord | None:
        """Add details to the last record of the instance; returns the record."""
        last = self.last_of(name)
        if last is None:
            return None
        self.amend(replace(last, **details))
        return self.last_of(name)

    def _put(self, record: StateRecord) -> None:
        records = self._records.pop(record.name.workload, None) or deque()
        position = len(records)
        while position and records[position - 1].time_ms > record.time_ms:
            position -= 1
        records.insert(position, record)
        while len(records) > self._limit:
            records.popleft()
        self._records[record.name.workload] = records  # the workload changed last
        self._note(record)
        while len(self._records) > MOST_WORKLOADS:
            self._drop(next(iter(self._records)))

    @property
    def _limit(self) -> int:
        return max(FEWEST_OF_WORKLOAD, min(MOST_OF_WORKLOAD, MOST_RECORDS // max(1, len(self._records))))

    def _drop(self, workload: str) -> None:
        del self._records[workload]
        self._changed.add(workload)

    def _note(self, record: StateRecord) -> None:
        self._changed.add(record.name.workload)
        if record.source == FROM_AGENT:
            agent = record.name.agent
            self._newest[agent] = max(self._newest.get(agent, 0), record.time_ms)
        if self.keeps_added:
            self._added.append(record)

    def take_added(self) -> list[StateRecord]:
        """Return new and amended records since the last call, if `keeps_added` is set."""
        added, self._added = self._added, []
        return added

    # --- storing ---

    def take_changed(self) -> dict[str, Any]:
        """Return the records of changed workloads since the last call, as plain data; None: they were dropped."""
        changed, self._changed = self._changed, set()
        return {name: [to_builtins(record) for record in self._records.get(name, ())] or None for name in changed}

    def load(self, stored: Iterable[Any]) -> int:
        """Add stored records. Return the number of unreadable ones."""
        unreadable = 0
        for value in stored:
            try:
                self._put(convert(value, StateRecord))
            except (ValueError, TypeError):
                unreadable += 1
        self._changed.clear()
        self._added.clear()
        return unreadable

    def __iter__(self) -> Iterator[StateRecord]:
        for records in self._records.values():
            yield from records
