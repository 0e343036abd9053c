"""Templates are untrusted input: too much depth, time or memory is an error."""

from __future__ import annotations

from typing import Any

import pytest

from ankaios.common.handlebars.errors import TemplateRenderError, TemplateSyntaxError
from ankaios.common.handlebars.template import compile_template
from tests.unit.common.templates import render

HUNDRED: Any = [str(number) for number in range(100)]


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller limits, so that the test is faster."""
    monkeypatch.setattr("ankaios.common.handlebars.renderer.MAX_STEPS", 20_000)


def nested(times: int, inner: str = "x") -> str:
    return "{{#if a}}" * times + inner + "{{/if}}" * times


def deep_list(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def test_fifty_blocks_may_be_nested() -> None:
    assert render(nested(50, "{{> indent content=a}}"), {"a": "yes"}) == "yes"


@pytest.mark.parametrize(
    ("template", "what"),
    [
        (nested(51), "blocks may be nested 50 levels deep"),
        ("{{#if a}}" * 100_000, "blocks may be nested 50 levels deep"),
        ("{{a " + "(b " * 100_000, "sub-expressions may be nested 20 levels deep"),
        ("{{a " + "[" * 100_000, "lists and maps may be nested 50 levels deep"),
        ("{{a " + '{"a":' * 100_000, "lists and maps may be nested 50 levels deep"),
    ],
    ids=["51 blocks", "open blocks", "sub-expressions", "lists", "maps"],
)
def test_a_template_that_is_nested_too_deep_is_rejected(template: str, what: str) -> None:
    with pytest.raises(TemplateSyntaxError, match=what):
        compile_template(template)


def test_deep_but_allowed_nesting_of_all_elements_renders() -> None:
    call = "(eq " * 20 + "1 1)" + " true)" * 19
    assert render(nested(49, f"{{{{#if {call}}}}}x{{{{/if}}}}"), {"a": "1"}) == "x"
    literal = "[" * 50 + "]" * 50
    assert render(nested(49, f"{{{{#with {literal}}}}}{{{{this}}}}{{{{/with}}}}"), {"a": "1"}) == literal


def test_a_long_else_chain_is_not_deep() -> None:
    chain = "{{#if b}}" + "{{else if b}}" * 5_000 + "{{else}}end{{/if}}"
    assert render(chain, {}) == "end"


@pytest.mark.parametrize(
    "template",
    [
        '{{#*inline "x"}}a{{> x}}{{/inline}}{{> x}}',
        '{{#*inline "x"}}{{> y}}{{/inline}}{{#*inline "y"}}{{> x k=1}}{{/inline}}{{> x}}',
        '{{#*inline "x"}}{{#if a}}{{#> x}}b{{/x}}{{/if}}{{/inline}}{{> x}}',
    ],
)
def test_a_partial_that_calls_itself_ends_in_an_error(template: str) -> None:
    with pytest.raises(TemplateRenderError, match="nested more than 60 levels deep, does a partial call itself"):
        render(template, {"a": "1"})


def test_a_partial_may_call_itself_for_the_levels_of_a_tree() -> None:
    tree: Any = {"n": "a", "sub": [{"n": "b", "sub": [{"n": "c", "sub": []}]}, {"n": "d", "sub": []}]}
    template = '{{#*inline "t"}}({{n}}{{#each sub}}{{> t}}{{/each}}){{/inline}}{{> t tree}}'
    assert render(template, {"tree": tree}) == "(a(b(c))(d))"


@pytest.mark.usefixtures("few_steps")
def test_loops_in_loops_run_out_of_steps() -> None:
    template = "{{#each l}}" + "{{#each @root.l}}" * 9 + "{{/each}}" * 10
    with pytest.raises(TemplateRenderError, match="it takes more than 20000 steps"):
        render(template, {"l": HUNDRED})


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize(
    "template",
    [
        '{{#*inline "x"}}{{/inline}}{{#each l}}{{#each @root.l}}{{> x @root.long k=1}}{{/each}}{{/each}}',
        "{{#each l}}{{#each @root.l}}{{@root.many}}{{/each}}{{/each}}",
        '{{#*inline "x"}}{{> @partial-block}}{{> @partial-block}}{{/inline}}' + "{{#> x}}" * 25 + "{{/x}}" * 25,
    ],
    ids=["arguments", "lists", "partial blocks"],
)
def test_expensive_operations_use_more_steps(template: str) -> None:
    with pytest.raises(TemplateRenderError, match="it takes more than 20000 steps"):
        render(template, {"l": HUNDRED, "long": "x" * 50_000, "many": ["x"] * 50_000})


@pytest.mark.parametrize(
    ("template", "context"),
    [
        ("{{#each l}}{{@root.long}}{{/each}}", {"l": HUNDRED, "long": "x" * 1_000_000}),
        ("{{#each l}}" + "x" * 1_000_000 + "{{/each}}", {"l": HUNDRED}),
        (" " * 1_000 + "{{> indent content=lines}}", {"lines": "\n" * 100_000}),
    ],
    ids=["values", "texts", "indentation"],
)
def test_output_of_more_than_64_mebi_characters_is_an_error(template: str, context: dict[str, Any]) -> None:
    with pytest.raises(TemplateRenderError, match="the output is longer than 67108864 characters"):
        render(template, context)


def test_a_text_alone_can_be_too_long() -> None:
    with pytest.raises(TemplateRenderError, match="line 1, col 1: the output is longer"):
        render("x" * (64 * 1024 * 1024 + 1), {})


def test_deeply_nested_values_are_neither_printed_nor_compared() -> None:
    context = {"a": deep_list(5_000), "b": deep_list(5_000)}
    with pytest.raises(TemplateRenderError, match="a list is nested deeper than 100 levels"):
        render("{{a}}", context)
    with pytest.raises(TemplateRenderError, match="a value is nested deeper than 100 levels"):
        render("{{eq a b}}", context)


NONSENSE = {
    "backslashes": "\\" * 200_000 + "{{",
    "blanks": "{{" + " " * 200_000,
    "path": "{{" + "a." * 200_000,
    "quotes": "{{a " + "'" * 200_001,
    "escapes in a text": '{{a "' + "\\n" * 200_000,
    "lists": "{{a " + "[1 " * 50_000,
    "open list": "{{a " + "[1," * 40 + "]" * 39,
    "comments": "{{!--x" * 50_000,
    "keywords": "{{#a " + "as " * 50_000,
    "braces in a raw block": "{{{{raw}}}}" + "{{{ " * 50_000,
    "number": "{{a " + "1" * 200_000 + ".}}",
}


@pytest.mark.parametrize("what", NONSENSE)
def test_a_long_invalid_text_is_rejected_in_linear_time(what: str) -> None:
    """With quadratic time, the test would exceed its time limit."""
    with pytest.raises(TemplateSyntaxError) as error:
        compile_template(NONSENSE[what])
    assert len(str(error.value)) < 300


def test_many_short_comments_that_begin_like_long_ones_are_read_in_linear_time() -> None:
    assert render("{{!--x}}a" * 20_000, {}) == "a" * 20_000
