"""Pieces of Markdown as the site builds them: tables, code, anchors. Input and output are texts."""

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(?<!\w)'([^']+)'(?!\w)|`([^`]+)`|(\{\{[^}]+\}\})")
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def page_of(title: str, made_from: str, *parts: str) -> str:
    note = f"<!-- Made by tools/reference_docs.py from {made_from}. Changes belong there. -->"
    return "\n\n".join((f"# {title}", note, *(part.strip("\n") for part in parts if part))) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def plain(text: str) -> str:
    """Text from the code as Markdown: quoted words and templates are code, nothing else is special."""
    shown, at = "", 0
    for found in _CODE.finditer(text):
        shown += _harmless(text[at : found.start()]) + code(next(filter(None, found.groups())))
        at = found.end()
    return shown + _harmless(text[at:])


def _harmless(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def fence(language: str, text: str) -> str:
    return f"```{language}\n{text.strip(chr(10))}\n```"


def heading(level: int, text: str, anchor: str = "") -> str:
    return f"{'#' * level} {text}" + (f" {{#{anchor}}}" if anchor else "")


def link(text: str, anchor: str) -> str:
    return f"[{text}](#{anchor})"


def words(name: str) -> str:
    """`deviceConfiguration` -> `device configuration`."""
    return _CAPITAL.sub(" ", name).lower()


def sentence(text: str) -> str:
    """As a complete sentence."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if not text or text[-1] in ".!?" else ".")
