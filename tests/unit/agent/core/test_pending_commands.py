"""Commands that wait for a busy workload, and how newer commands replace them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ankaios.agent.core.pending_commands import fold, instances_of, target_of
from ankaios.agent.core.workload_events import Create, Delete, Event, Restart, Update
from ankaios.agent.core.workload_lifecycle import BecomeAgain, BecomeEmpty, BecomeGone, Workload
from tests.support.builders import a_workload

WEB = a_workload(config="image: one")
WEB2 = a_workload(config="image: two")
NAME, NAME2 = WEB.instance_name, WEB2.instance_name
RUNNING = Workload(WEB, runtime_id="c1", turn=1, watching=True)


@pytest.mark.parametrize(
    ("pending", "new", "result", "skipped"),
    [
        ([], Delete(), [Delete()], []),
        ([Delete()], Delete(), [Delete()], []),
        ([Update(WEB2)], Delete(), [Delete()], [NAME2]),
        ([Update(WEB)], Delete(), [Delete()], []),
        ([Update(WEB2)], Update(WEB), [Update(WEB)], [NAME2]),
        ([Update(WEB2)], Update(None), [Update(None)], [NAME2]),
        ([Update(None)], Update(None), [Update(None)], []),
        ([Update(None)], Update(WEB2), [Update(None), Update(WEB2)], []),
        ([Delete()], Update(WEB2), [Delete(), Update(WEB2)], []),
        ([Delete(), Update(WEB2)], Delete(), [Delete()], [NAME2]),
        ([Create()], Delete(), [Create(), Delete()], []),
        ([Update(WEB2)], Restart(), [Update(WEB2), Restart()], []),
        ([Update(None)], Delete(), [Delete()], []),
        ([Delete()], Update(None), [Delete()], []),
        ([Restart()], Update(None), [Update(None)], []),
        ([Restart()], Restart(), [Restart()], []),
        ([Restart()], Delete(), [Delete()], []),
    ],
)
def test_a_newer_command_replaces_waiting_ones(
    pending: Sequence[Event], new: Update | Delete, result: list[Event], skipped: list[object]
) -> None:
    assert fold(pending, new, NAME) == (result, skipped)


@given(st.lists(st.sampled_from([Update(WEB), Update(WEB2), Update(None), Delete(), Restart()]), max_size=60))
def test_the_number_of_waiting_commands_is_limited(commands: list[Update | Delete | Restart]) -> None:
    pending: list[Event] = [Create()]
    for command in commands:
        pending, _ = fold(pending, command, NAME)
    assert len(pending) <= 5


def test_the_target_is_determined_by_the_last_command() -> None:
    assert target_of(RUNNING, []) == WEB
    assert target_of(RUNNING, [Update(WEB2)]) == WEB2
    assert target_of(RUNNING, [Update(WEB2), Restart()]) == WEB2
    assert target_of(RUNNING, [Delete()]) is None
    assert target_of(replace(RUNNING, aim=WEB2), []) == WEB2
    assert target_of(replace(RUNNING, aim=BecomeAgain()), []) == WEB
    assert target_of(replace(RUNNING, aim=BecomeEmpty()), []) is None
    assert target_of(replace(RUNNING, aim=BecomeGone()), []) is None
    for ending in (replace(RUNNING, gone=True), replace(RUNNING, empty=True)):
        assert target_of(ending, []) is None


def test_a_workload_owns_all_instances_that_may_have_containers() -> None:
    assert instances_of(replace(RUNNING, aim=WEB2), [Update(None)]) == {(NAME, "podman"), (NAME2, "podman")}
    assert instances_of(RUNNING, [Update(WEB2)]) == {(NAME, "podman"), (NAME2, "podman")}
    assert instances_of(replace(RUNNING, empty=True), []) == set()
