"""Renders templates. Input: a parsed template and a context. Output: text.

Rendering is limited in depth (partials may call themselves), in steps (nested loops) and in the length of the text.
"""

from __future__ import annotations

from typing import Final

from ankaios.common.handlebars.errors import Failure, TemplateRenderError, line_and_column, missing_variable
from ankaios.common.handlebars.helpers import BOOLEAN_HELPERS, VALUE_HELPERS, Argument, Arguments, check_log, condition
from ankaios.common.handlebars.nodes import (
    Block,
    Body,
    Decorator,
    Expression,
    HelperCall,
    LiteralText,
    Param,
    Partial,
    Path,
)
from ankaios.common.handlebars.output import TemplateOutput
from ankaios.common.handlebars.partials import PartialBlock, TemplateSource, render_partial
from ankaios.common.handlebars.scope import Scope
from ankaios.common.handlebars.values import MISSING, is_true, to_text

MAX_DEPTH: Final = 60
"""Maximum nesting of bodies: a template may nest 50 blocks and call partials inside the innermost one."""
MAX_STEPS: Final = 500_000
"""About a second on a small machine."""


class Renderer:
    """Renders one template once. It cannot be used again after an error."""

    def __init__(self, source: TemplateSource, context: object, max_output: int) -> None:
        self.source = source
        self.scope = Scope(context)
        self.out = TemplateOutput(max_output)
        self.partial_block: PartialBlock | None = None
        self._depth = 0
        self._steps_left = MAX_STEPS

    def render(self, body: Body) -> str:
        try:
            self.render_body(body)
        except Failure as failure:
            raise self._located(failure, 0) from None
        return self.out.text()

    def render_body(self, body: Body) -> None:
        """Render nodes in the current scope."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Failure(
                f"blocks and partials are nested more than {MAX_DEPTH} levels deep, does a partial call itself?"
            )
        self.spend(len(body))
        for node in body:
            if isinstance(node, LiteralText):
                self.out.write(node.text)
                continue
            try:
                self._node(node)
            except Failure as failure:
                raise self._located(failure, node.at) from None
        self._depth -= 1

    def render_body_in(self, scope: Scope, body: Body) -> None:
        outside = self.scope
        self.scope = scope
        self.render_body(body)
        self.scope = outside

    def spend(self, steps: int) -> None:
        """Count steps, so that nested loops end in limited time."""
        self._steps_left -= steps
        if self._steps_left < 0:
            raise Failure(f"it takes more than {MAX_STEPS} steps, make the template or its lists smaller")

    def argument(self, param: Param) -> Argument:
        """Evaluate an argument; it may be MISSING."""
        if isinstance(param, Path):
            return Argument(self.scope.resolve(param), param.text)
        return Argument(self.call(param) if isinstance(param, HelperCall) else param.value)

    def arguments(self, call: HelperCall) -> Arguments:
        positional = [self.argument(param) for param in call.args]
        named = {name: self.argument(param).value for name, param in call.named_args}
        return Arguments(call.name, positional, named)

    def call(self, call: HelperCall) -> object:
        """Return the value of a helper."""
        args = self.arguments(call)
        helper = VALUE_HELPERS.get(call.name)
        if helper is None:
            raise Failure(f"Helper not found {call.name}")
        return helper(args)

    def _node(self, node: Expression | Block | Partial | Decorator) -> None:
        if isinstance(node, Expression):
            self._print(self._value(node.value))
        elif isinstance(node, Block):
            self._block(node)
        elif isinstance(node, Partial):
            self.spend(5)
            render_partial(self, node)
        else:
            self._decorator(node)

    def _print(self, value: object) -> None:
        text = to_text(value)
        if isinstance(value, list):  # its text is created each time
            self.spend(len(text) // 16)
        self.out.write(text)

    def _value(self, value: Path | HelperCall) -> object:
        if isinstance(value, HelperCall):
            return self.call(value)
        if value.is_plain_name and value.text in VALUE_HELPERS:
            return self.call(HelperCall(value.text))
        found = self.scope.resolve(value)
        if found is MISSING:
            raise missing_variable(value.text)
        return found

    def _block(self, block: Block) -> None:
        branch: Body | Block | None = block
        while isinstance(branch, Block):  # a loop, because an else-if chain can be long
            self.spend(1)
            branch = self._choose(branch)
        if branch:
            self.render_body(branch)

    def _choose(self, block: Block) -> Body | Block | None:
        """Perform the helper of a block. Return the branch to be rendered in the current scope."""
        name = block.call.name
        args = self.arguments(block.call)
        if name not in VALUE_HELPERS:
            raise Failure(f"Helper not found {name}")
        match name:
            case "if":
                return block.body if condition(args) else block.inverse
            case "unless":
                return block.inverse if condition(args) else block.body
            case "each":
                return self._each(block, args.required(0))
            case "with":
                return self._with(block, args.required(0))
            case "raw":
                return block.body
            case "log":
                check_log(args)
                return None
        value = VALUE_HELPERS[name](args)
        if name in BOOLEAN_HELPERS:
            return block.body if value else block.inverse
        self._print(value)
        return None

    def _with(self, block: Block, argument: Argument) -> Body | Block | None:
        if not is_true(argument.value):
            return _otherwise(block, argument)
        scope = Scope(argument.value, self.scope)
        if len(block.params) == 1:
            scope.names = {block.params[0]: argument.value}
        scope.variables = self.scope.variables
        self.render_body_in(scope, block.body)
        return None

    def _each(self, block: Block, argument: Argument) -> Body | Block | None:
        value = argument.value
        if not isinstance(value, dict | list):
            return _otherwise(block, argument)
        if not value:
            return block.inverse
        self.spend(len(value))
        scope = Scope(MISSING, self.scope)
        for index, key in enumerate(sorted(value) if isinstance(value, dict) else range(len(value))):
            scope.this = value[key]
            scope.names = dict(zip(block.params, (value[key], key), strict=False))
            scope.variables = {"index": index, "first": index == 0, "last": index == len(value) - 1}
            if isinstance(value, dict):
                scope.variables["key"] = key
            self.render_body_in(scope, block.body)
        return None

    def _decorator(self, decorator: Decorator) -> None:
        """Define a partial in the current scope."""
        args = self.arguments(decorator.call)
        if args.helper != "inline":
            raise Failure(f"Decorator not found {args.helper}")
        name = args.required(0).value
        if not isinstance(name, str):
            raise Failure("Invalid param type, String expected")
        if decorator.body is None:
            raise Failure("Block content required")
        self.scope.partials[name] = decorator.body

    def _located(self, failure: Failure, at: int) -> TemplateRenderError:
        line, column = line_and_column(self.source.text, at)
        return TemplateRenderError(f'Error rendering "{self.source.name}" line {line}, col {column}: {failure.reason}')


def _otherwise(block: Block, argument: Argument) -> Body | Block:
    if block.inverse is None:
        raise missing_variable(argument.path)
    return block.inverse
