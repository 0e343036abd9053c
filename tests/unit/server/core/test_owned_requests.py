from ankaios.server.core.owned_requests import MAX_OPEN_REQUESTS, OwnedRequests
from ankaios.server.core.requester import Requester

WEB = Requester("agent_A", "web")
DB = Requester("agent_A", "db")
CLI = Requester("cli-conn-1")


def some_requests() -> OwnedRequests[int]:
    requests: OwnedRequests[int] = OwnedRequests()
    requests.put("agent_A@web@1", WEB, 1)
    requests.put("agent_A@web@2", WEB, 2)
    requests.put("agent_A@db@1", DB, 3)
    requests.put("cli-conn-1@1", CLI, 4)
    return requests


def test_requests_are_found_by_their_id() -> None:
    requests = some_requests()
    assert requests.get("agent_A@web@2") == 2
    assert requests.get("never seen") is None
    assert "agent_A@db@1" in requests
    assert len(requests) == 4


def test_requests_end_with_their_workload_or_peer() -> None:
    requests = some_requests()
    assert requests.remove_of_workload("agent_A", "web") == ["agent_A@web@1", "agent_A@web@2"]
    assert requests.remove_of_workload("agent_A", "web") == []
    assert requests.remove_of_peer("agent_A") == ["agent_A@db@1"]
    assert requests.remove_of_peer("cli-conn-1") == ["cli-conn-1@1"]
    assert not requests


def test_each_requester_has_its_own_limit() -> None:
    requests = some_requests()
    for number in range(MAX_OPEN_REQUESTS):
        requests.put(f"agent_A@web@{number}", WEB, number)
    assert not requests.has_room(WEB)
    assert requests.has_room(DB)
    assert requests.has_room(Requester("x"))


def test_the_same_id_replaces_the_request_at_the_same_position() -> None:
    requests = some_requests()
    requests.put("agent_A@web@1", WEB, 5)
    assert next(requests.items()) == ("agent_A@web@1", 5)
    assert len(requests) == 4


def test_requests_can_be_removed_while_all_are_examined() -> None:
    requests = some_requests()
    for request_id, _ in requests.items():
        requests.remove(request_id)
    assert not requests


def test_ended_requests_leave_no_data() -> None:
    requests = some_requests()
    for request_id in ("agent_A@web@1", "agent_A@web@2", "agent_A@db@1", "cli-conn-1@1", "never seen"):
        requests.remove(request_id)
    assert vars(requests) == vars(OwnedRequests())
