"""Partials: `indent`, inline partials and partial blocks."""

from __future__ import annotations

from typing import Any

import pytest

from ankaios.common.handlebars.errors import TemplateRenderError
from tests.unit.common.templates import render

CONTEXT: dict[str, Any] = {"port": "8080", "hosts": ["a", "b"], "db": {"user": "u", "pw": "p"}, "empty": ""}


@pytest.mark.parametrize(
    ("template", "content", "text"),
    [
        ("f: |\n  {{> indent content=x}}\nz", "l1\nl2\n", "f: |\n  l1\n  l2\nz"),
        ("f: |\n  {{> indent content=x}}\nz", "l1\nl2", "f: |\n  l1\n  l2z"),
        ("f: |\n  {{> indent content=x}}\nz", "l1\n\nl2\n\n", "f: |\n  l1\n  \n  l2\n  \nz"),
        ("f: |\n  {{> indent content=x}}\nz", "\nl1", "f: |\n\n  l1z"),
        ("f: |\n  {{> indent content=x}}\nz", "", "f: |\nz"),
        ("f: |\r\n  {{> indent content=x}}\r\nz", "l1\r\nl2\r\n", "f: |\r\n  l1\r\n  l2\r\nz"),
        ("\t {{> indent content=x}}", "l1\nl2", "\t l1\n\t l2"),
        ("  {{> indent content=x}} \t\nz", "l1\nl2\n", "  l1\n  l2\nz"),
        ("k: {{> indent content=x}}\nz", "l1\nl2", "k: l1\n l2\nz"),
        ("k:{{> indent content=x}}\nz", "l1\nl2", "k:l1\nl2\nz"),
        ("  {{> indent content=x}}!\nz", "l1\nl2", "  l1\n  l2!\nz"),
        ("- {{port}}  {{> indent content=x}}", "l1\nl2", "- 8080  l1\n  l2"),
        ("k\n  {{~> indent content=x}}\nz", "l1\nl2", "kl1\nl2z"),
        ("k\n  {{> indent content=x~}}\n\n  z", "l1\nl2", "k\n  l1\n  l2z"),
        ("{{#if port}}\n  {{> indent content=x}}\n{{/if}}\nz", "l1\nl2\n", "  l1\n  l2\nz"),
        ("{{#each hosts}}\n  {{> indent content=../x}}\n{{/each}}\nz", "l1\nl2\n", "  l1\n  l2\n  l1\n  l2\nz"),
    ],
)
def test_indent_keeps_the_indentation_of_its_line(template: str, content: str, text: str) -> None:
    """[utest->swdd~config-renderer-supports-rendering-with-keeping-line-indent~1]"""
    assert render(template, {**CONTEXT, "x": content}) == text


def test_indent_prints_any_value_and_nothing_for_a_missing_one() -> None:
    template = "{{> indent content=hosts}}{{> indent content=missing}}{{> indent content=db.x.y}}{{> indent content=1}}"
    assert render(template, CONTEXT) == "[a, b]1"


def test_indent_needs_its_argument() -> None:
    with pytest.raises(TemplateRenderError) as error:
        render("\n\n{{> indent}}", CONTEXT)
    assert str(error.value) == (
        'Error rendering "indent" line 1, col 1: Failed to access variable in strict mode Some("content")'
    )


def inline(body: str, rest: str) -> str:
    return f'{{{{#*inline "x"}}}}{body}{{{{/inline}}}}{rest}'


