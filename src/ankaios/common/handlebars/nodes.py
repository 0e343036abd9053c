"""The parsed form of a template: plain data, built once by the parser and only read by the renderer."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct


class Path(NamedTuple):
    """A reference to a value: `a.b`, `../x`, `@index`, `@root.x`, `this`."""

    text: str
    """As written, for error messages."""
    names: tuple[str, ...]
    ups: int = 0
    is_root: bool = False
    is_local: bool = False
    is_plain_name: bool = False
    """A single bare name, which may also be the name of a helper."""


class Literal(NamedTuple):
    value: object


class HelperCall(NamedTuple):
    """A helper with its arguments, as an expression or in parentheses as an argument."""

    name: str
    args: tuple[Param, ...] = ()
    named_args: tuple[tuple[str, Param], ...] = ()


Param = Path | Literal | HelperCall


class LiteralText(NamedTuple):
    text: str


class Expression(NamedTuple):
    at: int
    """Offset of the tag in the source, turned into line and column only when an error is reported."""
    value: Path | HelperCall


class Block(Struct):
    """`{{#name args as |a b|}} body {{else}} inverse {{/name}}`; an `else if` chain is a block as inverse."""

    at: int
    call: HelperCall
    params: tuple[str, ...] = ()
    body: Body = ()
    inverse: Body | Block | None = None


class Decorator(NamedTuple):
    """`{{#*inline "name"}} body {{/inline}}`; without a body it was written `{{*name}}`."""

    at: int
    call: HelperCall
    body: Body | None = None


class Partial(NamedTuple):
    """`{{> name args}}` or, with a block, `{{#> name args}} block {{/name}}`."""

    at: int
    name: str | HelperCall
    args: tuple[Param, ...]
    named_args: tuple[tuple[str, Param], ...]
    indent: str = ""
    """Blanks directly before the tag; every line of the partial's output keeps them."""
    is_alone: bool = False
    """Alone on its line: the blanks were removed from the text and are written with the first line."""
    block: Body | None = None


Node = LiteralText | Expression | Block | Decorator | Partial
Body = tuple[Node, ...]
