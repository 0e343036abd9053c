"""[utest->swdd~agent-map-manages-agent-names-with-agent-attributes~2]"""

from ankaios.server.core.agent_map import AgentMap


def a_map() -> AgentMap:
    agents = AgentMap(lambda _: None)
    agents.add("A", {"zone": "front"})
    agents.add("B", {})
    return agents


def test_a_connected_agent_has_its_tags_and_no_status() -> None:
    assert a_map().form == {"A": {"tags": {"zone": "front"}}, "B": {}}
    assert "A" in a_map()
    assert "C" not in a_map()


def test_an_agent_that_connects_again_has_only_its_new_attributes() -> None:
    agents = a_map()
    agents.set_load("A", 7, 2048)
    agents.add("A", {})
    assert agents.form["A"] == {}


def test_load_tags_and_resources_are_kept_in_the_order_of_the_form() -> None:
    agents = a_map()
    agents.set_resources("A", [{"name": "akri.sh/cam", "capacity": 1}])
    agents.set_load("A", 0, 0)
    assert list(agents.form["A"]) == ["status", "tags", "resources"]
    assert agents.form["A"]["status"] == {"cpuUsage": 0, "freeMemory": 0}


def test_empty_tags_and_resources_are_omitted() -> None:
    agents = a_map()
    agents.set_tags("A", {})
    agents.set_resources("A", [])
    assert agents.form["A"] == {}


def test_unknown_agents_have_no_attributes() -> None:
    agents = a_map()
    agents.set_load("C", 1, 1)
    agents.set_tags("C", {"a": "b"})
    assert "C" not in agents


def test_a_lost_agent_is_removed() -> None:
    agents = a_map()
    agents.remove("A")
    agents.remove("never seen")
    assert list(agents.form) == ["B"]


def test_a_change_is_announced_before_it_happens() -> None:
    seen: list[tuple[tuple[str, ...], list[str]]] = []
    agents = AgentMap(lambda path: seen.append((path, list(agents.form))))
    agents.add("A", {})
    agents.set_load("A", 1, 1)
    agents.remove("A")
    assert seen == [(("A",), []), (("A",), ["A"]), (("A",), ["A"])]


def test_attributes_given_out_do_not_change_later() -> None:
    agents = a_map()
    held = agents.form["A"]
    agents.set_tags("A", {"zone": "rear"})
    assert held == {"tags": {"zone": "front"}}
