from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.state_manipulation import Added, Removed, Updated, all_paths, differences
from ankaios.server.core.change_recorder import ChangeRecorder

Tree = dict[str, dict[str, dict[str, str]]]


def test_a_changed_entry_is_compared_with_its_first_value() -> None:
    tree: dict[str, Any] = {"map": {"kept": "k", "changed": "1"}}
    recorder = ChangeRecorder(tree)
    recorder.start()
    for value in ("2", "3"):
        recorder.touch(("map", "changed"))
        tree["map"]["changed"] = value
    assert recorder.finish() == {"map": {"changed": Updated("3")}}


def test_an_entry_with_its_first_value_is_no_change() -> None:
    tree: dict[str, Any] = {"map": {"a": "1"}}
    recorder = ChangeRecorder(tree)
    recorder.start()
    recorder.touch(("map", "a"))
    del tree["map"]["a"]
    recorder.touch(("map", "a"))
    tree["map"]["a"] = "1"
    assert recorder.finish() == {}


def test_an_added_or_removed_map_is_the_change() -> None:
    tree: dict[str, Any] = {"old": {"a": "1"}}
    recorder = ChangeRecorder(tree)
    recorder.start()
    recorder.touch(("old", "a"))
    del tree["old"]
    recorder.touch(("new", "b"))
    tree["new"] = {"b": "2"}
    assert recorder.finish() == {"old": Removed({"a": "1"}), "new": Added({"b": "2"})}


def test_nothing_is_recorded_before_the_start_and_after_the_finish() -> None:
    tree: dict[str, Any] = {"a": "1"}
    recorder = ChangeRecorder(tree)
    recorder.touch(("a",))
    recorder.start()
    assert recorder.finish() == {}
    recorder.touch(("a",))
    tree["a"] = "2"
    assert recorder.finish() == {}


keys = st.sampled_from("abc")
trees = st.dictionaries(keys, st.dictionaries(keys, st.dictionaries(keys, st.text(max_size=1), min_size=1), min_size=1))
steps = st.lists(st.tuples(keys, keys, keys, st.none() | st.text(max_size=1)), max_size=12)


def _put(tree: Tree, agent: str, workload: str, instance: str, value: str | None) -> None:
    """Maps without entries are removed, like those of workload states."""
    if value is not None:
        tree.setdefault(agent, {}).setdefault(workload, {})[instance] = value
        return
    tree.get(agent, {}).get(workload, {}).pop(instance, None)
    if not tree.get(agent, {}).get(workload, True):
        del tree[agent][workload]
    if not tree.get(agent, True):
        del tree[agent]


@given(trees, steps)
def test_the_recorded_changes_are_those_of_the_whole_trees(
    tree: Tree, changes: list[tuple[str, str, str, str | None]]
) -> None:
    before = {a: {w: dict(ids) for w, ids in workloads.items()} for a, workloads in tree.items()}
    recorder = ChangeRecorder(tree)
    recorder.start()
    for agent, workload, instance, value in changes:
        recorder.touch((agent, workload, instance))
        _put(tree, agent, workload, instance, value)
    found, expected = recorder.finish(), differences(before, tree)
    assert found == expected
    assert set(all_paths(found)) == set(all_paths(expected))
