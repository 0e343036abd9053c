import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.server.core.cycle_check import find_cycle

Graph = dict[str, list[str]]


def closing(graph: Graph, *starts: str) -> str | None:
    edges = {name: dict.fromkeys(needed, "ADD_COND_RUNNING") for name, needed in graph.items()}
    return find_cycle(starts or tuple(graph), edges.get)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"A": ["B"], "B": ["A"]}, "A"),
        ({"A": ["A"]}, "A"),
        ({"A": ["B"], "B": ["C"], "C": ["B"]}, "B"),
        ({"B": ["C"], "C": ["D"], "D": ["B"]}, "B"),
        # At one workload the alphabetically first dependency of the path is reported.
        ({"A": ["B"], "B": ["C"], "C": ["B", "A"]}, "A"),
        # The alphabetically last dependency is followed first.
        ({"A": ["B", "C"], "B": ["B2"], "B2": ["B"], "C": ["C2"], "C2": ["C"]}, "C"),
    ],
)
def test_a_cycle_is_found_and_the_workload_that_closes_it_is_named(graph: Graph, expected: str) -> None:
    """[utest->swdd~server-state-rejects-state-with-cyclic-dependencies~1]
    [utest->swdd~cycle-detection-stops-on-the-first-cycle~1]
    """
    assert closing(graph) == expected


def test_the_first_cycle_in_the_order_of_names_ends_the_search() -> None:
    """[utest->swdd~cycle-detection-stops-on-the-first-cycle~1]"""
    graph = {"Z": ["Y"], "Y": ["Z"], "B": ["A"], "A": ["B"]}
    assert closing(graph) == "A"


def test_dependencies_without_a_cycle_are_accepted_even_if_two_paths_join() -> None:
    assert closing({"A": ["B", "C"], "B": ["D"], "C": ["D"], "D": []}) is None
    assert closing({}) is None


def test_a_cycle_after_joined_paths_is_found() -> None:
    assert closing({"A": ["B", "C"], "B": ["C"], "C": ["D"], "D": ["B"]}, "A") is not None


def test_a_missing_dependency_closes_no_cycle() -> None:
    """[utest->swdd~cycle-detection-ignores-non-existing-workloads~1]"""
    assert closing({"A": ["missing"], "B": ["A", "missing"]}) is None


def test_a_cycle_that_no_start_leads_to_is_not_looked_for() -> None:
    assert closing({"A": [], "B": ["C"], "C": ["B"]}, "A") is None


def test_a_chain_as_long_as_a_large_cluster_is_searched() -> None:
    chain = {f"{number:05}": [f"{number + 1:05}"] for number in range(20_000)}
    assert closing(chain, "00000") is None
    chain["20000"] = ["00000"]
    assert closing(chain, "00000") == "00000"


names = st.sampled_from("ABCDEF")


@given(st.dictionaries(names, st.lists(names, max_size=4), max_size=6))
def test_a_cycle_is_found_exactly_if_there_is_one(graph: Graph) -> None:
    def leads_to(start: str, target: str) -> bool:
        ahead, seen = list(graph.get(start, ())), set[str]()
        while ahead:
            name = ahead.pop()
            if name == target:
                return True
            if name in graph and name not in seen:
                seen.add(name)
                ahead.extend(graph[name])
        return False

    on_cycles = {name for name in graph if leads_to(name, name)}
    found = closing(graph)
    assert (found in on_cycles) if on_cycles else found is None
