from collections.abc import Container, Mapping

from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.workload import ResourceRequest
from ankaios.server.core.placement import (
    FreeDevices,
    PlacementDecision,
    PlacementRequest,
    Placements,
    choose_agent,
    lacking,
    plan_placements,
)


class FakeSupply:
    """`agents["a"]["cam"]` are the free slots of each camera that agent a sees."""

    def __init__(
        self, tags: Mapping[str, Mapping[str, str]] | None = None, **agents: Mapping[str, FreeDevices]
    ) -> None:
        self.agents = dict(agents)
        self.tags = dict(tags or {})
        self.placements = Placements()
        self.fixed: PlacementDecision | None = None

    def candidates(self, with_devices: bool) -> Mapping[str, Mapping[str, str]]:
        return {name: self.tags.get(name, {}) for name in self.agents}

    def free_devices(self, agent: str, resource: str, where: Mapping[str, str]) -> FreeDevices:
        """Each property selects the devices whose names begin with its value."""
        devices = self.agents[agent].get(resource, FreeDevices())
        slots = {name: it for name, it in devices.slots.items() if all(map(name.startswith, where.values()))}
        return FreeDevices(slots, devices.distinct)

    def all_devices(self, agent: str, resource: str, where: Mapping[str, str]) -> FreeDevices:
        return self.free_devices(agent, resource, where)

    def plan(
        self, requests: Mapping[str, PlacementRequest], *removed: str, stranded: Container[str] = ()
    ) -> dict[str, PlacementDecision | None]:
        return plan_placements(requests, removed, self.placements, self, lambda name, request: self.fixed, stranded)

    def place(self, workload: str, request: PlacementRequest) -> PlacementDecision:
        """Plan and commit one workload."""
        self.placements.apply(self.plan({workload: request}))
        placement = self.placements.get(workload)
        assert placement is not None
        return placement


def cams(distinct: bool = True, **free: int) -> dict[str, FreeDevices]:
    return {"akri.sh/cam": FreeDevices(free, distinct)}


def wants(quantity: int = 1, name: str = "cam", **tags: str) -> PlacementRequest:
    return PlacementRequest((ResourceRequest(name, quantity),), tuple(sorted(tags.items())))


def test_the_agent_with_the_most_free_devices_is_chosen_and_the_reason_is_given() -> None:
    """[utest->akri~workload-requests-resources~1]"""
    placement = FakeSupply(a=cams(c1=1), b=cams(c2=2)).place("w", wants())
    assert (placement.agent, placement.reason) == ("b", "agent 'b' has the most free devices for 1 x akri.sh/cam")
    assert str(placement.state) == "Pending(Initial)"


def test_between_equal_agents_the_name_decides() -> None:
    assert FakeSupply(b=cams(c1=1), a=cams(c2=1)).place("w", wants()).agent == "a"


def test_without_free_devices_the_workload_waits_and_the_reason_is_given() -> None:
    placement = FakeSupply(a=cams(c1=2)).place("w", wants(2))
    assert (placement.agent, placement.reason) == ("", "no agent has enough free devices for 2 x akri.sh/cam")
    assert str(placement.state) == "NotScheduled"


def test_devices_that_need_not_be_distinct_may_be_the_same() -> None:
    assert FakeSupply(a=cams(distinct=False, c1=2)).place("w", wants(2)).agent == "a"


def test_only_agents_with_the_tags_count() -> None:
    supply = FakeSupply({"b": {"zone": "front"}}, a=cams(c1=9), b=cams(c2=1))
    assert supply.place("w", wants(zone="front")).agent == "b"
    nowhere = supply.place("w2", wants(zone="rear"))
    assert (nowhere.agent, nowhere.reason) == ("", "no connected agent offers devices and has the tags zone=rear")


def test_a_workload_without_resources_is_placed_on_the_first_agent() -> None:
    assert FakeSupply(b={}, a={}).place("w", PlacementRequest()).reason == "agent 'a' is the first by name"
    assert FakeSupply().place("w", PlacementRequest()).reason == "no agent is connected"
    tagged = PlacementRequest(tags=(("zone", "rear"),))
    assert FakeSupply(a={}).place("w", tagged).reason == "no connected agent has the tags zone=rear"


