"""The instances that `apply`, `run`, `set state` and `delete` wait for. Pure: workload states in, rows out.

Only states that were reported after the connection was opened count, not those of the complete state: an instance that
is replaced under the same name has the state of its predecessor there.
"""

from collections.abc import Collection, Iterable, Mapping

from ankaios.cli.views.workload_rows import Instance, WorkloadRow, instance_of
from ankaios.common.pb import ank_base_pb2 as base

SPINNER = "|/-\\"

_ADDED_DONE = {"running", "succeeded", "failed", "notScheduled", "agentDisconnected"}
_DELETED_DONE = {"removed", "agentDisconnected"}


def parse_instance(text: str) -> Instance:
    """`<workload>.<id>.<agent>`. A text of another form matches no state; only its name is shown."""
    name, _, rest = text.partition(".")
    instance_id, _, agent = rest.partition(".")
    return name, instance_id, agent


def reached_added(message: base.ExecutionState) -> bool:
    field = message.WhichOneof("ExecutionStateEnum")
    return field in _ADDED_DONE or (field == "pending" and message.pending == base.PENDING_STARTING_FAILED)


def reached_deleted(message: base.ExecutionState) -> bool:
    return message.WhichOneof("ExecutionStateEnum") in _DELETED_DONE


class WaitList:
    """Owns the instances that are not done yet, and the rows of the wait table."""

    def __init__(
        self,
        added: Iterable[str],
        deleted: Iterable[str],
        rows: Mapping[Instance, WorkloadRow],
        connected_agents: Collection[str],
    ) -> None:
        self._added = {parse_instance(text) for text in added}
        self._deleted = {parse_instance(text) for text in deleted}
        changed = self._added | self._deleted
        self._rows = {instance: rows.get(instance) or WorkloadRow(instance, "", "", "") for instance in changed}
        # An agent that is not connected reports no states.
        self._added -= {instance for instance in self._added if instance[2] not in connected_agents}
        self._deleted -= {instance for instance in self._deleted if instance[2] not in connected_agents}

    def __len__(self) -> int:
        """The number of rows, including those that are done."""
        return len(self._rows)

    @property
    def is_done(self) -> bool:
        return not self._added and not self._deleted

    def replace_rows(self, rows: Mapping[Instance, WorkloadRow]) -> bool:
        """Show these rows from now on. Returns whether any of them differs. Nothing is done by this."""
        newer = {instance: rows.get(instance, row) for instance, row in self._rows.items()}
        is_changed, self._rows = newer != self._rows, newer
        return is_changed

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

    def rows(self) -> list[WorkloadRow]:
        return [self._rows[instance] for instance in sorted(self._rows)]

    def signs(self, step: int) -> list[str]:
        """For each row the spinner, or a blank if the row is done."""
        waiting = self._added | self._deleted
        return [SPINNER[step % len(SPINNER)] if row.instance in waiting else " " for row in self.rows()]
