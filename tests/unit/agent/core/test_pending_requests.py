"""The requests of one workload that have not ended."""

from ankaios.agent.core.pending_requests import LONGEST_WAIT, MOST_UNANSWERED, PendingRequests
from ankaios.common.pb import ank_base_pb2 as base


def subscribe(request_id: str = "w@1") -> base.Request:
    return base.Request(requestId=request_id, completeStateRequest=base.CompleteStateRequest(subscribeForEvents=True))


def follow(request_id: str = "w@2") -> base.Request:
    return base.Request(requestId=request_id, logsRequest=base.LogsRequest(follow=True, tail=5))


def state(request_id: str = "1", *, event: bool = False) -> base.Response:
    content = base.CompleteStateResponse(alteredFields=base.AlteredFields() if event else None)
    return base.Response(requestId=request_id, completeStateResponse=content)


def accepted(request_id: str = "2") -> base.Response:
    return base.Response(requestId=request_id, logsRequestAccepted=base.LogsRequestAccepted())


def opened() -> PendingRequests:
    requests = PendingRequests()
    requests.sent(subscribe(), 0.0)
    requests.sent(follow(), 0.0)
    assert requests.received(state())
    assert requests.received(accepted())
    return requests


def test_open_requests_are_repeated_and_their_responses_are_not_delivered_twice() -> None:
    requests = opened()
    first, second = requests.repeat("2026-01-01T00:00:00Z")
    assert first == subscribe()
    assert second.logsRequest.since == "2026-01-01T00:00:00Z"
    assert not second.logsRequest.HasField("tail")
    assert requests.received(state()) is None
    assert requests.received(accepted()) is None
    assert requests.received(state(event=True))
    assert len(list(requests.repeat("later"))) == 2


def versions(response: base.Response | None) -> dict[str, str]:
    assert response is not None
    workloads = response.completeStateResponse.completeState.desiredState.workloads.workloads
    return {name: workload.runtimeConfig for name, workload in workloads.items()}


def with_workloads(request_id: str = "1", **configs: str) -> base.Response:
    workloads = {name: base.Workload(runtimeConfig=config) for name, config in configs.items()}
    desired = base.State(apiVersion="v1", workloads=base.WorkloadMap(workloads=workloads))
    content = base.CompleteStateResponse(completeState=base.CompleteState(desiredState=desired))
    return base.Response(requestId=request_id, completeStateResponse=content)


def added(name: str, config: str) -> base.Response:
    event = with_workloads(**{name: config})
    event.completeStateResponse.alteredFields.addedFields.append(f"desiredState.workloads.{name}")
    return event


def test_a_subscriber_receives_the_changes_made_during_a_disconnection() -> None:
    requests = PendingRequests()
    requests.sent(subscribe(), 0.0)
    requests.received(with_workloads(a="1", b="1"))
    requests.received(added("c", "1"))
    assert len(list(requests.repeat("now"))) == 1
    event = requests.received(with_workloads(a="2", c="1", d="1"))
    assert versions(event) == {"a": "2", "d": "1"}
    assert event is not None and event.requestId == "1"
    altered = event.completeStateResponse.alteredFields
    assert list(altered.updatedFields) == ["desiredState.workloads.a.runtimeConfig"]
    assert list(altered.addedFields) == ["desiredState.workloads.d"]
    assert list(altered.removedFields) == ["desiredState.workloads.b"]


def test_a_subscriber_that_missed_nothing_receives_nothing() -> None:
    requests = PendingRequests()
    requests.sent(subscribe(), 0.0)
    requests.received(with_workloads(a="1"))
    list(requests.repeat("now"))
    assert requests.received(with_workloads(a="1")) is None


def test_cancelled_and_rejected_requests_are_not_repeated() -> None:
    requests = opened()
    requests.sent(base.Request(requestId="w@1", eventsCancelRequest=base.EventsCancelRequest()), 0.0)
    assert requests.received(base.Response(requestId="2", error=base.Error(message="no")))
    assert list(requests.repeat("now")) == []


def test_requests_that_end_with_their_response_are_not_repeated() -> None:
    requests = PendingRequests()
    once = base.Request(requestId="w@3", completeStateRequest=base.CompleteStateRequest())
    requests.sent(once, 0.0)
    assert requests.received(state("3"))
    requests.sent(subscribe("w@4"), 0.0)  # not answered: the queue of the agent still contains it
    assert list(requests.repeat("now")) == []


def test_the_number_of_kept_requests_is_limited() -> None:
    requests = PendingRequests()
    for number in range(1100):
        requests.sent(subscribe(f"w@{number}"), 0.0)
        requests.received(state(f"{number}"))
    assert len(list(requests.repeat("now"))) == 1000


def full(request_id: str = "x") -> PendingRequests:
    requests = PendingRequests()
    for _ in range(MOST_UNANSWERED):
        assert not requests.is_full(0.0)
        requests.sent(base.Request(requestId=f"w@{request_id}"), 0.0)
    return requests


def test_the_number_of_unanswered_requests_is_limited_even_if_all_have_one_id() -> None:
    requests = full()
    assert requests.is_full(0.0)
    assert requests.received(state("x"))
    assert not requests.is_full(0.0)


def test_events_and_unknown_answers_do_not_count() -> None:
    requests = full()
    assert requests.received(state("other"))
    assert requests.is_full(0.0)


def test_unanswered_requests_do_not_block_forever() -> None:
    requests = full()
    assert requests.is_full(LONGEST_WAIT - 0.1)
    assert not requests.is_full(LONGEST_WAIT)
