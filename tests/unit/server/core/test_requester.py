import pytest

from ankaios.server.core.requester import Requester, RequestsByOwner, workload_requester

WEB = Requester("agent_A", "web")
DB = Requester("agent_A", "db")
CLI = Requester("cli-conn-1")


def some_requests() -> RequestsByOwner:
    requests = RequestsByOwner()
    requests.add("agent_A@web@1", WEB)
    requests.add("agent_A@web@2", WEB)
    requests.add("agent_A@db@1", DB)
    requests.add("cli-conn-1@1", CLI)
    return requests


def test_a_workload_is_known_by_the_id_of_its_request() -> None:
    assert workload_requester("agent_A", "agent_A@web@id@with@signs") == WEB
    assert workload_requester("agent_A", "agent_A@web@") == WEB


@pytest.mark.parametrize("wrong", ["", "agent_A", "agent_A@web", "agent_B@web@1", "agent_A@@1"])
def test_an_id_that_does_not_tell_the_workload_belongs_to_nobody(wrong: str) -> None:
    assert workload_requester("agent_A", wrong) is None


def test_requests_are_found_by_peer_and_by_workload() -> None:
    requests = some_requests()
    assert requests.of_peer("agent_A") == ["agent_A@db@1", "agent_A@web@1", "agent_A@web@2"]
    assert requests.of_workload(WEB) == ["agent_A@web@1", "agent_A@web@2"]
    assert requests.of_peer("cli-conn-1") == ["cli-conn-1@1"]
    assert (requests.count(WEB), requests.count(CLI), requests.count(Requester("x"))) == (2, 1, 0)


def test_the_same_id_counts_once() -> None:
    requests = some_requests()
    requests.add("agent_A@web@1", WEB)
    assert requests.count(WEB) == 2


def test_nothing_is_left_of_requests_that_are_over() -> None:
    requests = some_requests()
    for request_id in ("agent_A@web@1", "agent_A@web@2", "agent_A@db@1", "cli-conn-1@1", "never seen"):
        requests.discard(request_id)
    assert vars(requests) == vars(RequestsByOwner())
