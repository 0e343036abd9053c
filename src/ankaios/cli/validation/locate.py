"""Where the keys and items of a YAML text stand: a text comes in, lines by path go out.

The YAML library of the product tells values, not places, and the usual one that tells places would be one more thing
to install and takes four times as long as this. What is wanted is less than YAML, though: the text was found valid
before, so this only follows its structure (block and flow style, quotes, literal blocks, comments) and skips the rest.
If it should ever be wrong, a finding has the line of something near; nothing else depends on it. It never fails,
whatever the text is.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

Path = tuple[str, ...]

_MAX_DEPTH = 130  # of the YAML parser, which refuses more
_KEY_END = re.compile(r":(?=[ \t\n]|\Z)")
_COMMENT = re.compile(r"[ \t]#")
_BLANK = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:#[^\n]*\Z)?")
_PROPERTIES = re.compile(r"(?:[&!][^\s]*(?:[ \t]+|(?=\n|\Z))){1,2}")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^']|'')*'?", re.DOTALL)
_FLOW_PLAIN = re.compile(r"(?:[^,\[\]{}:#\n]|:(?![\s,\[\]{}]|\Z)|(?<!\s)#)+")
_FLOW_SPACE = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_ENTRY = re.compile(r"[-?](?=[ \t\n]|\Z)")
_DOCUMENT_START = re.compile(r"(?:[ \t]*(?:[#%][^\n]*)?\n)*---(?=[ \t\n]|\Z)")
_DOCUMENT_END = re.compile(r"(?:---|\.\.\.)(?=[ \t\n]|\Z)")
_BLOCK_HEADER = re.compile(r"[|>][-+]?(\d?)[-+]?[^\n]*(?:\n|\Z)")


class Duplicate(NamedTuple):
    """A key that stands in its mapping a second time."""

    path: Path
    line: int
    first_line: int


class Places:
    """What was found. Lines count from 1."""

    def __init__(self) -> None:
        self._lines: dict[Path, int] = {}
        self._texts: dict[Path, int] = {}
        self.duplicates: list[Duplicate] = []

    def line(self, path: Sequence[str]) -> int:
        """The line of the key or item, or of the nearest thing around it."""
        key = tuple(path)
        while key and key not in self._lines:
            key = key[:-1]
        return self._lines.get(key, 1)

    def text_line(self, path: Sequence[str]) -> int | None:
        """Where the first line of a literal block stands; None if its lines are not those of the file."""
        return self._texts.get(tuple(path))

    def put(self, path: Path, line: int) -> None:
        if path in self._lines:
            self.duplicates.append(Duplicate(path, line, self._lines[path]))
        else:
            self._lines[path] = line

    def put_text(self, path: Path, line: int) -> None:
        self._texts.setdefault(path, line)


def locate(text: str) -> Places:
    scanner = _Scanner(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    scanner.document()
    return scanner.places


class _Scanner:
    """Stands at one position of the text and only ever moves forward."""

    def __init__(self, text: str) -> None:
        self.places = Places()
        self._text = text
        self._at = 0
        self._line = 1
        self._line_start = 0

    # --- moving -------------------------------------------------------------------------------------------------------

    def _move(self, to: int) -> None:
        newlines = self._text.count("\n", self._at, to)
        if newlines:
            self._line += newlines
            self._line_start = self._text.rfind("\n", self._at, to) + 1
        self._at = to

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if not found:
            return ""
        self._move(found.end())
        return found[0]

    @property
    def _column(self) -> int:
        return self._at - self._line_start

    @property
    def _char(self) -> str:
        return self._text[self._at : self._at + 1]

    def _at_end(self) -> bool:
        return self._at >= len(self._text) or (self._column == 0 and bool(_DOCUMENT_END.match(self._text, self._at)))

    def _rest_of_line(self) -> str:
        end = self._text.find("\n", self._at)
        return self._text[self._at : end if end >= 0 else len(self._text)]

    def _skip_line(self) -> None:
        end = self._text.find("\n", self._at)
        self._move(end + 1 if end >= 0 else len(self._text))

    # --- block style --------------------------------------------------------------------------------------------------

    def document(self) -> None:
        self._skip(_DOCUMENT_START)
        self._block_node(0, -1, ())

    def _block_node(self, least: int, entries_at: int, path: Path) -> None:
        """A value in block style, indented by `least` at least; a list may begin at the column `entries_at`."""
        self._skip(_BLANK)
        # Before a key, anchors and tags belong to the key and the mapping begins with them.
        for _ in ("anchor", "tag"):
            if self._char in ("&", "!") and self._key_here() is None and self._skip(_PROPERTIES):
                self._skip(_BLANK)
        column, is_entry = self._column, bool(_ENTRY.match(self._text, self._at))
        inside = column >= least or (is_entry and self._char == "-" and column == entries_at)
        if self._at_end() or not inside:
            return
        if len(path) > _MAX_DEPTH:
            self._move(len(self._text))
        elif self._char in "|>":
            self._block_text(least - 1, path)
        elif is_entry and self._char == "-":
            self._sequence(column, path)
        elif is_entry or self._key_here() is not None:
            self._mapping(column, path)
        elif self._char in ("{", "["):
            self._flow_node(path)
        else:
            self._scalar(least)

    def _block_text(self, parent: int, path: Path) -> None:
        """Its first line with content says how far it is indented, unless the header does."""
        is_literal = self._char == "|"
        header = _BLOCK_HEADER.match(self._text, self._at)
        least = max(parent, 0) + int(header[1]) if header and header[1] else None
        self._skip_line()
        if is_literal:
            self.places.put_text(path, self._line)
        while self._at < len(self._text):
            content = self._rest_of_line()
            indent = len(content) - len(content.lstrip(" "))
            if content.strip(" "):
                least = max(indent, parent + 1) if least is None else least
                if indent < least or self._at_end():
                    return
            self._skip_line()

    def _sequence(self, column: int, path: Path) -> None:
        index = 0
        while self._column == column and not self._at_end() and _ENTRY.match(self._text, self._at):
            line = self._line
            self._move(self._at + 1)
            self._skip(_BLANK)
            item = (*path, str(index))
            self.places.put(item, self._line if self._column > column else line)
            self._block_node(column + 1, -1, item)
            index += 1
            self._skip(_BLANK)

    def _mapping(self, column: int, path: Path) -> None:
        while self._column == column and not self._at_end():
            if self._char == "?" and _ENTRY.match(self._text, self._at):
                name = self._explicit_key(column, path)
            elif key := self._key_here():
                name, end = key
                self.places.put((*path, name), self._line)
                self._move(end)
            else:
                return
            self._block_node(column + 1, column, (*path, name))
            self._skip(_BLANK)

    def _explicit_key(self, column: int, path: Path) -> str:
        """`? key`, and its value after `:` on a line of its own."""
        self._move(self._at + 1)
        self._skip(_BLANK)
        line, start = self._line, self._at
        self._scalar(column + 1)
        name = _unquoted(self._text[start : self._at].strip())
        self.places.put((*path, name), line)
        self._skip(_BLANK)
        if self._char == ":" and self._column == column:
            self._move(self._at + 1)
        return name

    def _key_here(self) -> tuple[str, int] | None:
        """The key that begins here and where its value begins; None if this is no key."""
        prefix = _PROPERTIES.match(self._text, self._at)
        at = prefix.end() if prefix else self._at
        if quoted := _QUOTED.match(self._text, at):
            end = _KEY_END.match(self._text, quoted.end() + _blanks(self._text, quoted.end()))
            return (_unquoted(quoted[0]), end.end()) if end and "\n" not in quoted[0] else None
        line_end = self._text.find("\n", at)
        colon = _KEY_END.search(self._text, at, line_end + 1 if line_end >= 0 else len(self._text))
        if not colon or self._text[at] in "{[" or _COMMENT.search(self._text, at, colon.start()):
            return None
        return self._text[at : colon.start()].strip(), colon.end()

    def _scalar(self, least: int) -> None:
        """A quoted text ends with its quote, any other one where the indentation does."""
        if self._skip(_QUOTED):
            return
        self._skip_line()
        while self._at < len(self._text):
            content = self._rest_of_line()
            stripped = content.strip(" \t")
            if stripped and (len(content) - len(content.lstrip(" ")) < least or stripped[0] == "#" or self._at_end()):
                return
            self._skip_line()

    # --- flow style ---------------------------------------------------------------------------------------------------

    def _flow_node(self, path: Path) -> None:
        self._skip_flow_space()
        if len(path) > _MAX_DEPTH:
            self._move(len(self._text))
        elif self._char in ("{", "["):
            self._flow_collection(path)
        elif not self._skip(_QUOTED):
            while self._skip(_FLOW_PLAIN):
                self._skip_flow_space()

    def _skip_flow_space(self) -> None:
        self._skip(_FLOW_SPACE)
        if self._char in ("&", "!") and self._skip(_PROPERTIES):
            self._skip(_FLOW_SPACE)

    def _flow_collection(self, path: Path) -> None:
        closing, index = {"{": "}", "[": "]"}[self._char], 0
        self._move(self._at + 1)
        while self._at < len(self._text):
            self._skip_flow_space()
            if self._char == closing:
                self._move(self._at + 1)
                return
            if self._char in (",", "}", "]", ":", "#", ""):
                self._move(min(self._at + 1, len(self._text)))
            elif closing == "}":
                self._flow_pair(path)
            else:
                self.places.put((*path, str(index)), self._line)
                self._flow_item((*path, str(index)))
                index += 1

    def _flow_pair(self, path: Path) -> None:
        if self._char in ("{", "["):
            self._flow_node((*path, "?"))  # as a key: nobody has a name for it
            return
        line, start = self._line, self._at
        self._flow_node(path)
        name = _unquoted(self._text[start : self._at].removeprefix("? ").strip())
        self.places.put((*path, name), line)
        self._flow_value((*path, name))

    def _flow_item(self, path: Path) -> None:
        """Also `[key: value]`, a list with a mapping of one pair."""
        line, start, is_text = self._line, self._at, self._char not in ("{", "[")
        self._flow_node(path)
        if is_text:
            name = _unquoted(self._text[start : self._at].strip())
            self._skip_flow_space()
            if self._char == ":":
                self.places.put((*path, name), line)
                self._flow_value((*path, name))

    def _flow_value(self, path: Path) -> None:
        self._skip_flow_space()
        if self._char == ":":
            self._move(self._at + 1)
            self._flow_node(path)


def _blanks(text: str, at: int) -> int:
    end = at
    while text[end : end + 1] in (" ", "\t") and end < len(text):
        end += 1
    return end - at


def _unquoted(token: str) -> str:
    if len(token) < 2 or token[0] not in "\"'" or token[-1] != token[0]:
        return token
    if token[0] == "'":
        return token[1:-1].replace("''", "'")
    try:
        return str(json.loads(token, strict=False))
    except ValueError:  # YAML knows a few escapes more
        return token[1:-1]
