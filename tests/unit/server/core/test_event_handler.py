"""Tables of the events that subscribers receive; rows that expect None are changes that cause no event."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.execution_state import REMOVED, RUNNING_OK
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_events import altered_paths
from ankaios.common.state_manipulation import (
    AlteredPaths,
    Form,
    Path,
    differences,
    format_path,
    get_value,
    parse_path,
)
from ankaios.server.core.change_recorder import ChangeRecorder
from ankaios.server.core.event_handler import EventHandler
from ankaios.server.core.requester import Requester
from tests.unit.server.scenario import H, Scenario, a_form, a_state, altered, events_of, web

CLI = Requester("cli-conn-1")
WEB = Requester("A", "web")


def nothing(_: Iterable[Path]) -> base.CompleteState:
    return base.CompleteState()


def a_handler() -> EventHandler:
    return EventHandler(ChangeRecorder({}), nothing)


def subscribers_notified(handler: EventHandler) -> list[str]:
    return [respond.response.requestId for respond in handler.events(differences({}, {"a": "b"}))]


def test_subscribers_are_added_and_removed_by_their_id() -> None:
    """[utest->swdd~provides-functionality-to-handle-event-subscriptions~1]"""
    handler = a_handler()
    assert not handler
    handler.add("cli-conn-1@1", CLI, [])
    handler.add("cli-conn-1@2", CLI, ["b"])
    assert handler
    assert len(handler) == 2
    assert subscribers_notified(handler) == ["cli-conn-1@1"]
    handler.remove("cli-conn-1@1")
    handler.remove("never seen")
    handler.remove("cli-conn-1@2")
    assert not handler


def test_subscribers_are_removed_by_connection_agent_and_workload() -> None:
    """[utest->swdd~provides-functionality-to-handle-event-subscriptions~1]"""
    handler = a_handler()
    handler.add("cli-conn-1@1", CLI, [])
    handler.add("A@web@1", WEB, [])
    handler.add("A@db@1", Requester("A", "db"), [])
    handler.add("B@web@1", Requester("B", "web"), [])
    handler.remove_of_peer("cli-conn-1")
    handler.remove_of_workload("A", "web")
    assert subscribers_notified(handler) == ["A@db@1", "B@web@1"]
    handler.remove_of_peer("A")
    assert subscribers_notified(handler) == ["B@web@1"]


def test_the_same_id_again_replaces_the_masks() -> None:
    handler = a_handler()
    handler.add("cli-conn-1@1", CLI, ["nowhere"])
    handler.add("cli-conn-1@1", CLI, ["a"])
    assert subscribers_notified(handler) == ["cli-conn-1@1"]
    assert len(handler) == 1


def test_masks_without_a_match_are_not_treated_as_no_masks() -> None:
    handler = a_handler()
    handler.add("cli-conn-1@1", CLI, ["a" + ".a" * 1000])
    assert subscribers_notified(handler) == []


def test_without_differences_no_event_is_sent() -> None:
    handler = a_handler()
    handler.add("cli-conn-1@1", CLI, [])
    assert handler.events({}) == []


# The worked examples: A adds the first workload, B the first configs, C changes them, D runs it, E removes it.
NET = {"host": "h", "ports": ["80"], "tls": {"on": "y"}}
CHANGES: dict[str, Form] = {
    "A": a_state({"web": a_form(tags={"a": "1", "b": "2"})}),
    "B": {"desiredState": {"apiVersion": "v1", "configs": {"lvl": "x", "net": NET}}},
    "C": {
        "desiredState": {
            "apiVersion": "v1",
            "configs": {"lvl": "x", "net": {"host": "h2", "ports": ["80", "81"], "tls": {"on": "z"}}},
        }
    },
}
MASKS_OF_CHANGE = {"A": "desiredState.workloads.web", "B": "desiredState.configs", "C": "desiredState.configs"}


def events_of_change(change: str, *masks: str) -> tuple[list[str], list[str], list[str]] | None:
    scenario = Scenario()
    scenario.hello("n1")
    for earlier in "ABCDE":
        if earlier == change:
            scenario.subscribe(*masks)
        if earlier in CHANGES:
            effects = scenario.update(CHANGES[earlier], MASKS_OF_CHANGE[earlier])
        else:
            effects = scenario.report("n1", {web(): RUNNING_OK if earlier == "D" else REMOVED})
        if earlier == change:
            return altered(effects)
    raise AssertionError(change)


NET_PATH = "desiredState.configs.net"


@pytest.mark.parametrize(
    ("masks", "change", "expected"),
    [
        ([], "A", (["desiredState.workloads.web", "effectiveState.workloads.web", "workloadStates.n1"], [], [])),
        (["desiredState.workloads.*.agent"], "A", (["desiredState.workloads.web.agent"], [], [])),
        (["desiredState.workloads.web.tags"], "A", None),
        (
            ["desiredState.workloads.*.tags.*"],
            "A",
            (["desiredState.workloads.web.tags.a", "desiredState.workloads.web.tags.b"], [], []),
        ),
        (["workloadStates.*.*.*.state"], "A", ([f"workloadStates.n1.web.{H}.state"], [], [])),
        (["desiredState.configs"], "B", (["desiredState.configs"], [], [])),
        (["desiredState.configs.lvl", NET_PATH], "B", (["desiredState.configs.lvl"], [], [])),
        (["desiredState.configs.*.*"], "B", ([f"{NET_PATH}.host", f"{NET_PATH}.ports", f"{NET_PATH}.tls"], [], [])),
        (["desiredState.configs.*.*"], "C", ([], [f"{NET_PATH}.host", f"{NET_PATH}.ports", f"{NET_PATH}.tls.on"], [])),
        (["workloadStates.*.*.*.subState"], "D", ([], [f"workloadStates.n1.web.{H}.subState"], [])),
        (["workloadStates.n1"], "E", ([], [], ["workloadStates.n1"])),
        (["workloadStates.*.*"], "E", ([], [], ["workloadStates.n1.web"])),
        (["workloadStates.n1.web"], "E", None),
        # A mask longer than a leaf, one that names something else, and one that ends at the top.
        (["desiredState.workloads.web.agent.more"], "A", None),
        (["desiredState.configs.lvl.more"], "C", None),
        (["desiredState.workloads.db"], "A", None),
        (["effectiveState"], "A", (["effectiveState.workloads.web"], [], [])),
        # A path that two masks select is reported once.
        (["desiredState.configs.lvl", "desiredState.configs.*"], "B", (["desiredState.configs.lvl", NET_PATH], [], [])),
    ],
)
def test_a_subscriber_receives_the_events_of_the_worked_examples(
    masks: list[str], change: str, expected: tuple[list[str], list[str], list[str]] | None
) -> None:
    """[utest->swdd~event-handler-creates-altered-fields-and-filter-masks~1]
    [utest->swdd~event-handler-expands-subscriber-field-mask-using-altered-field-masks~1]
    """
    assert events_of_change(change, *masks) == expected


def test_an_event_contains_only_the_altered_parts_and_their_required_context() -> None:
    """[utest->swdd~event-handler-sends-complete-state-differences-including-altered-fields~1]"""
    scenario = Scenario()
    scenario.hello("n1")
    scenario.subscribe("desiredState.workloads.*.agent")
    scenario.subscribe("workloadStates.*.*.*.subState", request_id="s2")
    first, second = events_of(scenario.update(CHANGES["A"], "desiredState.workloads.web"))
    assert first[3] == {"desiredState": {"apiVersion": "v1", "workloads": {"web": {"agent": "n1"}}}}
    pair = {"state": "Pending", "subState": "Initial"}
    assert second[3] == {"workloadStates": {"n1": {"web": {H: pair}}}}


def test_removed_parts_are_listed_and_absent_from_the_state() -> None:
    scenario = Scenario()
    scenario.hello("n1")
    scenario.update(CHANGES["A"], "desiredState.workloads.web")
    scenario.subscribe("desiredState.workloads", "workloadStates")
    ((added, updated, removed, state),) = events_of(scenario.update(a_state(), "desiredState.workloads.web"))
    assert (added, updated, removed) == ([], [], ["desiredState.workloads.web"])
    assert state == {"desiredState": {"apiVersion": "v1"}}


def test_a_config_list_that_gets_its_first_entry_matches_masks() -> None:
    scenario = Scenario()
    scenario.update(a_state(configs={"l": []}))
    scenario.subscribe("desiredState.configs.l")
    assert altered(scenario.update(a_state(configs={"l": ["x"]}))) == (["desiredState.configs.l"], [], [])
    assert altered(scenario.update(a_state(configs={"l": []}))) == ([], [], ["desiredState.configs.l"])


def test_a_workload_that_is_not_scheduled_has_its_true_path() -> None:
    scenario = Scenario()
    scenario.subscribe("workloadStates")
    ((added, _, _, state),) = events_of(scenario.update(a_state({"web": a_form(agent="")})))
    assert added == ["workloadStates."]
    assert state["workloadStates"][""]["web"][H]["state"] == "NotScheduled"


# --- the rules once more, naively: all paths of both trees, compared with the mask one by one -------------------------


def _all_nodes(form: Any, prefix: Path = ()) -> Iterable[tuple[Path, Any]]:
    yield prefix, form
    if isinstance(form, dict):
        for key, below in form.items():
            yield from _all_nodes(below, (*prefix, key))


def _matches(mask: Path, path: Path) -> bool:
    return all(part in ("*", here) for part, here in zip(mask, path, strict=False))


def naive_altered(masks: list[Path], old: Form, new: Form) -> AlteredPaths:
    altered = AlteredPaths()
    first = altered_paths(None, differences(old, new))
    for mask in masks:
        for kind, paths, tree in (
            ("added", first.added, new),
            ("updated", first.updated, new),
            ("removed", first.removed, old),
        ):
            for path in paths:
                if len(mask) <= len(path):
                    if _matches(mask, path):
                        getattr(altered, kind)[path] = None
                elif kind != "updated":
                    for node, value in _all_nodes(get_value(tree, path), path):
                        leaf = not isinstance(value, dict) or not value
                        if len(node) == len(mask) and _matches(mask, node) and (leaf or mask[-1] == "*"):
                            getattr(altered, kind)[node] = None
    return altered


keys = st.sampled_from("abc")
leaves = st.sampled_from(["x", "y", [], ["x"], ["x", "y"]])
forms = st.recursive(leaves, lambda below: st.dictionaries(keys, below, max_size=3), max_leaves=15)
maps = st.dictionaries(keys, forms, max_size=3)
mask_lists = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "*"]), min_size=1, max_size=5).map(tuple), min_size=1, max_size=3
)


@given(maps, maps, mask_lists)
def test_masks_matched_along_the_differences_find_the_same_as_a_comparison_of_all_paths(
    old: Form, new: Form, masks: list[Path]
) -> None:
    found, expected = altered_paths(masks, differences(old, new)), naive_altered(masks, old, new)
    assert set(found.added) == set(expected.added)
    assert set(found.updated) == set(expected.updated)
    assert set(found.removed) == set(expected.removed)


def test_paths_of_events_are_those_of_masks() -> None:
    assert parse_path(format_path(("workloadStates", "", "web"))) == ("workloadStates", "", "web")
