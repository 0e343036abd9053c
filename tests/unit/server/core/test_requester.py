import pytest

from ankaios.server.core.requester import Requester, workload_requester

WEB = Requester("agent_A", "web")


def test_a_workload_is_identified_by_the_id_of_its_request() -> None:
    assert workload_requester("agent_A", "agent_A@web@id@with@signs") == WEB
    assert workload_requester("agent_A", "agent_A@web@") == WEB


@pytest.mark.parametrize("wrong", ["", "agent_A", "agent_A@web", "agent_B@web@1", "agent_A@@1"])
def test_an_id_without_a_workload_has_no_requester(wrong: str) -> None:
    assert workload_requester("agent_A", wrong) is None
