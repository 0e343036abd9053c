"""Our engine compared with its reference, handlebars-rust 6.4.4, through the Python bindings `handlebarrz`.

Templates and contexts are made up at random; both engines have to give the same text, or both an error with the same
words. Only the words of syntax errors are our own.

The bindings add two things of their own, which the templates here go round: they rewrite variables that begin with
`@` (so `@index` is written `./@index`, which is the same to the engine; and behind `{{{x}~}}` they mistake text for
variables), and they answer blocks of unknown helpers. And numbers are kept short, as it reads the last of 15 digits
inexactly.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from handlebarrz import HandlebarrzTemplate
from hypothesis import example, given
from hypothesis import strategies as st

from ankaios.common.handlebars.errors import TemplateRenderError, TemplateSyntaxError
from tests.support.examples import examples
from tests.unit.common.templates import render

CONTEXT: dict[str, Any] = {
    "port": "8080",
    "zero": "0",
    "empty": "",
    "text": "l1\nl2",
    "lines": "\nl1\n\nl2\n",
    "crlf": "l1\r\nl2\r\n",
    "hosts": ["a", "b"],
    "none": [],
    "db": {"user": "u", "pw": "p", "ports": ["1", "2"]},
    "blank": {},
    "nodes": [{"n": "1", "v": ["q"]}, {"n": "2", "v": ["r", "s"]}],
    "my-key": "mk",
    "eq": "a helper's name",
}


def reference() -> HandlebarrzTemplate:
    engine = HandlebarrzTemplate()
    engine.set_escape_fn("no_escape")
    engine.set_strict_mode(True)
    engine.register_partial("indent", "{{content}}")
    return engine


REFERENCE = reference()


def reference_result(template: str, context: dict[str, Any]) -> str:
    try:
        return "text " + str(REFERENCE.render_template(template, json.dumps(context), "{}"))
    except ValueError as error:
        return "syntax error" if str(error).startswith("Failed to parse") else f"error {error}"


def own_result(template: str, context: dict[str, Any]) -> str:
    try:
        return "text " + render(template, context)
    except TemplateSyntaxError:
        return "syntax error"
    except TemplateRenderError as error:
        return f"error {error}"


def joined(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map("".join)


def lists_of(part: st.SearchStrategy[str], most: int, least: int = 0, between: str = "") -> st.SearchStrategy[str]:
    return st.lists(part, min_size=least, max_size=most).map(between.join)


NAMES = st.sampled_from([*CONTEXT, "user", "n", "v", "k", "missing", "0", "1", "this", "[0]", "[my-key]", "ports"])
PATHS = st.one_of(
    NAMES,
    st.sampled_from(["./@index", "./@first", "./@last", "./@key", "./@../index", "./@../key", "./@root.port", "this"]),
    joined(
        st.sampled_from(["", "", "", "../", "../../", "this.", "./", "this/", "./@root.", "../this."]),
        lists_of(NAMES, 3, 1, "."),
    ),
    joined(NAMES, st.just("/"), NAMES),
)
LITERALS = st.one_of(
    st.sampled_from(['"8080"', "'a'", '""', "8080", "0", "-1", "1.5", "1E3", "true", "false", "null", "[1, 2]", "[]"]),
    st.sampled_from(['{"user": 1}', "{}", '["a", "b"]', '"\\n"', '"a\\n\\nb\\n"', "'it\\'s'", "[null]", "01", '"0"']),
)
TEST_HELPERS = st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte", "and", "or", "not", "len", "lookup", "if", "log"])
ARGUMENTS: st.SearchStrategy[str] = st.deferred(
    lambda: st.one_of(PATHS, PATHS, LITERALS, joined(st.just("("), CALLS, st.just(")")))
)
CALLS: st.SearchStrategy[str] = st.one_of(
    joined(TEST_HELPERS, st.just(" "), ARGUMENTS, st.just(" "), ARGUMENTS),
    joined(TEST_HELPERS, st.just(" "), ARGUMENTS),
)
TRIM = st.sampled_from(["", "", "", "", "", "~"])
TEXTS = st.one_of(
    st.sampled_from(
        ["\n", "\n", "\n  ", " ", "  \n", "\n\t", "- ", "a", "é\n", "\r\n", "\n\n", " x ", "\\\\", "\u00a0"]
    ),
    st.sampled_from(["\\{{", "\\{{port}} ", "}}", "{", "\\", ":\n ", "\\{{{{"]),
)
PARTIALS = st.one_of(
    joined(st.just("indent content="), ARGUMENTS),
    joined(st.just("indent content="), st.sampled_from(["text", "lines", "crlf", "empty", "port", "hosts"])),
    joined(st.sampled_from(["x", "around", "unknown"]), st.just(" "), ARGUMENTS | st.just("")),
    joined(st.just("x k="), ARGUMENTS),
    joined(st.just("x "), ARGUMENTS, st.just(" k="), ARGUMENTS),
)


def tag(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return joined(st.just("{{"), TRIM, inside, TRIM, st.just("}}"))


VALUES = st.one_of(
    tag(PATHS),
    tag(PATHS),
    tag(CALLS),
    joined(st.just("{{"), TRIM, st.just("{"), PATHS, st.just("}}}")),
    tag(joined(st.just("&"), PATHS)),
)
COMMENTS = st.sampled_from(["{{! c }}", "{{!-- {{c}} --}}", "{{!--}}"])
RAW = st.sampled_from(
    ["{{{{raw}}}} {{x}} {{{{/raw}}}}", "{{{{~raw~}}}}\n\\{{x}}\n{{{{~/raw~}}}}", "{{{{raw}}}}{{{{/raw}}}}"]
)
PARAMS = st.sampled_from(["", "", "", " as |k|", " as |k v|"])
OPENERS = st.one_of(
    joined(st.sampled_from(["if ", "unless "]), ARGUMENTS, st.sampled_from(["", "", " includeZero=true"])),
    joined(st.just("each "), st.sampled_from(["hosts", "db", "nodes", "this", "v", "none", "../hosts"]), PARAMS),
    joined(st.sampled_from(["each ", "with "]), ARGUMENTS, PARAMS),
    CALLS,
)
BODIES: st.SearchStrategy[str] = st.deferred(lambda: lists_of(ELEMENTS, 4))


def block(opener: str, body: str, inverse: str | None, chained: tuple[str, str] | None, trims: list[str]) -> str:
    parts = [f"{{{{{trims[0]}#{opener}{trims[1]}}}}}", body]
    if chained:
        parts += [f"{{{{{trims[2]}else {chained[0]}{trims[3]}}}}}", chained[1]]
    if inverse is not None:
        parts += [f"{{{{{trims[4]}else{trims[5]}}}}}", inverse]
    return "".join(parts) + f"{{{{{trims[6]}/{opener.split()[0]}{trims[7]}}}}}"


BLOCKS = st.builds(
    block,
    OPENERS,
    BODIES,
    st.none() | BODIES,
    st.none() | st.tuples(OPENERS, BODIES),
    st.lists(TRIM, min_size=8, max_size=8),
)
PARTIAL_BLOCKS = st.builds(
    "{{{{#> {} {}}}}}{}{{{{/{}}}}}".format, st.just("around"), ARGUMENTS, BODIES, st.just("around")
)
ELEMENTS: st.SearchStrategy[str] = st.one_of(
    TEXTS, TEXTS, VALUES, VALUES, BLOCKS, COMMENTS, RAW, tag(joined(st.just("> "), PARTIALS)), PARTIAL_BLOCKS
)
# Inline partials only call those before them: the reference engine does not survive one which calls itself.
SIMPLE = st.one_of(TEXTS, VALUES, COMMENTS, tag(st.just("> indent content=text")))
INLINE_PARTIALS = joined(
    joined(st.just('{{#*inline "x"}}'), lists_of(SIMPLE, 4), st.just("{{/inline}}"), st.sampled_from(["", "\n"])),
    joined(
        st.just('{{#*inline "around"}}'),
        lists_of(SIMPLE | st.sampled_from(["{{> x}}", "  {{> x}}\n", "{{> @partial-block}}"]), 4),
        st.just("{{/inline}}\n"),
    ),
)
TEMPLATES = BODIES | joined(INLINE_PARTIALS, BODIES)


@examples(150, derandomize=True, database=None)
@given(TEMPLATES)
@example("f: |\n  {{> indent content=text}}\nz")
@example("k: {{> indent content=lines}}\nz")
def test_templates_render_as_in_the_reference_engine(template: str) -> None:
    """[utest->swdd~config-renderer-supports-rendering-with-keeping-line-indent~1]"""
    assert own_result(template, CONTEXT) == reference_result(template, CONTEXT)


WORDS = st.text(st.sampled_from("ab01 \n\r\t{}\"'&<é😀.-"), max_size=6)
ITEMS = st.recursive(WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3))


@pytest.mark.parametrize(
    "template",
    [
        "{{a}}|{{{b}}}|{{&this}}",
        "k:\n  {{> indent content=a}}\n\t {{> indent content=b}}!\nend {{> indent content=a}}",
        "{{#each this as |v k|}}{{k}}={{v}}{{#unless ./@last}},{{/unless}}\n{{/each}}",
        "{{#each a}}{{./@index}}{{#each this}}{{./@key}}:{{this}}{{else}}-{{/each}}{{else}}none{{/each}}",
        "{{len a}} {{eq a b}} {{ne a b}} {{gt a b}} {{gte a b}} {{lt a b}} {{lte a b}}",
        "{{and a b}} {{or a b}} {{not a}} {{#and a b}}y{{else}}n{{/and}}",
        "{{#if a}}A{{else if b}}B{{else}}C{{/if}} {{#with a}}{{this}}{{else}}{{../b}}{{/with}} {{a.[0]}}{{b.0.1}}",
        "{{gt a 1}} {{lt b 10}} {{gte a 0.5}} {{lookup a 0}} {{lookup b 'a'}}",
    ],
)
@examples(40, derandomize=True, database=None)
@given(context=st.fixed_dictionaries({"a": ITEMS, "b": ITEMS}))
def test_any_values_print_and_compare_as_in_the_reference_engine(template: str, context: dict[str, Any]) -> None:
    assert own_result(template, context) == reference_result(template, context)


SIGNS = "{{ }} {{{ }}} {{{{ }}}} ~ # / ^ > * & ! -- \\ . .. ../ [ ] ( ) = \" ' | 1 - , { } : $ é"
WORDS_IN_TAGS = "else if raw each as inline null true port hosts x k this (eq(1)1) 'a'"
TAGS = "{{port}} {{else}} {{/if}} {{{{raw}}}} {{{{/raw}}}} {{/each}} {{!-- --}}"
TOKENS = st.sampled_from(
    [
        *f"{SIGNS} {WORDS_IN_TAGS} {TAGS}".split(),
        *("{{#if port}}", "{{#each hosts as |k|}}", " ", " ", "\n", "\t"),
    ]
)


@examples(250, derandomize=True, database=None)
@given(lists_of(TOKENS, 12, 1))
def test_any_sequence_of_tokens_is_accepted_or_rejected_as_in_the_reference_engine(template: str) -> None:
    assert own_result(template, CONTEXT) == reference_result(template, CONTEXT)
