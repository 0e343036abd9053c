"""Our dataclass does what the one of the standard library does: each case runs on both."""

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ankaios.common import dataclass as ours

BOTH = pytest.mark.parametrize("library", [ours, dataclasses], ids=["ours", "standard"])


def point(library: ModuleType, **options: bool) -> Any:
    @library.dataclass(**options)
    class Point:
        """Where."""

        x: int
        y: int = 2
        tags: list[str] = library.field(default_factory=list)

        def norm(self) -> int:
            return abs(self.x) + abs(self.y)

    return Point


ALL_OPTIONS = pytest.mark.parametrize(
    "options",
    [{}, {"slots": True}, {"frozen": True}, {"frozen": True, "slots": True}, {"slots": True, "order": True}],
    ids=str,
)


@BOTH
@ALL_OPTIONS
def test_values_come_by_place_by_name_or_by_default(library: ModuleType, options: dict[str, bool]) -> None:
    kind = point(library, **options)
    first, second = kind(1), kind(y=4, x=3, tags=["a"])
    assert (first.x, first.y, first.tags) == (1, 2, [])
    assert (second.x, second.y, second.tags) == (3, 4, ["a"])
    assert second.norm() == 7
    assert kind(1).tags is not first.tags
    assert kind.__doc__ == "Where."
    assert kind.__match_args__ == ("x", "y", "tags")


@BOTH
@ALL_OPTIONS
def test_it_shows_its_fields(library: ModuleType, options: dict[str, bool]) -> None:
    assert repr(point(library, **options)(1)).endswith(".Point(x=1, y=2, tags=[])")


@BOTH
@pytest.mark.parametrize("call", [lambda kind: kind(), lambda kind: kind(1, 2, [], 4), lambda kind: kind(1, z=1)])
def test_wrong_arguments_are_a_type_error_also_the_second_time(library: ModuleType, call: Callable[[Any], Any]) -> None:
    kind = point(library, slots=True)
    for _ in range(2):
        with pytest.raises(TypeError):
            call(kind)


@BOTH
def test_equal_means_same_class_and_same_values(library: ModuleType) -> None:
    kind, other = point(library), point(library)
    assert kind(1) == kind(1)
    assert kind(1) != kind(2)
    assert kind(1) != other(1)
    assert kind(1) != (1, 2, [])


@BOTH
def test_frozen_ones_can_be_keys_and_not_be_changed(library: ModuleType) -> None:
    kind = point(library, frozen=True, slots=True)
    assert {kind(1, tags=()): 1}[kind(1, tags=())] == 1
    with pytest.raises(AttributeError, match="x"):
        kind(1).x = 2
    with pytest.raises(AttributeError, match="x"):
        del kind(1).x


@BOTH
def test_those_that_can_change_are_no_keys(library: ModuleType) -> None:
    instance = point(library, slots=True)(1)
    instance.x = 5
    assert instance.x == 5
    with pytest.raises(TypeError, match="unhashable"):
        hash(instance)


@BOTH
def test_without_eq_identity_counts(library: ModuleType) -> None:
    kind = point(library, slots=True, eq=False)
    instance = kind(1)
    assert instance != kind(1)
    assert {instance: 1}[instance] == 1


@BOTH
def test_order_is_that_of_the_fields(library: ModuleType) -> None:
    kind = point(library, order=True, slots=True)
    assert kind(1, 2) < kind(1, 3) < kind(2, 0)
    assert kind(1) <= kind(1) >= kind(1)
    assert kind(2) > kind(1)
    with pytest.raises(TypeError):
        assert kind(1) < 1


@BOTH
def test_a_copy_with_other_values(library: ModuleType) -> None:
    kind = point(library, frozen=True, slots=True)
    assert library.replace(kind(1), y=7) == kind(1, 7)
    with pytest.raises(TypeError):
        library.replace(kind(1), z=7)


@BOTH
def test_slots_leave_no_room_for_more(library: ModuleType) -> None:
    instance = point(library, slots=True)(1)
    with pytest.raises(AttributeError):
        instance.more = 1


@BOTH
def test_no_fields_at_all(library: ModuleType) -> None:
    @library.dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())


@BOTH
def test_matching_by_place(library: ModuleType) -> None:
    match point(library, slots=True)(1):
        case object(x=1, y=two):
            assert two == 2


def test_names_and_values_of_the_fields() -> None:
    kind = point(ours, frozen=True, slots=True)
    assert ours.field_names(kind) == ("x", "y", "tags")
    assert ours.field_defaults(kind)["y"] == 2
    assert ours.field_defaults(kind).keys() == {"y", "tags"}
    assert ours.as_dict(kind(1)) == {"x": 1, "y": 2, "tags": []}
