"""Details of a configuration: typed values, or a refusal that helps."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.devices.discovery.base import InvalidDetails
from ankaios.devices.discovery.details import MAX_DETAILS, FilterList, read_details


def refusal(text: str, key: str, kind: str) -> str:
    details = read_details("someHandler", text)
    with pytest.raises(InvalidDetails) as caught:
        match kind:
            case "strings":
                details.strings(key)
            case "flag":
                details.flag(key)
            case "number":
                details.number(key, 1, 60, 1)
            case "choice":
                details.choice(key, ("r", "w"), "r")
            case "filter":
                details.filter_list(key)
            case _:
                details.child(key)
    return str(caught.value)


def test_values_are_read_and_unknown_keys_are_ignored() -> None:
    details = read_details("h", "names: [a, 'b']\nflag: true\nseconds: 5\nmode: w\nother: 1\n")
    assert details.strings("names") == ("a", "b")
    assert details.flag("flag") is True
    assert details.number("seconds", 1, 60, 1) == 5
    assert details.choice("mode", ("r", "w"), "r") == "w"


def test_an_empty_text_leaves_all_defaults() -> None:
    details = read_details("h", "")
    assert details.strings("names", ("x",)) == ("x",)
    assert details.flag("flag") is False
    assert details.number("seconds", 1, 60, 7) == 7
    assert details.choice("mode", ("r", "w"), "r") == "r"
    assert details.filter_list("filter") is None
    assert "names" not in details


def test_a_filter_list_includes_unless_it_says_otherwise() -> None:
    details = read_details("h", "a: {items: [x]}\nb: {items: [], action: Exclude}\n")
    assert details.filter_list("a") == FilterList(("x",), include=True)
    assert details.filter_list("b") == FilterList((), include=False)


@pytest.mark.parametrize(
    ("text", "key", "kind", "words"),
    [
        ("", "names", "strings", ("'names'", "missing", "someHandler")),
        ("names: text", "names", "strings", ("list of texts",)),
        ("names: [1]", "names", "strings", ("quotes",)),
        ("flag: 'yes'", "flag", "flag", ("true or false", "'yes'")),
        ("n: 0", "n", "number", ("from 1 to 60", "0")),
        ("n: true", "n", "number", ("whole number",)),
        ("n: 1.5", "n", "number", ("whole number",)),
        ("m: x", "m", "choice", ("one of r, w", "'x'")),
        ("m: [r]", "m", "choice", ("one of r, w",)),
        ("f: [x]", "f", "filter", ("'f'", "mapping")),
        ("f: {}", "f", "filter", ("'f.items'", "missing")),
        ("f: {items: [x], action: Drop}", "f", "filter", ("'f.action'", "Include, Exclude")),
        ("", "c", "child", ("'c'", "missing")),
    ],
)
def test_a_refusal_says_what_is_wrong_and_where(text: str, key: str, kind: str, words: tuple[str, ...]) -> None:
    told = refusal(text, key, kind)
    assert all(word in told for word in words), told


@pytest.mark.parametrize(
    "text", ["a: {b", "- a list", "just text", "? [1]\n: 2", "a: 1\na: 2", "x" * (MAX_DETAILS + 1)]
)
def test_details_that_are_no_mapping_are_refused(text: str) -> None:
    with pytest.raises(InvalidDetails, match="handler 'h'"):
        read_details("h", text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidDetails):
        read_details("h", text).strings("a", ())


@pytest.mark.parametrize(
    ("wanted", "value", "kept"),
    [
        (FilterList(("a",)), "a", True),
        (FilterList(("a",)), "b", False),
        (FilterList(()), "a", False),
        (FilterList(()), None, False),
        (FilterList(("a",)), None, False),
        (FilterList(("a",), include=False), "a", False),
        (FilterList(("a",), include=False), "b", True),
        (FilterList(("a",), include=False), None, False),
        (FilterList((), include=False), "a", True),
        (FilterList((), include=False), None, True),
    ],
)
def test_a_filter_keeps_what_its_items_and_action_say(wanted: FilterList, value: str | None, kept: bool) -> None:
    assert wanted.keeps(None if value is None else lambda item: item == value) is kept
