from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.workload import ResourceRequest
from ankaios.server.core.placement import Options, Place, PlacementBook, Wanted, choose


class FakeSupply:
    """`rooms["a"]["cam"]` are the free slots of each camera that agent a sees."""

    def __init__(self, tags: Mapping[str, Mapping[str, str]] | None = None, **rooms: Mapping[str, Options]) -> None:
        self.rooms = dict(rooms)
        self.tags = dict(tags or {})

    def candidates(self) -> Mapping[str, Mapping[str, str]]:
        return {name: self.tags.get(name, {}) for name in self.rooms}

    def options(self, agent: str, resource: str) -> Options:
        return self.rooms[agent].get(resource, Options())


def cams(distinct: bool = True, **free: int) -> dict[str, Options]:
    return {"akri.sh/cam": Options(free, distinct)}


def wants(quantity: int = 1, name: str = "cam", **tags: str) -> Wanted:
    return Wanted.of((ResourceRequest(name, quantity),), tags)


def test_the_agent_with_the_most_room_is_chosen_and_the_reason_given() -> None:
    """[utest->akri~workload-requests-resources~1]"""
    place = PlacementBook(FakeSupply(a=cams(c1=1), b=cams(c2=2))).place("w", wants())
    assert (place.agent, place.why) == ("b", "agent 'b' has the most room for 1 x akri.sh/cam")


def test_between_equals_the_name_decides() -> None:
    assert PlacementBook(FakeSupply(b=cams(c1=1), a=cams(c2=1))).place("w", wants()).agent == "a"


def test_without_room_there_is_no_place_and_the_reason_says_so() -> None:
    place = PlacementBook(FakeSupply(a=cams(c1=2))).place("w", wants(2))
    assert (place.agent, place.why) == ("", "no agent has room for 2 x akri.sh/cam")


def test_devices_that_need_not_be_distinct_may_be_the_same() -> None:
    assert PlacementBook(FakeSupply(a=cams(distinct=False, c1=2))).place("w", wants(2)).agent == "a"


def test_only_agents_with_the_tags_count() -> None:
    supply = FakeSupply({"b": {"zone": "front"}}, a=cams(c1=9), b=cams(c2=1))
    assert PlacementBook(supply).place("w", wants(zone="front")).agent == "b"
    nowhere = PlacementBook(supply).place("w", wants(zone="rear"))
    assert (nowhere.agent, nowhere.why) == ("", "no connected agent knows devices and has the tags zone=rear")


def test_a_workload_without_resources_goes_to_the_first_agent() -> None:
    assert PlacementBook(FakeSupply(b={}, a={})).place("w", Wanted()).why == "agent 'a' comes first"
    assert PlacementBook(FakeSupply()).place("w", Wanted()).why == "no connected agent knows devices"


def test_a_choice_stays_while_the_question_is_the_same() -> None:
    supply = FakeSupply(a=cams(c1=1), b=cams(c2=1))
    book = PlacementBook(supply)
    assert book.place("w", wants()).agent == "a"
    supply.rooms["b"] = cams(c2=9)
    assert book.place("w", wants()).agent == "a"
    assert book.place("w", wants(1, zone="x")).agent == ""


def test_a_given_place_stays_like_a_chosen_one() -> None:
    book = PlacementBook(FakeSupply(a=cams(c1=1)))
    assert "w" not in book
    assert book.place("w", wants(), Place("", "not now")).why == "not now"
    assert ("w" in book, book.waiting()) == (True, ["w"])
    assert book.place("w", wants(), Place("b", "it is so")).agent == "b"
    assert ("w" in book, book.waiting(), book.place("w", wants()).agent) == (True, [], "b")


def test_what_is_promised_to_one_workload_is_not_promised_to_another() -> None:
    """One local camera each, and one that both agents share."""
    book = PlacementBook(FakeSupply(a=cams(local_a=1, shared=1), b=cams(local_b=1, shared=1)))
    places = [book.place(f"w{number}", wants()).agent for number in range(4)]
    assert sorted(places[:3]) == ["a", "a", "b"] or sorted(places[:3]) == ["a", "b", "b"]
    assert places[3] == ""
    assert book.waiting() == ["w3"]


def test_a_started_workload_counts_by_its_claims_and_no_longer_by_its_reservation() -> None:
    supply = FakeSupply(a=cams(c1=2))
    book = PlacementBook(supply)
    book.place("w1", wants())
    supply.rooms["a"] = cams(c1=1)
    book.started("w1")
    book.started("unknown")
    assert book.place("w2", wants()).agent == "a"
    assert book.place("w3", wants()).agent == ""


def test_a_forgotten_workload_frees_its_reservation() -> None:
    book = PlacementBook(FakeSupply(a=cams(c1=1)))
    book.place("w1", wants())
    assert book.place("w2", wants()).agent == ""
    book.forget("w1")
    assert book.place("w2", wants()).agent == "a"
    assert book.waiting() == []


def test_workloads_of_a_lost_agent_need_another_place() -> None:
    supply = FakeSupply(a=cams(c1=2), b=cams(c2=1))
    book = PlacementBook(supply)
    book.place("w1", wants())
    del supply.rooms["a"]
    assert book.agent_lost("a") == ["w1"]
    assert book.waiting() == ["w1"]
    assert book.place("w1", wants()).agent == "b"


def test_a_named_device_is_counted_before_any_device() -> None:
    options = {**cams(c1=1, c2=1), "akri.sh/c1": Options({"c1": 1})}
    wanted = Wanted.of((ResourceRequest("cam", 1), ResourceRequest("c1", 1)), {})
    place = PlacementBook(FakeSupply(a=options)).place("w", wanted)
    assert (place.agent, place.reserves) == ("a", {"c1": 1, "c2": 1})
    assert PlacementBook(FakeSupply(a={**options, **cams(c1=1)})).place("w", wanted).agent == ""


@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 3), max_size=3)), st.integers(1, 4))
def test_a_place_is_found_if_and_only_if_some_agent_has_enough_devices(
    rooms: dict[str, list[int]], quantity: int
) -> None:
    supply = FakeSupply()
    for name, slots in rooms.items():
        supply.rooms[name] = {"akri.sh/cam": Options({f"{name}{i}": free for i, free in enumerate(slots)}, True)}
    fits = {name for name, slots in rooms.items() if sum(free > 0 for free in slots) >= quantity}
    place = choose(supply, wants(quantity), {})
    assert bool(place.agent) == bool(fits)
    assert not place.agent or place.agent in fits
