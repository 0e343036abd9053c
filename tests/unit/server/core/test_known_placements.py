from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.workload import InstanceName
from ankaios.server.core.known_placements import KnownPlacements

AGENTS = ("a", "b", "c")


def web(agent: str, instance_id: str = "1") -> InstanceName:
    return InstanceName("web", instance_id, agent)


def reported(**names: list[InstanceName]) -> KnownPlacements:
    known = KnownPlacements()
    for agent, instances in names.items():
        known.report(agent, instances)
    return known


def test_an_agent_reports_its_own_instances() -> None:
    known = reported(a=[web("a")])
    assert (known.agent_of("web", "1"), known.agent_of("web", "2"), known.agent_of("db", "1")) == (
        "a",
        None,
        None,
    )
    assert list(known.instances_on("a")) == [web("a")]
    assert list(known.instances_on("b")) == []


def test_of_two_agents_with_the_instance_the_first_to_report_counts() -> None:
    assert reported(b=[web("b")], a=[web("a")]).agent_of("web", "1") == "b"


def test_reports_of_others_count_until_the_agent_reports_itself() -> None:
    known = reported(a=[web("c")])
    assert (known.agent_of("web", "1"), known.reported_agent_of("web", "1")) == (None, "c")
    known.report("c", [])
    assert known.reported_agent_of("web", "1") is None


def test_of_two_agents_reported_by_others_the_first_by_name_counts() -> None:
    assert reported(a=[web("d"), web("c")]).reported_agent_of("web", "1") == "c"
    assert reported(a=[web("d")], b=[web("c")]).reported_agent_of("web", "1") == "c"


def test_an_instance_without_agent_is_ignored() -> None:
    assert reported(a=[web("")]).reported_agent_of("web", "1") is None


def test_a_report_is_replaced_and_removed() -> None:
    known = reported(a=[web("a"), web("b")])
    known.report("a", [])
    assert (known.agent_of("web", "1"), known.reported_agent_of("web", "1")) == (None, None)
    assert known.has_reported("a")
    known.forget("a")
    assert not known.has_reported("a")
    known.report("a", [web("a"), web("b")])
    known.clear()
    assert (known.agent_of("web", "1"), known.reported_agent_of("web", "1")) == (None, None)


@given(st.permutations(AGENTS), st.sampled_from(AGENTS))
def test_the_agent_is_found_in_whatever_order_agents_reconnect(order: list[str], place: str) -> None:
    """All agents report it: the one that has it, and the others by the states that they received."""
    known = KnownPlacements()
    for agent in order:
        known.report(agent, [web(place)])
        assert (known.agent_of("web", "1") or known.reported_agent_of("web", "1")) == place
