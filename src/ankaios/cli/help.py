"""Help and usage texts, made from the declarations of the commands. Comes in: a path of commands. Goes out: text."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ankaios.cli.arguments import HELP, Command, Option, UsageError

Paint = Callable[[str, str], str]

WIDTH = 100  # also where there is room for more: lines get too long to read


def usage_line(path: tuple[Command, ...]) -> str:
    command = path[-1]
    words = [part.name for part in path]
    if any(not option.required for option in command.options):
        words.append("[OPTIONS]")
    words += [option.display for option in command.options if option.required]
    if command.is_group:
        words.append("<COMMAND>")
    words += [positional.display for positional in command.positionals]
    return "Usage: " + " ".join(words)


def usage_error_text(fault: UsageError, paint: Paint) -> str:
    """In the form that people know from other command lines: what is wrong, a tip, the usage, where to read more."""
    parts = [f"{paint('error:', 'error')} {fault}"]
    if fault.tip:
        parts.append(f"  {paint('tip:', 'good')} {fault.tip}")
    parts.append(usage_line(fault.path))
    parts.append("For more information, try '--help'.")
    return "\n\n".join(parts)


def help_text(path: tuple[Command, ...], paint: Paint, width: int = WIDTH) -> str:
    command, width = path[-1], min(width, WIDTH)
    parts = [_fitted(command.summary, width), _fitted(usage_line(path), width)]
    parts += _groups(command, paint, width)
    if command.positionals:
        rows = [(positional.display, positional.summary) for positional in command.positionals]
        parts.append(_section("Arguments", rows, paint, width))
    parts.append(_section("Options", [_option_row(option) for option in (*command.options, HELP)], paint, width))
    if command.details:
        parts.append("\n".join(_detail(line, paint, width) for line in command.details.splitlines()))
    if command.examples:
        title = "Examples:" if len(command.examples) > 1 else "Example:"
        shown = "\n".join(f"  # {meaning}\n  {typed}" for typed, meaning in command.examples)
        parts.append(f"{paint(title, 'heading')}\n{shown}")
    return "\n\n".join(parts)


def _detail(line: str, paint: Paint, width: int) -> str:
    """Text, or the heading of what is indented below it."""
    is_heading = line.endswith(":") and not line.startswith(" ")
    return paint(line, "heading") if is_heading else _fitted(line, width)


def _groups(command: Command, paint: Paint, width: int) -> list[str]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for child in command.children():
        groups.setdefault(child.group or "Commands", []).append(
            (", ".join((child.name, *child.aliases)), child.summary)
        )
    return [_section(title, rows, paint, width) for title, rows in groups.items()]


def _option_row(option: Option) -> tuple[str, str]:
    short = f"-{option.short}" if option.short else ""
    long = f"--{option.long}" if option.long else ""
    spelled = f"{short}, {long}" if short and long else (short or f"    {long}")
    if option.value:
        spelled += f" <{option.value}>"
    notes = []
    if option.choices:
        notes.append(f"one of: {', '.join(option.choices)}")
    if option.env:
        notes.append(f"env: {option.env}")
    summary = option.summary + (f" [{'; '.join(notes)}]" if notes else "")
    return spelled, summary


def _section(title: str, rows: Iterable[tuple[str, str]], paint: Paint, width: int) -> str:
    listed = list(rows)
    left = min(max(len(name) for name, _ in listed), 34) + 4
    lines = [paint(f"{title}:", "heading")]
    for name, summary in listed:
        first, *others = wrap(summary, width - left) or [""]
        shown = paint(f"{name:<{left - 4}}", "literal")
        if len(name) > left - 4:
            lines.append(f"  {shown}")
            shown = " " * (left - 4)
        lines.append(f"  {shown}  {first}".rstrip())
        lines += [" " * left + other for other in others]
    return "\n".join(lines)


def _fitted(line: str, width: int) -> str:
    """As it is if there is room; else in several lines that keep its indentation."""
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    return "\n".join(indent + part for part in wrap(line, width - len(indent)))


def wrap(text: str, width: int) -> list[str]:
    """At blanks; a word that is too long stays whole."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines
