"""The content of a tag: paths, literals, sub-expressions, named arguments, block parameters.

Input: the source and a position. Output: nodes, and the position after them. Blanks and line breaks are allowed
between all parts, but not inside a path.
"""

from __future__ import annotations

import re
from typing import Final

from ankaios.common.handlebars.errors import TemplateSyntaxError, syntax_error
from ankaios.common.handlebars.literals import SYMBOL, read_literal, skip_blanks
from ankaios.common.handlebars.nodes import HelperCall, Param, Path

MAX_SUBEXPRESSION_DEPTH: Final = 20

IDENTIFIER: Final = re.compile(rf"{SYMBOL}++")
_ITEM: Final = rf"(?:{SYMBOL}++|\[[^\]]*+\])"
# Groups are repeated in `(?>…)`, not with `)*+`, because of wrong matches of `)*+` in Python 3.11.2 of Debian 12.
PATH: Final = (
    r"(?P<path>(?>(?:this[./]|\./)?)(?>(?P<root>@root[./])?)(?>(?P<local>@)?)(?P<ups>(?>(?:\.\.[./])*))"
    rf"(?P<names>{_ITEM}(?>(?:[./]{_ITEM})*)))"
)
_PATH: Final = re.compile(PATH)
_BLANKS: Final = frozenset(" \t\r\n")
_NAME: Final = re.compile(rf"\[([^\]]*+)\]|({SYMBOL}++)")
_HASH_KEY: Final = re.compile(rf"({SYMBOL}++)[ \t\r\n]*+=")
# The blanks behind a keyword belong to the test: "as 1" is a path and a number, "as |x|" are block parameters.
_KEYWORD: Final = re.compile(rf"(?:as|else)[ \t\r\n]*+(?!{SYMBOL})")
_BLOCK_PARAMS: Final = re.compile(rf"as[ \t\r\n]*+\|[ \t\r\n]*+({SYMBOL}++)[ \t\r\n]*+(?>({SYMBOL}++)?)[ \t\r\n]*+\|")
_PARTIAL_NAME: Final = re.compile(r"[A-Za-z0-9_@/.\-\x80-\U0010ffff]++|\[[^\]]++\]|'(?>(?:\\'|[^'])+)'")

Arguments = tuple[tuple[Param, ...], tuple[tuple[str, Param], ...]]


def make_path(match: re.Match[str]) -> Path:
    """Return the path of a match of a pattern that contains PATH."""
    text = match["path"]
    written = match["names"]
    if written == text and "." not in text and "/" not in text and "[" not in text:
        return Path(text, () if text == "this" else (text,), is_plain_name=True)
    names = [bare or raw for raw, bare in _NAME.findall(written)]
    return Path(
        text,
        tuple([name for name in names if name != "this"]),
        len(match["ups"]) // 3,
        match["root"] is not None,
        match["local"] is not None,
    )


