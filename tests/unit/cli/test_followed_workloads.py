"""Rows that follow the states of workloads."""

from typing import cast

from ankaios.cli.followed_workloads import FollowedWorkloads
from ankaios.cli.session import Session
from ankaios.common.pb import ank_base_pb2 as base

INSTANCE = ("a", "1", "n")


class FakeSession:
    """A server with one workload, which is pending."""

    def __init__(self) -> None:
        self.requested: list[tuple[str, ...]] = []

    def complete_state(self, *masks: str) -> base.CompleteState:
        self.requested.append(masks)
        state = base.CompleteState()
        state.workloadStates.agentStateMap["n"].wlNameStateMap["a"].idStateMap["1"].pending = base.PENDING_INITIAL
        return state


def state(**content: int) -> base.WorkloadState:
    name = base.WorkloadInstanceName(workloadName="a", agentName="n", id="1")
    return base.WorkloadState(instanceName=name, executionState=base.ExecutionState(additionalInfo="", **content))  # type: ignore[arg-type]


def test_rows_follow_the_states_and_are_requested_again_for_a_new_instance() -> None:
    session = FakeSession()
    workloads = FollowedWorkloads(cast(Session, session))
    workloads.request("agents")
    assert workloads.rows[INSTANCE].state == "Pending(Initial)"
    assert session.requested[0][-1] == "agents"
    workloads.update([state(running=0, restarts=2)])
    assert workloads.rows[INSTANCE].state == "Running(Ok)"
    assert workloads.rows[INSTANCE].restarts == 2
    workloads.update([state(removed=0), state(removed=0)])
    assert not workloads.rows
    assert len(session.requested) == 1
    workloads.update([state(running=0)])
    assert workloads.rows[INSTANCE].state == "Pending(Initial)"
    assert len(session.requested) == 2