def test_a_placement_stays_while_the_request_is_the_same() -> None:
    supply = FakeSupply(a=cams(c1=1), b=cams(c2=1))
    assert supply.place("w", wants()).agent == "a"
    supply.agents["b"] = cams(c2=9)
    assert supply.plan({"w": wants()}) == {}
    assert supply.place("w", wants()).agent == "a"
    assert supply.place("w", wants(1, zone="x")).agent == ""


def test_a_fixed_placement_stays_like_a_chosen_one() -> None:
    supply = FakeSupply(a=cams(c1=1))
    supply.fixed = PlacementDecision(wants(), "", "not now")
    assert supply.place("w", wants()).reason == "not now"
    assert supply.placements.waiting() == ["w"]
    supply.fixed = PlacementDecision(wants(), "b", "it is so")
    assert supply.place("w", wants()).agent == "b"
    supply.fixed = None
    assert (supply.placements.waiting(), supply.place("w", wants()).agent) == ([], "b")


def test_a_plan_changes_nothing() -> None:
    """A plan can therefore report where a workload would be placed."""
    supply = FakeSupply(a=cams(c1=1))
    first = supply.plan({"w1": wants(), "w2": wants()})
    assert supply.plan({"w1": wants(), "w2": wants()}) == first
    assert [placement.agent for placement in first.values() if placement is not None] == ["a", ""]
    assert (supply.placements.get("w1"), supply.placements.waiting()) == (None, [])


def test_a_device_is_reserved_for_one_workload_also_within_one_plan() -> None:
    """One local camera each, and one that both agents share."""
    supply = FakeSupply(a=cams(local_a=1, shared=1), b=cams(local_b=1, shared=1))
    planned = supply.plan({f"w{number}": wants() for number in range(4)})
    agents = [placement.agent for placement in planned.values() if placement is not None]
    assert sorted(agents[:3]) in (["a", "a", "b"], ["a", "b", "b"])
    assert agents[3] == ""
    one_by_one = [supply.place(f"w{number}", wants()).agent for number in range(4)]
    assert one_by_one == agents
    assert supply.placements.waiting() == ["w3"]


def test_a_started_workload_counts_by_its_claims_and_no_longer_by_its_reservation() -> None:
    supply = FakeSupply(a=cams(c1=2))
    supply.place("w1", wants())
    supply.agents["a"] = cams(c1=1)
    supply.placements.started("w1")
    supply.placements.started("w1")
    supply.placements.started("unknown")
    assert supply.place("w2", wants()).agent == "a"
    assert supply.place("w3", wants()).agent == ""


def test_a_changed_workload_reserves_its_devices_again_until_it_has_started() -> None:
    supply = FakeSupply(a=cams(c1=1))
    supply.place("w1", wants())
    supply.placements.started("w1")
    supply.placements.starts("w1")
    supply.placements.starts("w1")
    supply.placements.starts("unknown")
    assert supply.place("w2", wants()).agent == ""
    supply.placements.started("w1")
    assert supply.place("w2", wants()).agent == "a"


def test_a_removed_workload_frees_its_reservation_also_within_one_plan() -> None:
    supply = FakeSupply(a=cams(c1=1))
    supply.place("w1", wants())
    assert supply.place("w2", wants()).agent == ""
    planned = supply.plan({"w2": wants()}, "w1", "unknown")
    assert planned["w1"] is None
    supply.placements.apply(planned)
    assert supply.placements.get("w1") is None
    placement = supply.placements.get("w2")
    assert (placement and placement.agent, supply.placements.waiting()) == ("a", [])


def test_workloads_of_a_lost_agent_need_another_placement() -> None:
    supply = FakeSupply(a=cams(c1=2), b=cams(c2=1))
    supply.place("w1", wants())
    del supply.agents["a"]
    supply.placements.agent_lost("a")
    assert supply.placements.waiting() == ["w1"]
    assert supply.place("w1", wants()).agent == "b"


# --- instances ---


def an_instance(quantity: int = 0, spread: bool = True) -> PlacementRequest:
    resources = (ResourceRequest("cam", quantity),) if quantity else ()
    return PlacementRequest(resources, (), "web", spread)


