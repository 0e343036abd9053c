"""The rows of all workloads, kept current for `get workloads --watch`, `top` and `up`."""

from collections.abc import Iterable

from ankaios.cli.session import Session
from ankaios.cli.views.workload_rows import ROW_MASKS, Instance, WorkloadRow, instance_of, workload_rows
from ankaios.common.pb import ank_base_pb2 as base


class FollowedWorkloads:
    """Owns the rows."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.rows: dict[Instance, WorkloadRow] = {}

    def request(self, *more_masks: str) -> base.CompleteState:
        """Request all rows, and what further masks select."""
        state = self._session.complete_state(*ROW_MASKS, *more_masks)
        self.rows = workload_rows(state)
        return state

    def update(self, states: Iterable[base.WorkloadState]) -> None:
        """Store the states in the rows. The runtime of a new instance is not known, so all rows are requested again."""
        for state in states:
            instance = instance_of(state.instanceName)
            if state.executionState.WhichOneof("ExecutionStateEnum") == "removed":
                self.rows.pop(instance, None)
            elif instance in self.rows:
                self.rows[instance] = self.rows[instance].with_state(state.executionState)
            else:
                self.request()
                return
