"""Details of a configuration: typed values, or an error with the reason and the position."""

from contextlib import suppress
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from ankaios.devices.discovery.base import InvalidDetails
from ankaios.devices.discovery.details import MAX_DETAILS, FilterList, read_details


class Content(Struct):
    names: tuple[str, ...] = ("x",)
    flag: bool = False
    seconds: Annotated[int, Meta(ge=1, le=60)] = 7
    mode: Literal["r", "w"] = "r"
    filter: FilterList | None = None


class Required(Struct):
    names: tuple[str, ...]


def test_values_are_read_and_unknown_keys_are_ignored() -> None:
    details = read_details("h", "names: [a, 'b']\nflag: true\nseconds: 5\nmode: w\nother: 1\n", Content)
    assert details == Content(("a", "b"), True, 5, "w")


@pytest.mark.parametrize("text", ["", "names:\nflag: null\nfilter: ~\n"])
def test_an_empty_text_and_null_values_leave_all_defaults(text: str) -> None:
    assert read_details("h", text, Content) == Content()


def test_a_filter_list_includes_unless_another_action_is_given() -> None:
    assert read_details("h", "filter: {items: [x]}", Content).filter == FilterList(("x",), "Include")
    assert read_details("h", "filter: {items: [], action: Exclude}", Content).filter == FilterList((), "Exclude")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("missing required field `names`", "someHandler")),
        ("names: text", ("Expected `array`", "$.names")),
        ("names: [1]", ("Expected `str`, got `int`", "$.names[0]")),
    ],
)
def test_a_required_value_is_present_and_of_its_type(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidDetails) as caught:
        read_details("someHandler", text, Required)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("flag: 'yes'", ("Expected `bool`", "$.flag")),
        ("seconds: 0", ("Expected `int` >= 1", "$.seconds")),
        ("seconds: true", ("Expected `int`", "$.seconds")),
        ("seconds: 1.5", ("Expected `int`", "$.seconds")),
        ("mode: x", ("Invalid enum value 'x'", "$.mode")),
        ("mode: [r]", ("Expected `str`", "$.mode")),
        ("filter: [x]", ("Expected `object", "$.filter")),
        ("filter: {}", ("missing required field `items`", "$.filter")),
        ("filter: {items: [x], action: Drop}", ("'Drop'", "$.filter.action")),
    ],
)
def test_an_error_contains_the_reason_and_the_position(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidDetails) as caught:
        read_details("someHandler", text, Content)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    "text", ["a: {b", "- a list", "just text", "? [1]\n: 2", "a: 1\na: 2", "x" * (MAX_DETAILS + 1)]
)
def test_details_that_are_not_a_mapping_are_rejected(text: str) -> None:
    with pytest.raises(InvalidDetails, match="handler 'h'"):
        read_details("h", text, Content)


@given(st.text())
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with suppress(InvalidDetails):
        read_details("h", text, Content)


@pytest.mark.parametrize(
    ("wanted", "value", "kept"),
    [
        (FilterList(("a",)), "a", True),
        (FilterList(("a",)), "b", False),
        (FilterList(()), "a", False),
        (FilterList(()), None, False),
        (FilterList(("a",)), None, False),
        (FilterList(("a",), "Exclude"), "a", False),
        (FilterList(("a",), "Exclude"), "b", True),
        (FilterList(("a",), "Exclude"), None, False),
        (FilterList((), "Exclude"), "a", True),
        (FilterList((), "Exclude"), None, True),
    ],
)
def test_a_filter_keeps_values_according_to_its_items_and_action(
    wanted: FilterList, value: str | None, kept: bool
) -> None:
    assert wanted.keeps(None if value is None else lambda item: item == value) is kept