def test_instances_are_spread_over_the_agents_also_within_one_plan() -> None:
    supply = FakeSupply(a={}, b={}, c={})
    requests = {f"web-{number}": an_instance() for number in range(5)}
    planned = supply.plan(requests)
    assert [it.agent for it in planned.values() if it] == ["a", "b", "c", "a", "b"]
    assert planned["web-1"] and planned["web-1"].reason == "agent 'b' has the fewest instances of 'web'"
    supply.placements.apply(planned)
    assert supply.placements.instances("web", "a") == 2
    supply.placements.apply(supply.plan({}, "web-0", "web-3"))
    assert supply.placements.instances("web", "a") == 0
    assert supply.place("web-0", an_instance()).agent == "a"
    assert supply.place("web-3", an_instance()).agent == "a"


def test_instances_that_are_not_spread_are_placed_where_the_devices_are() -> None:
    supply = FakeSupply(a=cams(c1=3), b=cams(c2=1))
    planned = supply.plan({f"web-{number}": an_instance(1, spread=False) for number in range(2)})
    assert [it.agent for it in planned.values() if it] == ["a", "a"]
    spread = supply.plan({f"web-{number}": an_instance(1) for number in range(2)})
    assert [it.agent for it in spread.values() if it] == ["a", "b"]


# --- selectors ---


def test_a_selector_counts_only_devices_with_the_properties() -> None:
    wanted = PlacementRequest((ResourceRequest("cam", 1, where={"VENDOR": "acme"}),))
    supply = FakeSupply(a=cams(other=9), b=cams(acme1=1))
    assert supply.place("w1", wanted).agent == "b"
    waiting = supply.place("w2", wanted)
    assert waiting.reason == "no agent has enough free devices for 1 x akri.sh/cam with VENDOR=acme"


# --- lost devices ---


def test_a_stranded_workload_moves_only_if_another_agent_can_serve_it() -> None:
    supply = FakeSupply(a=cams(c1=1), b=cams())
    supply.place("w", wants())
    supply.agents["a"] = cams()
    assert [it.resource for it in lacking(supply, "a", wants())] == ["akri.sh/cam"]
    assert supply.plan({"w": wants()}, stranded=["w"]) == {}
    assert supply.placements.reserved("c1") == 1
    supply.agents["b"] = cams(c2=1)
    moved = supply.plan({"w": wants()}, stranded=["w"])["w"]
    assert moved is not None and moved.agent == "b"
    assert supply.plan({"w": wants()}) == {}


def test_an_agent_whose_devices_are_all_in_use_lacks_none() -> None:
    assert lacking(FakeSupply(a=cams(c1=1, c2=1)), "a", wants(2)) == []
    assert len(lacking(FakeSupply(a=cams(c1=2)), "a", wants(2))) == 1


def test_a_named_device_is_counted_before_any_device() -> None:
    free = {**cams(c1=1, c2=1), "akri.sh/c1": FreeDevices({"c1": 1})}
    wanted = PlacementRequest((ResourceRequest("cam", 1), ResourceRequest("c1", 1)))
    placement = FakeSupply(a=free).place("w", wanted)
    assert (placement.agent, placement.reserves) == ("a", {"c1": 1, "c2": 1})
    assert FakeSupply(a={**free, **cams(c1=1)}).place("w", wanted).agent == ""


@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 3), max_size=3)), st.integers(1, 4))
def test_an_agent_is_found_if_and_only_if_some_agent_has_enough_devices(
    free: dict[str, list[int]], quantity: int
) -> None:
    supply = FakeSupply()
    for name, slots in free.items():
        supply.agents[name] = {"akri.sh/cam": FreeDevices({f"{name}{i}": it for i, it in enumerate(slots)}, True)}
    fits = {name for name, slots in free.items() if sum(it > 0 for it in slots) >= quantity}
    placement = choose_agent(supply, wants(quantity), lambda device: 0)
    assert bool(placement.agent) == bool(fits)
    assert not placement.agent or placement.agent in fits


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2)), max_size=12), st.integers(1, 3))
def test_reservations_are_those_of_the_placements(steps: list[tuple[str, int]], slots: int) -> None:
    """After any sequence of changes nothing is reserved twice, and nothing stays reserved."""
    supply = FakeSupply(n1=cams(c1=slots), n2=cams(c2=slots))
    for name, quantity in steps:
        requests = {name: wants(quantity)} if quantity else {}
        supply.placements.apply(supply.plan(requests, *(() if quantity else (name,))))
        for device in ("c1", "c2"):
            held = [placement.reserves.get(device, 0) for placement in supply.placements._placed.values()]
            assert supply.placements.reserved(device) == sum(held) <= slots
