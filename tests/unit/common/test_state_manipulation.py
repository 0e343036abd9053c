from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.state_manipulation import (
    MISSING,
    Added,
    Change,
    Differences,
    FieldNotFound,
    Form,
    Path,
    Removed,
    Selection,
    Updated,
    all_paths,
    copy_form,
    differences,
    expand_wildcards,
    format_path,
    get_value,
    parse_path,
    remove_value,
    set_value,
)

keys = st.sampled_from(["a", "b", "c", "", "*x"])
forms = st.recursive(
    st.one_of(st.text(max_size=2), st.integers(0, 2), st.lists(st.text(max_size=1), max_size=2)),
    lambda below: st.dictionaries(keys, below, max_size=3),
    max_leaves=12,
)
maps = st.dictionaries(keys, forms, max_size=3)
paths = st.lists(keys, min_size=1, max_size=4).map(tuple)
masks = st.lists(st.sampled_from(["a", "b", "c", "", "*"]), min_size=1, max_size=4).map(tuple)


def test_a_path_is_split_at_periods_and_joined_by_them() -> None:
    """[utest->swdd~common-state-manipulation-path~1]"""
    assert parse_path("desiredState.workloads.web") == ("desiredState", "workloads", "web")
    assert format_path(("desiredState", "workloads", "web")) == "desiredState.workloads.web"


def test_a_path_longer_than_any_state_is_deep_is_not_even_split() -> None:
    assert parse_path("a" + ".a" * 127) is not None
    assert parse_path("a" + ".a" * 128) is None


def test_get_follows_maps_and_nothing_else() -> None:
    """[utest->swdd~common-state-manipulation-get~1]"""
    form = {"a": {"b": "x", "l": ["y"], "n": None}}
    assert get_value(form, ("a", "b")) == "x"
    assert get_value(form, ("a", "n")) is None
    assert get_value(form, ("a", "missing")) is MISSING
    assert get_value(form, ("a", "l", "0")) is MISSING
    assert get_value(form, ("a", "b", "x")) is MISSING


def test_set_replaces_a_value() -> None:
    """[utest->swdd~common-state-manipulation-set~1]"""
    form = {"a": {"b": "old"}, "c": {"d": "e"}}
    set_value(form, ("a", "b"), "new")
    assert form == {"a": {"b": "new"}, "c": {"d": "e"}}


def test_set_creates_the_missing_maps_of_the_path() -> None:
    """[utest->swdd~common-state-manipulation-set-add-missing-objects~1]"""
    form: Form = {}
    set_value(form, ("a", "b", "c"), "x")
    assert form == {"a": {"b": {"c": "x"}}}


@pytest.mark.parametrize("in_the_way", ["text", ["list"], None])
def test_set_rejects_a_path_through_a_value_that_is_no_map(in_the_way: Any) -> None:
    with pytest.raises(FieldNotFound, match=r"^Could not find field a\.b$"):
        set_value({"a": in_the_way}, ("a", "b"), "x")


def test_remove_deletes_a_value() -> None:
    """[utest->swdd~common-state-manipulation-remove~1]"""
    form = {"a": {"b": "x", "c": "y"}}
    remove_value(form, ("a", "b"))
    assert form == {"a": {"c": "y"}}


def test_remove_accepts_that_the_last_part_is_missing_but_not_its_parent() -> None:
    form: Form = {"a": {}}
    remove_value(form, ("a", "b"))
    assert form == {"a": {}}
    for wrong in ({}, {"a": "text"}, {"a": ["list"]}):
        with pytest.raises(FieldNotFound):
            remove_value(wrong, ("a", "b"))


def test_a_copy_shares_no_map_and_no_list_with_the_original() -> None:
    form = {"a": {"b": ["c", {"d": "e"}]}}
    copied = copy_form(form)
    assert copied == form
    copied["a"]["b"][1]["d"] = "changed"
    assert form == {"a": {"b": ["c", {"d": "e"}]}}


def test_wildcards_match_every_key_of_a_map() -> None:
    """[utest->swdd~common-state-manipulation-expand-wildcards~1]"""
    form = {"w": {"x": {"agent": "1"}, "y": {"agent": "2"}, "z": {}}, "v": "text"}
    assert expand_wildcards(form, ("w", "*", "agent")) == [("w", "x", "agent"), ("w", "y", "agent")]
    assert expand_wildcards(form, ("*",)) == [("w",), ("v",)]
    assert expand_wildcards(form, ("v", "*")) == []


