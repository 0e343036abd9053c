"""Every declared command can be run, explained and completed."""

from collections.abc import Iterator
from importlib import import_module
from inspect import signature

import pytest

from ankaios.cli.command_line.arguments import CommandPath, function_of
from ankaios.cli.command_line.completion_values import FIXED, NAMES
from ankaios.cli.command_line.help import help_text, usage_line
from ankaios.cli.tree.ank import ANK


def walk(path: CommandPath) -> Iterator[CommandPath]:
    yield path
    for child in path[-1].children:
        yield from walk((*path, child))


PATHS = list(walk((ANK,)))
IDS = [" ".join(command.name for command in path) for path in PATHS]


def plain(text: str, style: str) -> str:
    return text


@pytest.mark.parametrize("path", PATHS, ids=IDS)
def test_a_command_has_children_or_a_function(path: CommandPath) -> None:
    command = path[-1]
    if command.function or not command.is_group:
        module, _, name = function_of(path).partition(":")
        function = getattr(import_module(f"ankaios.cli.commands.{module}"), name)
        assert len(signature(function).parameters) == 1


@pytest.mark.parametrize("path", PATHS, ids=IDS)
def test_every_help_has_usage_options_and_an_example(path: CommandPath) -> None:
    text = help_text(path, plain)
    assert usage_line(path) in " ".join(text.split())
    assert "Example" in text and "-h, --help" in text
    for typed, _ in path[-1].examples:
        assert "ank" in typed


@pytest.mark.parametrize("path", PATHS, ids=IDS)
def test_every_kind_of_completion_is_known(path: CommandPath) -> None:
    kinds = {option.complete for option in path[-1].options} | {p.complete for p in path[-1].positionals}
    assert kinds <= {"", "files", "revisions", "masks", *FIXED, *NAMES}


@pytest.mark.parametrize("width", [80, 100, 65535])
def test_help_fits_into_the_window_and_is_never_wider_than_100_columns(width: int) -> None:
    for path in PATHS:
        text = help_text(path, plain, width)
        assert [line for line in text.splitlines() if len(line) > min(width, 100)] == []


def test_the_main_help_groups_the_commands_and_names_the_exit_codes() -> None:
    text = help_text((ANK,), plain)
    assert text.index("Look at the cluster:") < text.index("Change the cluster:") < text.index("Tools:")
    assert "Exit codes:" in text
