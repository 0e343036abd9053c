"""Every declared command can be run, explained and completed."""

from collections.abc import Iterator
from importlib import import_module
from inspect import signature

import pytest

from ankaios.cli.arguments import Command
from ankaios.cli.commands import COMMAND_MODULES, load_command
from ankaios.cli.completion_values import _FIXED, _MASKS
from ankaios.cli.help import help_text, usage_line
from ankaios.cli.root import RootCommand, milliseconds

Path = tuple[Command, ...]


def walk(path: Path) -> Iterator[Path]:
    yield path
    for child in path[-1].children():
        yield from walk((*path, child))


PATHS = list(walk((RootCommand(),)))
IDS = [" ".join(command.name for command in path) for path in PATHS]


def plain(text: str, style: str) -> str:
    return text


@pytest.mark.parametrize("path", PATHS, ids=IDS)
def test_a_command_has_either_children_or_something_to_run(path: Path) -> None:
    command = path[-1]
    assert command.is_group != bool(command.run)
    if command.run:
        module, _, name = command.run.partition(":")
        assert len(signature(getattr(import_module(module), name)).parameters) == 1


@pytest.mark.parametrize("path", PATHS, ids=IDS)
def test_every_help_has_usage_options_and_an_example(path: Path) -> None:
    text = help_text(path, plain)
    assert usage_line(path) in " ".join(text.split())
    assert "Example" in text and "-h, --help" in text
    for typed, _ in path[-1].examples:
        assert "ank" in typed


@pytest.mark.parametrize("path", PATHS, ids=IDS)
def test_every_kind_of_completion_is_known(path: Path) -> None:
    kinds = {option.complete for option in path[-1].options} | {p.complete for p in path[-1].positionals}
    assert kinds <= {"", "files", *_FIXED, *_MASKS}


@pytest.mark.parametrize("width", [80, 100, 65535])
def test_help_fits_into_the_window_and_is_never_too_wide_to_read(width: int) -> None:
    for path in PATHS:
        text = help_text(path, plain, width)
        assert [line for line in text.splitlines() if len(line) > min(width, 100)] == []


def test_the_main_help_groups_the_commands_and_names_the_exit_codes() -> None:
    text = help_text((RootCommand(),), plain)
    assert text.index("Look at the cluster:") < text.index("Change the cluster:") < text.index("Tools:")
    assert "Exit codes:" in text


def test_names_of_modules_and_commands_agree() -> None:
    assert [load_command(name).name for name in COMMAND_MODULES] == list(COMMAND_MODULES)


@pytest.mark.parametrize("text", ["", "-1", "x", "1.5", "9" * 30])
def test_milliseconds_are_whole_and_not_negative(text: str) -> None:
    with pytest.raises(ValueError, match=r"digit|empty|large"):
        milliseconds(text)
    assert milliseconds("3000") == 3000
