"""The metrics of the server after the messages of a scenario."""

from typing import Any

from ankaios.common.messages import FromClient
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import UpdateWorkload
from ankaios.server.core.replies import HooksFinished
from ankaios.server.core.update_rejected import UpdateRejected
from ankaios.server.metrics import MAX_UNANSWERED, ServerMetrics, StorageFacts
from tests.unit.server.scenario import CLI, Scenario, a_form, a_state


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def update(state: dict[str, Any], request_id: str = "r") -> FromClient:
    content = base.UpdateStateRequest(newState=COMPLETE_STATE.from_form(state), updateMask=["desiredState.workloads"])
    return FromClient(CLI, base.Request(requestId=f"{CLI}@{request_id}", updateStateRequest=content))


def test_updates_are_counted_by_result_and_timed() -> None:
    scenario, clock = Scenario(), Clock()
    metrics = ServerMetrics(clock)
    for state in (a_state({"web": a_form()}), a_state({"web": a_form(dependencies={"web": "ADD_COND_RUNNING"})})):
        message = update(state)
        metrics.handling(message)
        clock.now += 0.5
        for effect in scenario.server.handle(message):
            metrics.performing(effect)
    assert metrics.updates.values == {("accepted",): 1, ("rejected",): 1}
    (times,) = metrics.update_seconds.values.values()
    assert times.sum == 1.0


def test_requests_without_an_answer_are_removed_at_a_limit() -> None:
    metrics = ServerMetrics(Clock())
    for number in range(MAX_UNANSWERED + 5):
        metrics.handling(update(a_state(), str(number)))
    assert len(metrics._unanswered) == MAX_UNANSWERED


def test_gauges_are_computed_from_the_state() -> None:
    scenario, metrics = Scenario(), ServerMetrics()
    metrics.observe(scenario.server)
    scenario.update(a_state({"web": a_form(), "db": a_form("")}))
    scenario.hello("n1")
    scenario.ask("s", completeStateRequest=base.CompleteStateRequest(subscribeForEvents=True))
    assert metrics.agents.read() == {(): 1}
    assert metrics.desired.read() == {(): 2}
    assert sum(metrics.workloads.read().values()) == 2
    assert metrics.subscribers.read() == {(): 1}
    assert metrics.waiting_updates.read() == {(): 0}
    assert metrics.log_campaigns.read() == {(): 0}


def test_a_server_that_does_not_lead_has_no_gauges_of_a_state() -> None:
    scenario, metrics = Scenario(), ServerMetrics()
    metrics.observe(scenario.server)
    metrics.observe(None)
    for gauge in (metrics.agents, metrics.workloads, metrics.desired, metrics.subscribers):
        assert gauge.read() == {}


def test_storage_and_leadership_are_read_from_their_owner() -> None:
    metrics = ServerMetrics()
    metrics.observe_storage(
        lambda: StorageFacts("etcd", 7, size=100, is_leader=True, term=3, can_store=False, is_damaged=True)
    )
    assert metrics.store_info.read() == {("etcd",): 1}
    assert metrics.store_revision.read() == {("etcd",): 7}
    assert metrics.store_size.read() == {("etcd",): 100}
    assert metrics.store_usable.read() == {("etcd",): 0}
    assert metrics.store_damaged.read() == {("etcd",): 1}
    assert metrics.is_leader.read() == {(): 1}
    assert metrics.term.read() == {(): 3}


def test_hooks_are_counted_by_their_result() -> None:
    metrics = ServerMetrics()
    for outcome in (None, UpdateWorkload(), UpdateRejected("no")):
        metrics.hooks_ran(HooksFinished(outcome), 0.1)
    assert metrics.hook_runs.values == {("accepted",): 1, ("changed",): 1, ("rejected",): 1}