def test_a_selection_picks_exactly_what_its_masks_name() -> None:
    form = {"w": {"x": {"agent": "1", "tags": {"t": "u"}}, "y": {"agent": "2"}}, "v": "text"}
    assert Selection.of([("w", "*", "agent")]).pick(form) == {"w": {"x": {"agent": "1"}, "y": {"agent": "2"}}}
    assert Selection.of([("w", "x"), ("w", "*", "agent")]).pick(form) == {"w": form["w"]}
    assert Selection.of([("nowhere",)]).pick(form) is MISSING
    assert Selection.of([]).pick(form) is MISSING


def test_many_masks_on_a_small_form_and_few_masks_on_a_large_one_pick_the_same() -> None:
    masks = [("m", str(number)) for number in range(100)]
    assert Selection.of(masks).pick({"m": {"7": "x", "no": "y"}}) == {"m": {"7": "x"}}
    large = {"m": {str(number): number for number in range(1000)}}
    assert Selection.of([("m", "7"), ("m", "9")]).pick(large) == {"m": {"7": 7, "9": 9}}


def test_an_empty_map_is_picked_if_it_is_named_but_not_if_its_entries_are() -> None:
    assert Selection.of([("w",)]).pick({"w": {}}) == {"w": {}}
    assert Selection.of([("w", "*")]).pick({"w": {}}) is MISSING


def test_differences_are_the_topmost_added_removed_and_changed_keys() -> None:
    """[utest->swdd~common-state-manipulation-calculate-state-differences~1]
    [utest->swdd~server-calculates-state-differences~1]
    """
    old = {"same": "s", "gone": {"x": "1"}, "map": {"leaf": "1", "kept": "k"}, "kind": "text"}
    new = {"same": "s", "new": {"y": {"z": "1"}}, "map": {"leaf": "2", "kept": "k"}, "kind": {"now": "map"}}
    found = all_paths(differences(old, new))
    assert list(found.added) == [("new",)]
    assert list(found.removed) == [("gone",)]
    assert sorted(found.updated) == [("kind",), ("map", "leaf")]


def test_a_list_is_added_with_its_first_entry_and_removed_with_its_last() -> None:
    """[utest->swdd~common-state-manipulation-calculate-state-differences~1]"""
    assert differences({"l": []}, {"l": ["x"]}) == {"l": Added(["x"])}
    assert differences({"l": ["x"]}, {"l": []}) == {"l": Removed(["x"])}
    assert differences({"l": ["x"]}, {"l": ["x", "y"]}) == {"l": Updated(["x", "y"])}
    assert differences({"l": ["x"]}, {"l": ["x"]}) == {}


def _patched(old: Form, found: Differences) -> Form:
    form = dict(old)
    for key, change in found.items():
        if isinstance(change, dict):
            form[key] = _patched(form[key], change)
        elif isinstance(change, Removed):
            del form[key]
        else:
            form[key] = change.value
    return form


def _without_empty_lists(form: Any) -> Any:
    """A list that becomes empty is reported like a removed one, so such lists are equal here."""
    if isinstance(form, dict):
        return {key: _without_empty_lists(value) for key, value in form.items() if value != []}
    return form


@given(maps, maps)
def test_differences_applied_to_the_old_form_give_the_new_one(old: Form, new: Form) -> None:
    assert _without_empty_lists(_patched(old, differences(old, new))) == _without_empty_lists(new)


@given(maps)
def test_a_form_does_not_differ_from_its_equal(form: Form) -> None:
    assert differences(form, copy_form(form)) == {}
    assert differences(form, {**form, "q": 1}) == {"q": Added(1)}


@given(maps, maps)
def test_differences_in_the_other_direction_swap_added_and_removed(old: Form, new: Form) -> None:
    there, back = all_paths(differences(old, new)), all_paths(differences(new, old))
    assert set(there.added) == set(back.removed)
    assert set(there.removed) == set(back.added)
    assert set(there.updated) == set(back.updated)


@given(maps, paths, forms)
def test_get_returns_a_value_after_set_and_none_after_remove(form: Form, path: Path, value: Any) -> None:
    try:
        set_value(form, path, value)
    except FieldNotFound:
        return
    assert get_value(form, path) == value
    remove_value(form, path)
    assert get_value(form, path) is MISSING


@given(maps, st.lists(masks, max_size=4))
def test_picking_equals_getting_every_expanded_path(form: Form, wanted: list[Path]) -> None:
    picked: Form = {}
    for mask in wanted:
        for path in expand_wildcards(form, mask):
            set_value(picked, path, copy_form(get_value(form, path)))
    selected = Selection.of(wanted).pick(form)
    assert selected == (picked or MISSING)


def test_every_change_is_recorded_with_its_kind() -> None:
    changes: list[Change] = [Added(1), Updated(2), Removed(3)]
    found: Differences = {str(number): change for number, change in enumerate(changes)}
    altered = all_paths(found)
    assert list(altered) == [("0",), ("1",), ("2",)]
    assert altered
    assert not all_paths({})
