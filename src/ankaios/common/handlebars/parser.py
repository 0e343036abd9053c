"""Parses templates. Input: text. Output: nested nodes, with the white space around tags trimmed.

Open blocks are stored on an explicit stack, so that the depth can be limited and the time grows only with the length of
the text.
"""

from __future__ import annotations

import re
from typing import Final

from ankaios.common.handlebars.errors import line_and_column, syntax_error
from ankaios.common.handlebars.expressions import PATH, make_path
from ankaios.common.handlebars.layout import Trim, find_tag, line_of_tag, trim_end, trim_start
from ankaios.common.handlebars.literals import skip_blanks
from ankaios.common.handlebars.nodes import Block, Body, Decorator, Expression, LiteralText, Node, Partial
from ankaios.common.handlebars.tags import Tag, TagKind, TagReader

MAX_NESTING: Final = 50

# Fast path: most tags contain only a path. A tag that starts with "else" may be an inverse tag and is parsed fully.
_PATH_TAG: Final = re.compile(rf"\{{\{{[ \t\r\n]*+(?!else){PATH}[ \t\r\n]*+\}}\}}")


def parse_template(text: str) -> Body:
    """Parse a template, or raise TemplateSyntaxError."""
    return _Parser(text).parse()


class _OpenBlock:
    """A block whose closing tag has not been read yet, with its content so far."""

    __slots__ = ("at", "branch", "in_inverse", "name", "node", "nodes")

    def __init__(self, at: int, name: str, node: Node) -> None:
        self.at = at
        self.name = name
        self.node = node
        self.branch = node if isinstance(node, Block) else None
        """The block that receives the following nodes. After `else if` it is not the opened block any more."""
        self.in_inverse = False
        self.nodes: list[Node] = []

    def end_branch(self, branch: Block) -> None:
        if self.in_inverse:
            branch.inverse = tuple(self.nodes)
        else:
            branch.body = tuple(self.nodes)
        self.nodes = []

    def close(self) -> Node:
        if isinstance(self.node, Decorator):
            return self.node._replace(body=tuple(self.nodes))
        if isinstance(self.node, Partial):
            return self.node._replace(block=tuple(self.nodes))
        if self.branch is not None:
            self.end_branch(self.branch)
        return self.node


class _Parser:
    __slots__ = ("_before", "_open", "_outer", "_pos", "_tags", "_text", "_trim")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tags = TagReader(text)
        self._pos = 0
        self._trim = Trim.NOTHING
        self._before = ""
        """The text directly before the tag being read; the tag may trim it."""
        self._open = _OpenBlock(0, "", LiteralText(""))
        self._outer: list[_OpenBlock] = []

    def parse(self) -> Body:
        text = self._text
        while True:
            content, at = find_tag(text, self._pos)
            self._before = trim_start(content, self._trim)
            if at == len(text):
                break
            if tag := _PATH_TAG.match(text, at):
                self._add_text()
                self._add(Expression(at, make_path(tag)))
                self._pos = tag.end()
                self._trim = Trim.NOTHING
            else:
                self._tag(self._tags.read(at))
        self._add_text()
        if self._outer:
            block = self._open.name
            raise syntax_error(text, self._open.at, f"'{block}' is never closed, add '{{{{/{block}}}}}' where it ends")
        return tuple(self._open.nodes)

    def _tag(self, tag: Tag) -> None:
        blanks, is_alone = self._trim_around(tag)
        self._add_text()
        self._pos = tag.end
        match tag.kind, tag.node:
            case TagKind.ELEMENT, Partial() as partial if not tag.trims_left:
                self._add(partial._replace(indent=blanks, is_alone=is_alone))
            case TagKind.VALUE | TagKind.ELEMENT, node:
                self._add(node)
            case TagKind.OPEN, Partial() as partial:  # its lines are not indented, but start at the column of the tag
                self._push(tag, partial._replace(is_alone=is_alone and not tag.trims_left))
            case TagKind.OPEN, node:
                self._push(tag, node)
            case TagKind.ELSE, _:
                self._switch_branch(tag)
            case TagKind.CLOSE, _:
                self._pop(tag)
            case TagKind.RAW, Block() as block:
                self._raw(tag, block)

    def _trim_around(self, tag: Tag) -> tuple[str, bool]:
        """Remove the white space of a tag. Return the blanks before it and whether it is alone on its line."""
        pending = self._trim
        blanks, is_alone = ("", False) if tag.kind is TagKind.VALUE else line_of_tag(self._text, tag.start, tag.end)
        if tag.trims_left or is_alone:
            self._before = trim_end(self._before, everything=tag.trims_left)
        self._trim = Trim.LINE if is_alone else Trim.NOTHING
        if tag.trims_right or (tag.kind is TagKind.COMMENT and pending is Trim.ALL):
            self._trim = Trim.ALL
        return blanks, is_alone

    def _add_text(self) -> None:
        if self._before:
            self._open.nodes.append(LiteralText(self._before))

    def _add(self, node: Node) -> None:
        self._open.nodes.append(node)

    def _push(self, tag: Tag, node: Node) -> None:
        if len(self._outer) == MAX_NESTING:
            raise syntax_error(self._text, tag.start, f"blocks may be nested {MAX_NESTING} levels deep, not more")
        self._outer.append(self._open)
        self._open = _OpenBlock(tag.start, tag.name, node)

    def _switch_branch(self, tag: Tag) -> None:
        """Switch to the other branch of the open block."""
        block = self._open
        if block.branch is None or block.in_inverse:
            raise syntax_error(self._text, tag.start, "'{{else}}' has no block it belongs to, e.g. {{#if name}}")
        block.end_branch(block.branch)
        if isinstance(tag.node, Block):
            tag.node.at = block.at  # errors are reported where the chain begins
            block.branch.inverse = tag.node
            block.branch = tag.node
        else:
            block.in_inverse = True

    def _pop(self, tag: Tag) -> None:
        if not self._outer:
            found = f"'{{{{/{tag.name}}}}}'"
            raise syntax_error(self._text, tag.start, f"{found} closes nothing, remove it or open its block before it")
        block = self._open
        if tag.name != block.name:
            line, _ = line_and_column(self._text, block.at)
            wanted = f"'{{{{/{block.name}}}}}' for the block opened in line {line}"
            raise syntax_error(self._text, tag.start, f"expected {wanted}, but found '{{{{/{tag.name}}}}}'")
        self._open = self._outer.pop()
        self._add(block.close())

    def _raw(self, tag: Tag, block: Block) -> None:
        """Read a raw block as text, without blanks and line breaks at its start."""
        content, at = find_tag(self._text, skip_blanks(self._text, tag.end), "{{{{")
        self._before = content
        end = self._tags.read_raw_end(at, tag.name)
        self._trim_around(end)
        self._pos = end.end
        block.body = (LiteralText(self._before),) if self._before else ()
        self._add(block)
