"""White space around tags: `~` removes all of it, and a tag alone on its line removes the line.

Owns the texts of a template between the tags, from reading them (with `\\{{` escapes) to trimming them.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

# White space as defined by Unicode; str.strip() without arguments would also remove the separators \x1c to \x1f.
_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005"
    "\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_REST_OF_LINE: Final = re.compile(r"[ \t]*+\r?\n|\Z")


class Trim(Enum):
    """The part that is removed from the text after a tag."""

    NOTHING = 0
    LINE = 1
    ALL = 2


def line_of_tag(text: str, start: int, end: int) -> tuple[str, bool]:
    """Return the blanks directly before a tag, and whether the tag is alone on its line.

    Such a line contains only blanks besides the tag, and is removed with the tag.
    [impl->swdd~config-renderer-supports-rendering-with-keeping-line-indent~1]
    """
    before = start
    while before > 0 and text[before - 1] in " \t":
        before -= 1
    starts_line = before == 0 or text[before - 1] == "\n"
    return text[before:start], starts_line and _REST_OF_LINE.match(text, end) is not None


def trim_start(text: str, trim: Trim) -> str:
    """Remove the white space at the beginning of a text that belongs to the tag before it."""
    if trim is Trim.ALL:
        return text.lstrip(_WHITE_SPACE)
    if trim is Trim.LINE:  # only blanks before the line break, because the tag is alone on its line
        return text[text.find("\n") + 1 :]
    return text


def trim_end(text: str, *, everything: bool) -> str:
    """Remove the white space at the end of a text that belongs to the tag after it."""
    return text.rstrip(_WHITE_SPACE) if everything else text.rstrip(" \t")


def find_tag(text: str, start: int, opening: str = "{{") -> tuple[str, int]:
    """Read the text up to the next tag that is not escaped; without one, up to the end.

    One backslash turns the braces into text and is removed. Of several backslashes one is removed, and the tag is used.
    """
    parts: list[str] = []
    found = text.find("{{", start)
    while found >= 0:
        before = text[start:found]
        bare = before.rstrip("\\")
        slashes = len(before) - len(bare)
        if slashes == 1:
            length = 4 if text.startswith("{{{{", found) else 2
            parts.append(bare + "{" * length)
            start = found + length
        elif text.startswith(opening, found):
            parts.append(before[:-1] if slashes else before)
            return "".join(parts), found
        else:
            parts.append((before[:-1] if slashes else before) + "{{")
            start = found + 2
        found = text.find("{{", start)
    return "".join(parts) + text[start:], len(text)
