"""The page about `ank`: all commands as they are declared, with usage, options and examples."""

from collections.abc import Iterable, Iterator

from ankaios.cli.command_line.arguments import Command, CommandPath, Option
from ankaios.cli.command_line.help import usage_line
from ankaios.cli.tree.ank import ANK
from tools.reference.markdown import code, fence, heading, link, page_of, plain, sentence, table


def page() -> str:
    root: CommandPath = (ANK,)
    return page_of(
        "Command line",
        "the declarations of the commands in src/ankaios/cli/tree",
        root[0].summary,
        _contents(root[0]),
        heading(2, "Global options", "global-options"),
        "They stand before the command: `ank -k get workloads`. Most of them can also be set in the "
        "[config file](config-files.md#ank).",
        _options(root[0].options),
        heading(2, "Exit codes, completion", "more"),
        fence("text", root[0].details),
        "More about [exit codes](exit-codes.md).",
        *_commands(root),
    )


def _contents(root: Command) -> str:
    groups: dict[str, list[Command]] = {}
    for command in root.children:
        groups.setdefault(command.group, []).append(command)
    rows = []
    for group, commands in groups.items():
        rows.append((f"**{group}**", ""))
        rows += [(link(f"`ank {command.name}`", _anchor((root, command))), command.summary) for command in commands]
    return table(("command", "what it does"), rows)


def _anchor(path: CommandPath) -> str:
    return "-".join(command.name for command in path)


def _commands(path: CommandPath) -> Iterator[str]:
    for child in path[-1].children:
        below = (*path, child)
        yield heading(len(below), f"`{' '.join(command.name for command in below)}`", _anchor(below))
        yield from _command(below)
        yield from _commands(below)


def _command(path: CommandPath) -> Iterator[str]:
    command = path[-1]
    aliases = f" Also: {', '.join(code(alias) for alias in command.aliases)}." if command.aliases else ""
    yield sentence(command.summary) + aliases
    yield fence("text", usage_line(path).removeprefix("Usage: "))
    if command.positionals:
        yield table(
            ("argument", "meaning"), [(code(one.display), sentence(plain(one.summary))) for one in command.positionals]
        )
    if command.options:
        yield _options(command.options)
    if command.details:
        yield plain(command.details)
    if command.shown_examples:
        yield fence("sh", "\n\n".join(f"# {meaning}\n{typed}" for typed, meaning in command.shown_examples))


def _options(options: Iterable[Option]) -> str:
    rows = [(code(option.spelling), _summary(option), code(option.env)) for option in options]
    if any(row[2] for row in rows):
        return table(("option", "meaning", "environment"), rows)
    return table(("option", "meaning"), [row[:2] for row in rows])


def _summary(option: Option) -> str:
    notes = [plain(option.summary)]
    if option.choices:
        notes.append(f"One of {', '.join(map(code, option.choices))}")
    if option.required:
        notes.append("Required")
    return " ".join(sentence(note) for note in notes)