class ExpressionReader:
    """A position in the source, which advances with each read."""

    __slots__ = ("pos", "text")

    def __init__(self, text: str, pos: int) -> None:
        self.text = text
        self.pos = pos

    def skip_blanks(self) -> None:
        if self.text[self.pos : self.pos + 1] in _BLANKS:
            self.pos = skip_blanks(self.text, self.pos)

    def take(self, token: str) -> bool:
        """Step over a token and the blanks before it, if it comes next."""
        self.skip_blanks()
        if not self.text.startswith(token, self.pos):
            return False
        self.pos += len(token)
        return True

    def step(self) -> ExpressionReader:
        """Step over one character."""
        self.pos += 1
        return self

    def expect(self, token: str, meaning: str = "") -> None:
        if not self.take(token):
            raise self.error(meaning or f"'{token}'")

    def error(self, expected: str) -> TemplateSyntaxError:
        found = self.text[self.pos : self.pos + 10].split("\n")[0]
        shown = f"found '{found}'" if self.pos < len(self.text) else "the template ends"
        return syntax_error(self.text, self.pos, f"expected {expected}, but {shown}")

    def identifier(self, what: str) -> str:
        self.skip_blanks()
        match = IDENTIFIER.match(self.text, self.pos)
        if match is None:
            raise self.error(what)
        self.pos = match.end()
        return match[0]

    def is_at_identifier(self) -> bool:
        self.skip_blanks()
        return IDENTIFIER.match(self.text, self.pos) is not None

    def closing_name(self) -> str:
        """The name of a block or of a partial block."""
        self.skip_blanks()
        match = IDENTIFIER.match(self.text, self.pos)
        partial = _PARTIAL_NAME.match(self.text, self.pos)
        if partial is not None and (match is None or partial.end() > match.end()):
            match = partial
        if match is None:
            raise self.error("the name of the block to close, e.g. {{/if}}")
        self.pos = match.end()
        return match[0]

    def block_call(self, what: str) -> tuple[HelperCall, tuple[str, ...]]:
        """A helper or decorator that opens a block: name, arguments, block parameters."""
        name = self.identifier(what)
        return HelperCall(name, *self.arguments()), self.block_params()

    def path(self) -> Path | None:
        match = _PATH.match(self.text, self.pos)
        if match is None:
            return None
        self.pos = match.end()
        return make_path(match)

    def expression(self) -> Path | HelperCall:
        """A helper with arguments, a path, or a sub-expression."""
        return self._helper_with_arguments(0) or self.value()

    def value(self) -> Path | HelperCall:
        """A path or a sub-expression."""
        self.skip_blanks()
        value = self.path() or self._subexpression(0)
        if value is None:
            raise self.error("a variable or a helper, e.g. {{name}}")
        return value

    def partial_name(self) -> str | HelperCall:
        self.skip_blanks()
        if match := _PARTIAL_NAME.match(self.text, self.pos):
            self.pos = match.end()
            return match[0]
        name = self._subexpression(0)
        if name is None:
            raise self.error("the name of a partial, e.g. {{> indent content=name}}")
        return name

    def block_params(self) -> tuple[str, ...]:
        """`as |value key|`, or nothing."""
        self.skip_blanks()
        match = _BLOCK_PARAMS.match(self.text, self.pos)
        if match is None:
            return ()
        self.pos = match.end()
        return (match[1],) if match[2] is None else (match[1], match[2])

    def arguments(self, depth: int = 0) -> Arguments:
        args: list[Param] = []
        named: dict[str, Param] = {}
        while True:
            self.skip_blanks()
            if key := _HASH_KEY.match(self.text, self.pos):
                self.pos = key.end()
                self.skip_blanks()
                value = self._argument(depth)
                if value is None:
                    raise self.error(f"a value for '{key[1]}', e.g. {key[1]}=name")
                named[key[1]] = value
            elif (value := self._argument(depth)) is not None:
                args.append(value)
            else:
                return tuple(args), tuple(named.items())

    def _argument(self, depth: int) -> Param | None:
        if _KEYWORD.match(self.text, self.pos):
            return None
        literal = read_literal(self.text, self.pos)
        if literal is not None:
            self.pos = literal[1]
            return literal[0]
        return self.path() or self._subexpression(depth)

    def _subexpression(self, depth: int) -> HelperCall | None:
        if not self.text.startswith("(", self.pos):
            return None
        if depth == MAX_SUBEXPRESSION_DEPTH:
            raise syntax_error(
                self.text, self.pos, f"sub-expressions may be nested {MAX_SUBEXPRESSION_DEPTH} levels deep, not more"
            )
        self.pos += 1
        call = self._call(depth + 1)
        self.expect(")", "')' to end the sub-expression")
        return call

    def _call(self, depth: int) -> HelperCall:
        if call := self._helper_with_arguments(depth):
            return call
        path = self.path()
        if path is None:
            raise self.error("a helper, e.g. (eq a b)")
        return HelperCall(path.text)

    def _helper_with_arguments(self, depth: int) -> HelperCall | None:
        self.skip_blanks()
        start = self.pos
        if name := IDENTIFIER.match(self.text, start):
            self.pos = name.end()
            args, named_args = self.arguments(depth)
            if args or named_args:
                return HelperCall(name[0], args, named_args)
            self.pos = start
        return None
