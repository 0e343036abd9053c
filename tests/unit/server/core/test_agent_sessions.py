from ankaios.common.workload import InstanceName
from ankaios.server.core.agent_sessions import AgentSessions

WEB, DB = InstanceName("web", "1", "a"), InstanceName("db", "1", "a")


def test_workloads_are_unsent_until_their_agent_is_greeted() -> None:
    sessions = AgentSessions()
    sessions.connect("a", [WEB, DB])
    assert (sessions.ungreeted(), sessions.is_ungreeted("a"), sessions.is_unsent(WEB)) == (["a"], True, True)
    sessions.greet("a", [WEB])
    assert (sessions.ungreeted(), sessions.is_ungreeted("a")) == ([], False)
    assert (sessions.is_unsent(WEB), sessions.is_unsent(DB)) == (False, True)


def test_a_workload_that_was_not_sent_stays_so_when_its_agent_disconnects() -> None:
    """Such a workload can be deleted without the agent."""
    sessions = AgentSessions()
    sessions.connect("a", [WEB])
    sessions.disconnect("a")
    assert (sessions.ungreeted(), sessions.is_unsent(WEB)) == ([], True)


def test_an_instance_that_is_deleted_and_added_again_counts_as_added() -> None:
    sessions = AgentSessions()
    sessions.commit([], [WEB, DB])
    sessions.commit([WEB, DB], [DB])
    assert (sessions.is_unsent(WEB), sessions.is_unsent(DB)) == (False, True)
