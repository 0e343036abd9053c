"""Which of the changed workloads have not reached what was wished. Pure: states come in, rows and done-ness go out.

Only states reported since the connection was opened count, not those read from the complete state: a workload that is
replaced under the same instance name still shows the state of its predecessor there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ankaios.cli.workload_rows import HEADER, STATE_COLUMN, Instance, Row, instance_of
from ankaios.common.pb import ank_base_pb2 as base

SPINNER = "|/-\\"
WAIT_HEADER = tuple(f"  {title}" if column == STATE_COLUMN else title for column, title in enumerate(HEADER))

_ADDED_DONE = {"running", "succeeded", "failed", "notScheduled", "agentDisconnected"}
_DELETED_DONE = {"removed", "agentDisconnected"}


def parse_instance(text: str) -> Instance:
    """`<workload>.<id>.<agent>`; a text of another form can match no state and is waited for by its name alone."""
    name, _, rest = text.partition(".")
    instance_id, _, agent = rest.partition(".")
    return name, instance_id, agent


def reached_added(message: base.ExecutionState) -> bool:
    field = message.WhichOneof("ExecutionStateEnum")
    return field in _ADDED_DONE or (field == "pending" and message.pending == base.PENDING_STARTING_FAILED)


def reached_deleted(message: base.ExecutionState) -> bool:
    return message.WhichOneof("ExecutionStateEnum") in _DELETED_DONE


class WaitList:
    """Owns what is still waited for, and the rows of the wait table."""

    def __init__(
        self,
        added: Iterable[str],
        deleted: Iterable[str],
        rows: Mapping[Instance, Row],
        connected_agents: Collection[str],
    ) -> None:
        self._added = {parse_instance(text) for text in added}
        self._deleted = {parse_instance(text) for text in deleted}
        changed = self._added | self._deleted
        self._rows = {instance: rows.get(instance) or Row(instance, "", "", "") for instance in changed}
        # Nobody will report for an agent that is not there.
        self._added -= {instance for instance in self._added if instance[2] not in connected_agents}
        self._deleted -= {instance for instance in self._deleted if instance[2] not in connected_agents}

    def __len__(self) -> int:
        """How many rows there are, done or not."""
        return len(self._rows)

    @property
    def is_done(self) -> bool:
        return not self._added and not self._deleted

    def update(self, states: Iterable[base.WorkloadState]) -> None:
        for state in states:
            instance = instance_of(state.instanceName)
            if instance not in self._rows:
                continue
            self._rows[instance] = self._rows[instance].with_state(state.executionState)
            if reached_added(state.executionState):
                self._added.discard(instance)
            if reached_deleted(state.executionState):
                self._deleted.discard(instance)

    def rows(self) -> list[Row]:
        return [self._rows[instance] for instance in sorted(self._rows)]

    def cells(self, step: int) -> list[tuple[str, ...]]:
        """One row for each changed instance; the spinner turns where something is still to come."""
        turning = SPINNER[step % len(SPINNER)]
        waiting = self._added | self._deleted
        table: list[tuple[str, ...]] = []
        for row in self.rows():
            sign = turning if row.instance in waiting else " "
            table.append((row.name, row.agent, row.runtime, f"{sign} {row.state}", row.info))
        return table
