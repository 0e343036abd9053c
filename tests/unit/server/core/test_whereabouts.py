from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.workload import InstanceName
from ankaios.server.core.whereabouts import Whereabouts

AGENTS = ("a", "b", "c")


def web(agent: str, instance_id: str = "1") -> InstanceName:
    return InstanceName("web", instance_id, agent)


def told(**names: list[InstanceName]) -> Whereabouts:
    whereabouts = Whereabouts()
    for agent, known in names.items():
        whereabouts.tell(agent, known)
    return whereabouts


def test_an_agent_speaks_for_itself() -> None:
    whereabouts = told(a=[web("a")])
    assert (whereabouts.having("web", "1"), whereabouts.having("web", "2"), whereabouts.having("db", "1")) == (
        "a",
        None,
        None,
    )
    assert list(whereabouts.had_by("a")) == [web("a")]
    assert list(whereabouts.had_by("b")) == []


def test_of_two_that_have_it_the_first_to_tell_counts() -> None:
    assert told(b=[web("b")], a=[web("a")]).having("web", "1") == "b"


def test_others_speak_for_an_agent_until_it_does() -> None:
    whereabouts = told(a=[web("c")])
    assert (whereabouts.having("web", "1"), whereabouts.said_to_have("web", "1")) == (None, "c")
    whereabouts.tell("c", [])
    assert whereabouts.said_to_have("web", "1") is None


def test_of_two_that_are_said_to_have_it_the_name_decides() -> None:
    assert told(a=[web("d"), web("c")]).said_to_have("web", "1") == "c"
    assert told(a=[web("d")], b=[web("c")]).said_to_have("web", "1") == "c"


def test_a_workload_without_agent_is_nowhere() -> None:
    assert told(a=[web("")]).said_to_have("web", "1") is None


def test_what_was_told_is_replaced_and_forgotten() -> None:
    whereabouts = told(a=[web("a"), web("b")])
    whereabouts.tell("a", [])
    assert (whereabouts.having("web", "1"), whereabouts.said_to_have("web", "1")) == (None, None)
    assert whereabouts.has_told("a")
    whereabouts.forget("a")
    assert not whereabouts.has_told("a")
    whereabouts.tell("a", [web("a"), web("b")])
    whereabouts.clear()
    assert (whereabouts.having("web", "1"), whereabouts.said_to_have("web", "1")) == (None, None)


@given(st.permutations(AGENTS), st.sampled_from(AGENTS))
def test_in_whatever_order_agents_come_back_the_workload_is_where_it_was(order: list[str], place: str) -> None:
    """All of them know it: the one that has it, and the others by what they heard."""
    whereabouts = Whereabouts()
    for agent in order:
        whereabouts.tell(agent, [web(place)])
        known = whereabouts.having("web", "1") or whereabouts.said_to_have("web", "1")
        assert known == place
