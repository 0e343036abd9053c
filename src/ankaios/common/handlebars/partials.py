"""Renders partials `{{> name}}`, including `indent`, which is always defined.

A partial is rendered in a new scope inside the calling scope: with the given value or the current one, and with its
named arguments added. Its lines keep the indentation of the tag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ankaios.common.handlebars.errors import Failure
from ankaios.common.handlebars.nodes import Body, Partial
from ankaios.common.handlebars.parser import parse_template
from ankaios.common.handlebars.scope import Scope
from ankaios.common.handlebars.values import MISSING, to_text

if TYPE_CHECKING:
    from ankaios.common.handlebars.renderer import Renderer


class TemplateSource(NamedTuple):
    """The template that is named in errors."""

    name: str
    text: str


class PartialBlock(NamedTuple):
    """The block in the call of a partial, for `{{> @partial-block}}` inside it."""

    body: Body
    scope: Scope
    outer: PartialBlock | None


_INDENT_SOURCE: Final = TemplateSource("indent", "{{content}}")
_INDENT: Final = parse_template(_INDENT_SOURCE.text)


def render_partial(renderer: Renderer, partial: Partial) -> None:
    """Render the partial, or the block of the tag if the partial does not exist."""
    name = partial.name if isinstance(partial.name, str) else to_text(renderer.call(partial.name))
    scope = _scope_of(renderer, partial)
    if name == "@partial-block":
        _render_partial_block(renderer)
        return
    if partial.block is not None:
        _define_partials_of_block(renderer, partial.block, scope)
    source, body = renderer.source, scope.partial(name)
    if body is None and name == "indent":
        source, body = _INDENT_SOURCE, _INDENT
    if body is not None:
        block = None if partial.block is None else PartialBlock(partial.block, scope, renderer.partial_block)
        _render(renderer, partial, scope, source, body, block)
    elif partial.block is not None:
        _render(renderer, partial, scope, source, partial.block, None)
    else:
        raise Failure(f"Partial not found {name}")


def _scope_of(renderer: Renderer, partial: Partial) -> Scope:
    args = [renderer.argument(param).value for param in partial.args]
    named = {name: _null_if_missing(renderer.argument(param).value) for name, param in partial.named_args}
    this = _null_if_missing(args[0]) if args else renderer.scope.this
    if named:
        entries = _entries(this)
        renderer.spend(len(entries))
        this = entries | named
    scope = Scope(this, renderer.scope)
    scope.names = named
    scope.variables = renderer.scope.variables
    return scope


def _null_if_missing(value: object) -> object:
    """A missing argument is not an error but null, so that `{{> indent content=nothing}}` prints nothing."""
    return None if value is MISSING else value


def _entries(value: object) -> dict[str, object]:
    """Return the value as a map for named arguments; entries of lists and texts are numbered."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list | str):
        return {str(index): item for index, item in enumerate(value)}
    return {}


def _define_partials_of_block(renderer: Renderer, block: Body, scope: Scope) -> None:
    """Render the block first and discard the text, because the partial may use partials that the block defines."""
    out = renderer.out
    renderer.out = out.discarded()
    renderer.render_body_in(scope, block)
    renderer.out = out


def _render_partial_block(renderer: Renderer) -> None:
    block = renderer.partial_block
    if block is None:
        raise Failure("Partial block cound not be found")
    renderer.partial_block = block.outer
    renderer.render_body_in(block.scope, block.body)
    renderer.partial_block = block


def _render(
    renderer: Renderer, partial: Partial, scope: Scope, source: TemplateSource, body: Body, block: PartialBlock | None
) -> None:
    """Render the body of a partial with the indentation of its tag.

    [impl->swdd~config-renderer-supports-rendering-with-keeping-line-indent~1]
    """
    outside = renderer.source, renderer.partial_block
    renderer.source, renderer.partial_block = source, block
    before = renderer.out.begin_partial(partial.indent, partial.is_alone)
    renderer.render_body_in(scope, body)
    renderer.out.end_partial(before)
    renderer.source, renderer.partial_block = outside
