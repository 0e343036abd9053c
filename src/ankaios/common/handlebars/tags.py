"""Reads one tag: its content and its end.

Input: the source and the offset of a tag. Output: a `Tag`, independent of the tags around it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from ankaios.common.handlebars.errors import syntax_error
from ankaios.common.handlebars.expressions import ExpressionReader
from ankaios.common.handlebars.nodes import Block, Decorator, Expression, HelperCall, LiteralText, Node, Partial, Path


class TagKind(Enum):
    COMMENT = auto()
    VALUE = auto()
    """Prints a value; its line is never removed."""
    ELEMENT = auto()
    """A partial or decorator without a block."""
    OPEN = auto()
    ELSE = auto()
    CLOSE = auto()
    RAW = auto()
    """Opens a block in which tags are text."""


class Tag(NamedTuple):
    kind: TagKind
    start: int
    end: int
    trims_left: bool = False
    trims_right: bool = False
    node: Node = LiteralText("")
    """The node of the tag, or the node that it opens, without body; for `else` the chained block, if any."""
    name: str = ""
    """The name of the block that is opened or closed."""


class TagReader:
    """Reads the tags of one template."""

    __slots__ = ("_may_have_long_comments", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._may_have_long_comments = True

    def read(self, at: int) -> Tag:
        """Read the tag at this position."""
        text = self._text
        if text.startswith("{{!", at):
            return self._comment(at)
        if text.startswith("{{{{", at):
            return self._raw_start(at)
        if text.startswith("{{{", at):
            return self._triple(at)
        reader = ExpressionReader(text, at + 2)
        trims_left = reader.take("~")
        reader.skip_blanks()
        match text[reader.pos : reader.pos + 1]:
            case "#":
                return self._open(at, reader.step(), trims_left)
            case "/":
                name = reader.step().closing_name()
                return Tag(TagKind.CLOSE, at, *_end(reader, trims_left), name=name)
            case ">":
                return self._partial(at, reader.step(), trims_left)
            case "*":
                call, _ = reader.step().block_call("a decorator, e.g. inline")
                return Tag(TagKind.ELEMENT, at, *_end(reader, trims_left), Decorator(at, call))
            case "&":
                return _value(at, reader, trims_left, reader.step().value())
            case "{":
                value = reader.step().expression()
                reader.expect("}")
                return _value(at, reader, trims_left, value)
            case _:
                return self._else(at, reader, trims_left) or _value(at, reader, trims_left, reader.expression())

    def read_raw_end(self, at: int, name: str) -> Tag:
        """Read the end tag of a raw block."""
        reader = ExpressionReader(self._text, at)
        reader.expect("{{{{", f"'{{{{{{{{/{name}}}}}}}}}' to end the raw block")
        trims_left = reader.take("~")
        reader.expect("/")
        if reader.identifier("the name of the raw block") != name:
            raise syntax_error(self._text, at, f"expected '{{{{{{{{/{name}}}}}}}}}' to end the raw block")
        return Tag(TagKind.CLOSE, at, *_end(reader, trims_left, "}}}}"), name=name)

    def _comment(self, at: int) -> Tag:
        end = -1
        if self._may_have_long_comments and self._text.startswith("{{!--", at):
            end = self._text.find("--}}", at + 5)
            self._may_have_long_comments = end >= 0  # if not found, the rest is not searched again
        if end >= 0:
            return Tag(TagKind.COMMENT, at, end + 4)
        end = self._text.find("}}", at)
        if end < 0:
            raise syntax_error(self._text, at, "the comment has no end, add '}}'")
        return Tag(TagKind.COMMENT, at, end + 2)

    def _triple(self, at: int) -> Tag:
        """Read `{{{name}}}`, which prints like `{{name}}`, because this engine does not escape."""
        reader = ExpressionReader(self._text, at + 3)
        trims_left = reader.take("~")
        value = reader.expression()
        behind_value = reader.pos
        trims_right = reader.take("~")
        if reader.take("}}}"):
            return Tag(TagKind.VALUE, at, reader.pos, trims_left, trims_right, Expression(at, value))
        reader.pos = behind_value
        reader.expect("}", "'}}}' to end the tag")
        if trims_left:
            raise reader.error("'}}' to end the tag")
        return _value(at, reader, trims_left, value)

    def _raw_start(self, at: int) -> Tag:
        reader = ExpressionReader(self._text, at + 4)
        trims_left = reader.take("~")
        call, params = reader.block_call("a helper, e.g. {{{{raw}}}}")
        return Tag(TagKind.RAW, at, *_end(reader, trims_left, "}}}}"), Block(at, call, params), call.name)

    def _open(self, at: int, reader: ExpressionReader, trims_left: bool) -> Tag:
        node: Block | Decorator | Partial
        if reader.take(">"):
            name = reader.partial_name()
            if isinstance(name, HelperCall):
                raise syntax_error(self._text, at, "a partial block needs a plain name, e.g. {{#> name}}")
            node = Partial(at, name, *reader.arguments())
        elif reader.take("*"):
            call, _ = reader.block_call('a decorator, e.g. {{#*inline "name"}}')
            name, node = call.name, Decorator(at, call)
        else:
            call, params = reader.block_call("a helper, e.g. {{#if name}}")
            name, node = call.name, Block(at, call, params)
        return Tag(TagKind.OPEN, at, *_end(reader, trims_left), node, name)

    def _partial(self, at: int, reader: ExpressionReader, trims_left: bool) -> Tag:
        node = Partial(at, reader.partial_name(), *reader.arguments())
        return Tag(TagKind.ELEMENT, at, *_end(reader, trims_left), node)

    def _else(self, at: int, reader: ExpressionReader, trims_left: bool) -> Tag | None:
        """Read `{{else}}`, `{{^}}` or `{{else if x}}`. Otherwise return None: `else.x` is a path.

        No blank is needed after the word, so `{{elseif x}}` works, and `{{elsewhere}}` is not a variable.
        """
        start = reader.pos
        if not (reader.take("else") or reader.take("^")):
            return None
        node = Block(at, *reader.block_call("a helper")) if reader.is_at_identifier() else LiteralText("")
        trims_right = reader.take("~")
        if reader.take("}}"):
            return Tag(TagKind.ELSE, at, reader.pos, trims_left, trims_right, node)
        reader.pos = start
        return None


def _value(at: int, reader: ExpressionReader, trims_left: bool, value: Path | HelperCall) -> Tag:
    return Tag(TagKind.VALUE, at, *_end(reader, trims_left), Expression(at, value))


def _end(reader: ExpressionReader, trims_left: bool, braces: str = "}}") -> tuple[int, bool, bool]:
    """Step over the end of a tag. Return its position and on which sides white space is removed."""
    trims_right = reader.take("~")
    reader.expect(braces, f"'{braces}' to end the tag")
    return reader.pos, trims_left, trims_right
