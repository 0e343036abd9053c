"""Patterns: the same results as other engines, in bounded time."""

import fnmatch
import re
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ankaios.devices.discovery.udev.patterns import MAX_STEPS, PatternError, compile_glob, compile_regex
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("pattern", "value", "covered"),
    [
        ("video[0-9]*", "video0", True),
        ("video[0-9]*", "video", False),
        ("*", "", True),
        ("*", "/a/b", True),
        ("?", "a", True),
        ("?", "", False),
        ("a*c", "abcbc", True),
        ("[!a]", "b", True),
        ("[^a]", "a", False),
        ("[]a]", "]", True),
        ("[a", "[a", True),
        ("\\*", "*", True),
        ("\\*", "a", False),
        ("[\\d]", "d", True),
        ("[\\d]", "1", False),
        ("a\\", "a\\", True),
        ("[[:digit:]x]", "7", True),
        ("[[:digit:]x]", "a", False),
        ("a|b", "a|b", True),
        ("a|b", "a", False),
        ("", "", True),
        ("", "a", False),
        ("[z-a]", "m", False),
    ],
)
def test_a_glob_matches_like_fnmatch(pattern: str, value: str, covered: bool) -> None:
    assert compile_glob(pattern).covers(value) is covered


@pytest.mark.parametrize(
    ("pattern", "value", "covered"),
    [
        ("uvcvideo", "uvcvideo", True),
        ("uvc", "uvcvideo", False),
        ("uvc.*", "uvcvideo", True),
        ("a|ab", "ab", True),
        ("a|", "", True),
        ("[0-9]{4}", "1234", True),
        ("[0-9]{4}", "123", False),
        ("a{0}b", "b", True),
        ("ab?", "a", True),
        ("ab*?c", "abbbc", True),
        ("a$|b$", "b", True),
        ("\\d\\D\\w\\W\\s\\S", "1aa- x", True),
        ("\\.", ".", True),
        ("\\.", "a", False),
        (".", "\n", False),
        ("[[:xdigit:]]*", "beef", True),
        ("[\\d.]*", "1.2", True),
        ("[a-]*", "-a", True),
        ("[a\\-z]", "-", True),
        ("[^a]", "b", True),
        ("[\\D]", "a", True),
        ("[a||b]", "|", True),
        ("[[:open]", "[", True),
        ("[]a]", "]", True),
        ("[^]a]", "]", False),
        ("}", "}", True),
        ("", "", True),
    ],
)
def test_an_expression_covers_whole_values(pattern: str, value: str, covered: bool) -> None:
    assert compile_regex(pattern).covers(value) is covered


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("*usb", "'.*'"),
        ("a**", "repeat"),
        ("a{2}{3}", "repeat"),
        ("a{x}", "number"),
        ("a{99999}", "number"),
        ("a{2", "number"),
        ("[a", "not closed"),
        ("[z-a]", "bad character range z-a"),
        ("[a-\\d]", "bad character range"),
        ("[[:nothing:]]", "'[:nothing:]'"),
        ("\\b", "'\\b'"),
        ("[\\b]", "'\\b'"),
        ("a\\", "backslash"),
        ("$a", "end of the value"),
        ("(a)", "'('"),
        ("a+", "'+'"),
        ("a{999}b{999}", "shorter"),
        ("a|a{999}b{999}", "shorter"),
    ],
)
def test_an_invalid_expression_is_rejected_with_a_hint(pattern: str, words: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_regex(pattern)
    assert words in str(caught.value)


def test_a_glob_that_is_too_long_is_rejected() -> None:
    with pytest.raises(PatternError, match="shorter"):
        compile_glob("a" * (MAX_STEPS + 1))


@pytest.mark.timeout(20)
def test_a_pattern_with_exponential_backtracking_elsewhere_is_matched() -> None:
    assert not compile_regex(".*" * 500 + "x").covers("a" * 4096)
    assert not compile_regex("a?" * 500 + "a" * 500).covers("a" * 499)
    assert compile_regex("a?" * 500 + "a" * 500).covers("a" * 500)
    assert not compile_glob("*a" * 500).covers("a" * 499)


def test_a_text_of_many_different_characters_is_matched() -> None:
    every = "".join(map(chr, range(32, 1000)))
    assert compile_regex(".*").covers(every)
    assert not compile_regex("[a-z]*").covers(every)
    assert compile_glob("*" + chr(999)).covers(every)


atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\d", "\\.", "[a-c]", "1"])
expressions = st.lists(
    st.lists(st.tuples(atoms, st.sampled_from(["", "", "*", "?", "{2}", "*?", "??"])).map("".join), max_size=6).map(
        "".join
    ),
    min_size=1,
    max_size=3,
).map("|".join)


@given(expressions, st.text("abc1.", max_size=8))
@examples(150)
def test_expressions_agree_with_pythons_engine(pattern: str, value: str) -> None:
    assert compile_regex(pattern).covers(value) == (re.fullmatch(pattern, value) is not None)


globs = st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "[a-c]", "[", "]", "/"]), max_size=8).map("".join)


@example("[]", "[]")
@example("[!]", "[!]")
@example("[]a]", "]")
@given(globs, st.text("abc/[]", max_size=8))
@examples(150)
def test_globs_agree_with_pythons_engine(pattern: str, value: str) -> None:
    assert compile_glob(pattern).covers(value) == fnmatch.fnmatchcase(value, pattern)


@given(st.text("ab01 $._*:?[]-|\\/%{}(+^", max_size=30), st.text(max_size=20))
@examples(150)
def test_any_text_is_a_pattern_or_rejected(pattern: str, value: str) -> None:
    for make in (compile_glob, compile_regex):
        with suppress(PatternError):
            make(pattern).covers(value)
