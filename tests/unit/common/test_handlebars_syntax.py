"""Syntax of templates: white space, escapes, comments, raw blocks, and syntax errors."""

from __future__ import annotations

from typing import Any

import pytest

from ankaios.common.handlebars.errors import TemplateSyntaxError
from ankaios.common.handlebars.template import compile_template
from tests.unit.common.templates import render

CONTEXT: dict[str, Any] = {
    "port": "8080",
    "hosts": ["a", "b"],
    "empty": "",
    "elsewhere": "x",
    "else": {"x": "e"},
    "null-able": "n",
    "1st": "f",
}


def rendered(template: str) -> str:
    return render(template, CONTEXT)


def fault(template: str) -> str:
    with pytest.raises(TemplateSyntaxError) as error:
        compile_template(template)
    return str(error.value)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a\n  {{#if port}}  \nb\n\t{{/if}}\t\nc", "a\nb\nc"),
        ("{{#if empty}}\na\n  {{else}}  \nb\n{{/if}}\nc", "b\nc"),
        ("{{#if empty}}\na\n  {{else if port}}  \nb\n{{/if}}\nc", "b\nc"),
        ("a\r\n{{#if port}}\r\nb\r\n{{/if}}\r\nc", "a\r\nb\r\nc"),
        ("a\n {{! c }} \nb\n {{!-- c --}} \nc", "a\nb\nc"),
        ("a\n {{! c\n c }} \nb", "a\nb"),
        ('a\n  {{#*inline "x"}}\n  b\n  {{/inline}}\nc', "a\nc"),
        ("a\n{{#> other}}\nb\n{{/other}}\nc", "a\nb\nc"),
        ("a\n  {{> indent content=empty}}\nb", "a\nb"),
        ("a\n {{{{raw}}}} \n {{x}}\n {{{{/raw}}}} \nb", "a\n{{x}}\nb"),
        ("  {{! at the start }}\na\n  {{! at the end }}", "a\n"),
        ("{{#if port}}\n{{#if port}}\na\n{{/if}}\n{{/if}}\nb", "a\nb"),
        ("{{! c }}\n\na", "\na"),
    ],
)
def test_the_line_of_a_tag_that_is_alone_on_it_is_removed(template: str, text: str) -> None:
    assert rendered(template) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a {{#if port}}\nb\n{{/if}} c\nd", "a \nb\n c\nd"),
        ("a\n{{#if port}}{{#if port}}\nb\n{{/if}}{{/if}}\nc", "a\n\nb\n\nc"),
        ("a\n {{! c }} {{! d }} \nb", "a\n   \nb"),
        ("a\n{{! blanks before the end }} ", "a\n "),
        ("a\n  {{port}}  \nb", "a\n  8080  \nb"),
        ("a\n\u00a0{{! c }}\nb", "a\n\u00a0\nb"),
        ("  {{#if port}}a{{/if}}\n", "  a\n"),
    ],
)
def test_the_line_of_a_tag_with_other_text_is_kept(template: str, text: str) -> None:
    assert rendered(template) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a \n\n {{~port~}} \n\t b", "a8080b"),
        ("a {{~port}} b {{port~}} c", "a8080 b 8080c"),
        ("a {{~#if port~}} b {{~else~}} c {{~/if~}} d", "abd"),
        ("a {{~#if empty~}} b {{~else~}} c {{~/if~}} d", "acd"),
        ("a\n  {{~#if port}}  \nb\n{{/if}}\nc", "ab\nc"),
        ("a {{~{port}~}} b {{{~port~}}} c {{~&port~}} d {{{port}~}} e", "a8080b8080c8080d 8080e"),
        ("a {{{{~raw~}}}} b {{{{~/raw~}}}} c", "abc"),
        ("{{port~}}{{! c }}  a", "8080a"),
        ("{{port~}}{{port}}  a", "80808080  a"),
        ("a  {{! c }}{{~port}}", "a  8080"),
        ("{{#if port}}a  {{/if}}{{~port}}", "a  8080"),
        ("a\u2028\u00a0{{~port~}}\x85b\x1c{{~port}}", "a8080b\x1c8080"),
        ("{{ ~ port ~ }}", "8080"),
    ],
)
def test_a_tilde_removes_all_white_space(template: str, text: str) -> None:
    assert rendered(template) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (r"\{{port}} {{port}}", "{{port}} 8080"),
        (r"\\{{port}}", "\\8080"),
        (r"\\\{{port}}", "\\\\8080"),
        (r"\{{{port}}} \{{{{raw}}}} \{{#if x}} \{{!x}} \{{", "{{{port}}} {{{{raw}}}} {{#if x}} {{!x}} {{"),
        (r"\ \\ \{port} a\b }} }}}} { {", r"\ \\ \{port} a\b }} }}}} { {"),
        ("{{port}}}", "8080}"),
        ("{{port~}}  \\{{x}}  {{~port}}", "8080{{x}}8080"),
    ],
)
def test_a_backslash_makes_braces_text(template: str, text: str) -> None:
    assert rendered(template) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a{{! c }}b{{!c}}d{{!}}e", "abde"),
        ("a{{!-- {{x}} }} --}}b", "ab"),
        ("a{{! {{x}} }}b", "a }}b"),
        ("a{{!-- x }}b", "ab"),
        ("a{{!-- x }}b{{! y --}}c", "ac"),
        ("a{{!--}}b", "ab"),
        ("{{!-- a }}{{!-- b }}{{port}}", "8080"),
    ],
)
def test_comments_print_nothing(template: str, text: str) -> None:
    assert rendered(template) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{{{raw}}}}{{x}} {{{y}}} }}}}{{{{/raw}}}}", "{{x}} {{{y}}} }}}}"),
        ("{{{{raw}}}} \n {{x}} {{{{/raw}}}} b", "{{x}}  b"),
        (r"{{{{raw}}}}\{{x}} \\{{y}} \{{{{z}}}}{{{{/raw}}}}", r"{{x}} \{{y}} {{{{z}}}}"),
        ("{{{{ raw }}}}{{{{/ raw }}}}", ""),
        ("{{{{if port}}}}{{x}}{{{{/if}}}}{{{{if empty}}}}{{x}}{{{{/if}}}}", "{{x}}"),
        ("{{{{each hosts as |h|}}}}{{h}}{{{{/each}}}}", "{{h}}{{h}}"),
    ],
)
def test_tags_in_a_raw_block_are_text(template: str, text: str) -> None:
    assert rendered(template) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ # if port }}a{{ / if }}", "a"),
        ("{{#if(eq port '8080')}}a{{/if}}", "a"),
        ("{{> indent content = port}}", "8080"),
        ("{{#each hosts as|h i|}}{{h}}{{i}}{{/each}}", "a0b1"),
        ("{{#each\nhosts\nas\n|\nh\n|\n}}{{h}}{{/each}}", "ab"),
        ("{{null-able}}{{1st}}{{eq 1st 'f'}}{{len null-able}}", "nftrue1"),
        ("{{eq[1]'a'}}{{eq 'a'\"a\"}}", "falsetrue"),
        ("{{{elsewhere}}}{{&elsewhere}}{{this.elsewhere}}{{#if elsewhere}}y{{/if}}", "xxxy"),
        ("{{#if port}}a{{elsewhere}}b{{/if}}", "a"),
        ('{{#with {"a":1}}}{{a}}{{/with}}', "1"),
        ("{{#each [ 1 , 2 ]}}{{this}}{{/each}}", "12"),
        ("{{#if [hosts]}}y{{/if}}", "y"),
        ("{{#if [1,]}}y{{else}}n{{/if}}", "n"),
        ("{{or as 1}}{{or else 1}}", "truetrue"),
        ("{{else.x}}{{#if port}}{{else/x}}{{/if}}", "ee"),
        ("{{#> a/b.c}}x{{/a/b.c}}{{#> 'q'}}y{{/'q'}}", "xy"),
    ],
)
def test_notations_of_tags_and_white_space(template: str, text: str) -> None:
    assert rendered(template) == text


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a\n  {{", "line 2, col 5: expected a variable or a helper, e.g. {{name}}, but the template ends"),
        ("{{}}", "line 1, col 3: expected a variable or a helper, e.g. {{name}}, but found '}}'"),
        ("{{port", "line 1, col 7: expected '}}' to end the tag, but the template ends"),
        ("{{port\n?}}", "line 2, col 1: expected '}}' to end the tag, but found '?}}'"),
        ("x\n{{#if port}}a", "line 2, col 1: 'if' is never closed, add '{{/if}}' where it ends"),
        ("a{{/if}}", "line 1, col 2: '{{/if}}' closes nothing, remove it or open its block before it"),
        (
            "\n{{#if port}}{{/with}}",
            "line 2, col 13: expected '{{/if}}' for the block opened in line 2, but found '{{/with}}'",
        ),
        ("{{else}}", "line 1, col 1: '{{else}}' has no block it belongs to, e.g. {{#if name}}"),
        (
            "{{#if a}}{{else}}{{else}}{{/if}}",
            "line 1, col 18: '{{else}}' has no block it belongs to, e.g. {{#if name}}",
        ),
        ("{{! never", "line 1, col 1: the comment has no end, add '}}'"),
        ("{{{port}}", "line 1, col 9: expected '}}' to end the tag, but found '}'"),
        ("{{#if}}{{/}}", "line 1, col 11: expected the name of the block to close, e.g. {{/if}}, but found '}}'"),
        ("{{#}}", "line 1, col 4: expected a helper, e.g. {{#if name}}, but found '}}'"),
        ("{{>}}", "line 1, col 4: expected the name of a partial, e.g. {{> indent content=name}}, but found '}}'"),
        (
            "{{> indent content=}}",
            "line 1, col 20: expected a value for 'content', e.g. content=name, but found '}}'",
        ),
        ("{{eq (a 1}}", "line 1, col 10: expected ')' to end the sub-expression, but found '}}'"),
        ("{{eq ()}}", "line 1, col 7: expected a helper, e.g. (eq a b), but found ')}}'"),
        (
            "{{eq 01 1}}",
            'line 1, col 6: invalid parameter "01", write it as in JSON, e.g. 10, 0.5, "text", [1, 2]',
        ),
        ("{{{{raw}}}}a", "line 1, col 13: expected '{{{{/raw}}}}' to end the raw block, but the template ends"),
        ("{{{{raw}}}}a{{{{/b}}}}", "line 1, col 13: expected '{{{{/raw}}}}' to end the raw block"),
        ("{{#> (lookup a 'b')}}", "line 1, col 1: a partial block needs a plain name, e.g. {{#> name}}"),
    ],
)
def test_a_syntax_error_contains_error_position_and_hint(template: str, message: str) -> None:
    assert fault(template) == f"Template syntax error in {message}"