@pytest.mark.parametrize(
    ("body", "rest", "text"),
    [
        ("a{{port}}", "{{> x}}{{> x}}", "a8080a8080"),
        ("{{user}}", "{{> x db}}", "u"),
        ("{{user}}{{y}}", "{{> x db y=port}}", "u8080"),
        ("{{port}}", "{{> x port=5}}", "5"),
        ("{{this}}", "{{> x 's'}}{{> x missing}}", "s"),
        ("{{y}}{{#if y}}1{{else}}0{{/if}}", "{{> x y=missing}}", "0"),
        ("{{this.0}}{{this.1}}{{y}}", "{{> x hosts y=1}}", "ab1"),
        ("{{#each this}}{{@key}}={{this}} {{/each}}", "{{> x 'ab' y=1}}", "0=a 1=b y=1 "),
        ("{{#each this}}{{@key}}={{this}} {{/each}}", "{{> x 5 y=1}}", "y=1 "),
        ("{{user}}{{../port}}{{@root.port}}", "{{> x db}}", "u80808080"),
        ("{{this}}{{@index}}{{h}}", "{{#each hosts as |h|}}{{> x}}{{/each}}", "a0ab1b"),
        ("{{#with db}}{{y}}{{/with}}", "{{> x y=1}}", "1"),
        ("{{y}}", '{{> x y=(eq port "8080")}}', "true"),
        ("a", '{{#*inline "x"}}b{{/inline}}{{> x}}', "b"),
        ("a", '{{#with db}}{{#*inline "x"}}b{{/inline}}{{> x}}{{/with}}{{> x}}', "ba"),
        ("a", '{{#if port}}{{#*inline "x"}}b{{/inline}}{{/if}}{{> x}}', "b"),
        ("{{> y}}", '{{#*inline "y"}}b{{/inline}}{{> x}}', "b"),
        ("a", "{{~> x~}} {{>x}} {{> x }}", "aa a"),
        ("a", '{{> (lookup n "p")}}', "a"),
        ("\n- {{port}}\n- b\n", "\n  {{> x}}\nz", "  - 8080\n  - b\nz"),
        ("\na\n {{> indent content='b\\nc\\n'}}\nd\n", "\n  {{> x}}", "  a\n   b\n   c\n  d\n"),
        ("{{> indent content='b\\nc'}}", "\n  {{> x}}", "\nb\n  c"),
    ],
)
def test_inline_partials(body: str, rest: str, text: str) -> None:
    assert render(inline(body, rest), {**CONTEXT, "n": {"p": "x"}}) == text


@pytest.mark.parametrize("name", ["a/b.c", "a-b_1", "@a", "é"])
def test_a_partial_may_have_any_plain_name(name: str) -> None:
    assert render(f'{{{{#*inline "{name}"}}}}a{{{{/inline}}}}{{{{> {name}}}}}', {}) == "a"


@pytest.mark.parametrize(
    "template",
    [
        '{{> x}}{{#*inline "x"}}a{{/inline}}',
        '{{#each hosts}}{{#*inline "x"}}a{{/inline}}{{/each}}{{> x}}',
        '{{#*inline "outer"}}{{#*inline "x"}}b{{/inline}}{{/inline}}{{> outer}}{{> x}}',
    ],
)
def test_a_partial_is_known_from_its_definition_to_the_end_of_its_scope(template: str) -> None:
    with pytest.raises(TemplateRenderError, match="Partial not found x"):
        render(template, CONTEXT)


def test_errors_in_an_inline_partial_are_reported_where_they_are_written() -> None:
    with pytest.raises(TemplateRenderError) as error:
        render('{{#*inline "x"}}\n\n {{missing}}{{/inline}}\n{{> x}}', CONTEXT)
    assert str(error.value) == (
        'Error rendering "Unnamed template" line 3, col 2: Failed to access variable in strict mode Some("missing")'
    )


@pytest.mark.parametrize(
    ("body", "rest", "text"),
    [
        ("", "{{#> other}}{{port}}{{/other}}", "8080"),
        ("", "{{#> other db y=1}}{{user}}{{y}}{{/other}}", "u1"),
        ("[{{> @partial-block}}]", "{{#> x}}{{port}}{{/x}}", "[8080]"),
        ("[{{> @partial-block}}]", "{{#> x db}}{{user}}{{/x}}", "[u]"),
        ("[{{> @partial-block}}]", "{{#> x}}{{#> x}}in{{/x}}{{/x}}", "[[in]]"),
        ("[{{> y}}]", '{{#> x}}{{#*inline "y"}}b{{/inline}}{{/x}}', "[b]"),
        ("", "{{#> indent content=port}}not printed{{/indent}}", "8080"),
    ],
)
def test_partial_blocks(body: str, rest: str, text: str) -> None:
    assert render(inline(body, rest), CONTEXT) == text


@pytest.mark.parametrize("rest", ["{{> x}}", "{{#> x}}{{> @partial-block}}{{/x}}", "{{#> x}}{{> x}}{{/x}}"])
def test_there_is_no_partial_block_outside_of_one(rest: str) -> None:
    with pytest.raises(TemplateRenderError, match="Partial block cound not be found"):
        render(inline("{{> @partial-block}}", rest), CONTEXT)
