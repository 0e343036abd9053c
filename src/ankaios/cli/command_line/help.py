"""Help texts and usage errors, made from the declared commands. Input: a path of commands. Output: text."""

from collections.abc import Callable, Iterable

from ankaios.cli.command_line.arguments import HELP, Command, CommandPath, Option, UsageError

Paint = Callable[[str, str], str]

MAX_WIDTH = 100
"""Longer lines are difficult to read, also on a wide terminal."""


def usage_line(path: CommandPath) -> str:
    command = path[-1]
    words = [part.name for part in path]
    if any(not option.required for option in command.options):
        words.append("[OPTIONS]")
    words += [option.display for option in command.options if option.required]
    if command.is_group:
        words.append("[COMMAND]" if command.function else "<COMMAND>")
    words += [positional.display for positional in command.positionals]
    return "Usage: " + " ".join(words)


def usage_error_text(error: UsageError, paint: Paint) -> str:
    parts = [f"{paint('error:', 'error')} {error}"]
    if error.tip:
        parts.append(f"  {paint('tip:', 'good')} {error.tip}")
    parts.append(usage_line(error.path))
    parts.append("For more information, try '--help'.")
    return "\n\n".join(parts)


def help_text(path: CommandPath, paint: Paint, width: int = MAX_WIDTH) -> str:
    command, width = path[-1], min(width, MAX_WIDTH)
    parts = [_fitted(command.summary, width), _fitted(usage_line(path), width)]
    parts += _child_sections(command, paint, width)
    if command.positionals:
        rows = [(positional.display, positional.summary) for positional in command.positionals]
        parts.append(_section("Arguments", rows, paint, width))
    parts.append(_section("Options", map(_option_row, (*command.options, HELP)), paint, width))
    if command.details:
        parts.append("\n".join(_detail(line, paint, width) for line in command.details.splitlines()))
    if examples := command.shown_examples:
        title = "Examples:" if len(examples) > 1 else "Example:"
        shown = "\n".join(f"  # {meaning}\n  {typed}" for typed, meaning in examples)
        parts.append(f"{paint(title, 'heading')}\n{shown}")
    return "\n\n".join(parts)


def _child_sections(command: Command, paint: Paint, width: int) -> list[str]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for child in command.children:
        row = (", ".join((child.name, *child.aliases)), child.summary)
        groups.setdefault(child.group or "Commands", []).append(row)
    return [_section(title, rows, paint, width) for title, rows in groups.items()]


def _option_row(option: Option) -> tuple[str, str]:
    has_short_flag = not option.flags[0].startswith("--")
    notes = [f"one of: {', '.join(option.choices)}"] if option.choices else []
    notes += [f"env: {option.env}"] if option.env else []
    summary = option.summary + (f" [{'; '.join(notes)}]" if notes else "")
    return option.spelling if has_short_flag else f"    {option.spelling}", summary


def _section(title: str, rows: Iterable[tuple[str, str]], paint: Paint, width: int) -> str:
    listed = list(rows)
    column = min(max(len(name) for name, _ in listed), 34)
    lines = [paint(f"{title}:", "heading")]
    for name, summary in listed:
        first, *others = wrap(summary, width - column - 4) or [""]
        shown = paint(f"{name:<{column}}", "literal")
        if len(name) > column:
            lines.append(f"  {shown}")
            shown = " " * column
        lines.append(f"  {shown}  {first}".rstrip())
        lines += [" " * (column + 4) + other for other in others]
    return "\n".join(lines)


def _detail(line: str, paint: Paint, width: int) -> str:
    """A text line, or the heading of the indented lines below it."""
    is_heading = line.endswith(":") and not line.startswith(" ")
    return paint(line, "heading") if is_heading else _fitted(line, width)


def _fitted(line: str, width: int) -> str:
    """The line itself if it fits, else several lines with the same indentation."""
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    return "\n".join(indent + part for part in wrap(line, width - len(indent)))


def wrap(text: str, width: int) -> list[str]:
    """Break the text at spaces. A word that is longer than `width` stays whole."""
    from textwrap import wrap as wrap_words

    return wrap_words(text, max(width, 1), break_long_words=False, break_on_hyphens=False)
