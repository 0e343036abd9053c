"""The parser returns values or a usage error for any words."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.cli.command_line.arguments import Command, HelpRequested, Option, Positional, UsageError, VersionRequested
from ankaios.cli.command_line.parser import parse_command_line
from ankaios.cli.tree.ank import ANK


def a_tree() -> Command:
    copy = Command(
        "copy",
        "Copies",
        "x:y",
        aliases=("cp",),
        options=(
            Option("-f, --force", ""),
            Option("-n, --names", ""),
            Option("-t, --tail <N>", "", convert=int, default=-1, negative=True),
            Option("--tags <TAG>", "", repeat=True),
            Option("-o <FORM>", "", key="form", choices=("a", "b")),
        ),
        positionals=(Positional("sources", "<SOURCES>...", ""), Positional("target", "<TARGET>", "", convert=no_blank)),
    )
    return Command(
        "prog",
        "A program",
        options=(Option("-q, --quiet", ""), Option("-V, --version", "")),
        children=(copy, Command("group", "", children=(Command("leaf", "", "x:y"),))),
    )


def no_blank(text: str) -> str:
    if " " in text:
        raise ValueError("it has a blank")
    return text


def values(*words: str) -> dict[str, Any]:
    return parse_command_line(a_tree(), ["copy", *words]).values


def test_options_may_be_between_the_words_and_in_groups() -> None:
    found = values("a", "-fn", "b", "-t5", "c")
    assert found["sources"] == ["a", "b"]
    assert found["target"] == "c"
    assert (found["force"], found["names"], found["tail"]) == (True, True, 5)


@pytest.mark.parametrize("words", [("-t", "7"), ("-t7",), ("-t=7",), ("--tail", "7"), ("--tail=7",)])
def test_a_value_may_be_attached_or_follow(words: tuple[str, ...]) -> None:
    assert values("a", "b", *words)["tail"] == 7


def test_negative_numbers_are_values_where_they_make_sense() -> None:
    assert values("a", "b", "-t", "-1")["tail"] == -1


def test_an_option_that_is_not_given_has_its_default() -> None:
    assert values("a", "b") == {
        "sources": ["a"],
        "target": "b",
        "force": None,
        "names": None,
        "tail": -1,
        "tags": [],
        "form": None,
    }


def test_after_two_dashes_everything_is_positional_and_one_dash_always_is() -> None:
    assert values("--", "-f", "--x")["sources"] == ["-f"]
    assert values("-", "b")["sources"] == ["-"]


def test_repeatable_options_collect_and_aliases_are_the_same_command() -> None:
    call = parse_command_line(a_tree(), ["-q", "cp", "--tags", "a", "--tags=b", "x", "y"])
    assert call.values["tags"] == ["a", "b"]
    assert call.global_values["quiet"] is True
    assert call.path[-1].name == "copy"


@pytest.mark.parametrize(
    ("words", "message", "tip"),
    [
        (["kopy"], "unrecognized subcommand 'kopy'", "a similar subcommand exists: 'copy'"),
        (["copy", "a", "b", "--farce"], "unexpected argument '--farce' found", "a similar argument exists: '--force'"),
        (["copy", "a", "b", "-z"], "unexpected argument '-z' found", ""),
        (["copy", "a", "b", "-q"], "unexpected argument '-q' found", "'-q' is a global option: write it before 'copy'"),
        (["copy", "a", "b", "-f", "-f"], "the argument '--force' cannot be used multiple times", ""),
        (["copy", "a", "b", "--force=x"], "unexpected value 'x' for '--force' found", ""),
        (["copy", "a", "b", "--tail"], "a value is required for '--tail <N>' but none was supplied", ""),
        (["copy", "a", "b", "--tags", "-f"], "a value is required for '--tags <TAG>' but none was supplied", ""),
        (["copy", "a", "b", "-o", "c"], "invalid value 'c' for '-o <FORM>'\n  [possible values: a, b]", ""),
        (["copy", "-f"], "the following required arguments were not provided:\n  <SOURCES>...\n  <TARGET>", ""),
        (["copy", "a"], "the following required arguments were not provided:\n  <TARGET>", ""),
        (["copy", "a", "b c"], "invalid value 'b c' for '<TARGET>': it has a blank", ""),
        (["group", "leaf", "x"], "unexpected argument 'x' found", ""),
        (["group", "help", "lef"], "unrecognized subcommand 'lef'", "a similar subcommand exists: 'leaf'"),
    ],
)
def test_mistakes_are_reported_with_a_tip(words: list[str], message: str, tip: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_command_line(a_tree(), words)
    assert (str(caught.value), caught.value.tip) == (message, tip)


def test_a_value_that_cannot_be_converted_is_reported_with_the_reason() -> None:
    with pytest.raises(UsageError, match="invalid value 'x' for '--tail <N>': invalid literal"):
        values("a", "b", "--tail", "x")


@pytest.mark.parametrize("words", [[], ["group"], ["-q"]])
def test_a_group_without_sub_command_prints_its_help(words: list[str]) -> None:
    with pytest.raises(HelpRequested) as caught:
        parse_command_line(a_tree(), words)
    assert caught.value.missing


def test_help_and_version_are_recognised_before_missing_arguments() -> None:
    for words in (["copy", "--help"], ["copy", "-fh"], ["help", "copy"]):
        with pytest.raises(HelpRequested) as caught:
            parse_command_line(a_tree(), words)
        assert not caught.value.missing
        assert caught.value.path[-1].name == "copy"
    with pytest.raises(VersionRequested):
        parse_command_line(a_tree(), ["--version"])


def test_every_group_has_a_help_sub_command() -> None:
    for words, name in ((["group", "help"], "group"), (["group", "help", "leaf"], "leaf"), (["help"], "prog")):
        with pytest.raises(HelpRequested) as caught:
            parse_command_line(a_tree(), words)
        assert not caught.value.missing
        assert caught.value.path[-1].name == name


@given(
    st.lists(st.sampled_from(["get", "state", "-o", "json", "--", "-k", "-s", "x", "workloads", "-w", "--agent", "="]))
)
def test_any_words_are_parsed_or_rejected(words: list[str]) -> None:
    with suppress(UsageError, HelpRequested, VersionRequested):
        parse_command_line(ANK, words)