@pytest.mark.parametrize(
    "template",
    [
        *(
            "{{.}}",
            "{{..}}",
            "{{./}}",
            "{{.port}}",
            "{{port.}}",
            "{{port..x}}",
            "{{db/../port}}",
            "{{@}}",
            "{{@root.}}",
        ),
        *('{{"port"}}', "{{'port'}}", "{{a?b}}", "{{a+b}}", "{{a=b}}", "{{a.b c}}", "{{&port x}}", "{{((eq 1 1))}}"),
        *(
            "{{elsewhere}}",
            "{{else x}}",
            "{{^}}",
            "{{^x}}{{/x}}",
            "{{~! c}}",
            "{{ ! c}}",
            "{{&~port}}",
            "{{port x as |y|}}",
        ),
        *("{{#each hosts as ||}}{{/each}}", "{{#each hosts as |a b c|}}{{/each}}", "{{#this.if x}}{{/this.if}}"),
        *(
            "{{eq [1E400] 1}}",
            "{{else.x",
            "{{eq 1. 1}}",
            "{{eq 1E400 1}}",
            "{{eq .5 1}}",
            "{{eq true.x 1}}",
            "{{eq ['a'] 1}}",
            "{{eq [,1] 1}}",
        ),
        *(
            r'{{eq "\q" 1}}',
            r'{{eq "\ud83d" 1}}',
            '{{eq "a\nb" 1}}',
            r"{{eq '\"' 1}}",
            "{{eq {a:1} 1}}",
            "{{eq {'a':1} 1}}",
        ),
        *('{{> "x"}}', "{{> x as |y|}}", "{{>~ x}}", "{{#*inline 'x'}}{{else}}{{/inline}}", "{{#> x}}{{else}}{{/x}}"),
        *("{{{{raw}}}}{{{{x}}}}{{{{/raw}}}}", "{{{{#raw}}}}{{{{/raw}}}}", "{{{~port}~}}", "{{> indent content=as}}"),
    ],
)
def test_unsupported_syntax_is_rejected(template: str) -> None:
    assert fault(template).startswith("Template syntax error in line ")
