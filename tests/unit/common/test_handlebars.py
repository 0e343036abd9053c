"""What templates print: values, paths, helpers, blocks and partials."""

from __future__ import annotations

from typing import Any

import pytest

from ankaios.common.errors import Rejected
from ankaios.common.handlebars.errors import TemplateRenderError, TemplateSyntaxError
from ankaios.common.handlebars.template import compile_template
from tests.unit.common.templates import render

CONTEXT: dict[str, Any] = {
    "port": "8080",
    "zero": "0",
    "empty": "",
    "cfg": "l1\nl2",
    "hosts": ["a", "b"],
    "db": {"user": "u", "pw": "p"},
    "no_hosts": [],
    "no_db": {},
    "nodes": [{"name": "n1", "tags": ["x"]}, {"name": "n2", "tags": ["y", "z"]}],
    "my-key": "mk",
    "a b": "with blank",
}


def rendered(template: str) -> str:
    return render(template, CONTEXT)


def reason(template: str) -> str:
    """Return why a template cannot be rendered, without the position."""
    with pytest.raises(TemplateRenderError) as error:
        rendered(template)
    return str(error.value).partition(": ")[2]


def test_the_engine_needs_only_text_and_values() -> None:
    """[utest->swdd~server-delegate-template-render-to-external-library~1]"""
    assert render("image: {{image}}", {"image": "nginx"}) == "image: nginx"


def test_a_template_is_compiled_once_and_rendered_many_times() -> None:
    template = compile_template("{{#each hosts}}{{this}}{{/each}}")
    assert [template.render({"hosts": [*hosts]}) for hosts in ("a", "", "bc")] == ["a", "", "bc"]


def test_rendering_does_not_change_the_context() -> None:
    context: dict[str, Any] = {"content": "x", "hosts": ["a"]}
    render('{{#*inline "p"}}{{k}}{{/inline}}{{> p k=1}}{{> indent content="y"}}{{#each hosts}}{{/each}}', context)
    assert context == {"content": "x", "hosts": ["a"]}


def test_a_template_error_is_a_rejection() -> None:
    assert issubclass(TemplateSyntaxError, Rejected)
    assert issubclass(TemplateRenderError, Rejected)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("p: {{port}} {{hosts.1}} {{hosts}} {{db}}", "p: 8080 b [a, b] [object]"),
        ("x:\n{{#each hosts}}\n- {{this}}\n{{/each}}\nend", "x:\n- a\n- b\nend"),
        ("{{#each db}}{{@key}}={{this}};{{/each}}{{#if tls}}on{{else}}off{{/if}}", "pw=p;user=u;off"),
        ("f: |\n  {{> indent content=cfg}}\nz", "f: |\n  l1\n  l2z"),
        ("k: {{> indent content=cfg}}\nz", "k: l1\n l2\nz"),
    ],
)
def test_worked_examples(template: str, text: str) -> None:
    assert rendered(template) == text


def test_a_missing_variable_is_an_error_with_line_and_column() -> None:
    with pytest.raises(TemplateRenderError) as error:
        rendered("a\nb: {{tls}}")
    assert str(error.value) == (
        'Error rendering "Unnamed template" line 2, col 4: Failed to access variable in strict mode Some("tls")'
    )


def test_columns_count_characters() -> None:
    with pytest.raises(TemplateRenderError, match="line 2, col 3:"):
        rendered("é\r\n😀é{{tls}}")


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("{{a.b}}", 'Some("a.b")'),
        ("{{db.user.x}}", 'Some("db.user.x")'),
        ("{{hosts.7}}", 'Some("hosts.7")'),
        ("{{../tls}}", 'Some("../tls")'),
        ("{{@root.tls}}", 'Some("@root.tls")'),
        ("{{@index}}", 'Some("@index")'),
        ("{{this.tls}}", 'Some("this.tls")'),
        ('{{["q" \\ \u00a0\u0301]}}', 'Some("[\\"q\\" \\\\ \\u{a0}\\u{301}]")'),
        ("{{{tls}}}", 'Some("tls")'),
        ("{{&tls}}", 'Some("tls")'),
        ("{{0}}", 'Some("0")'),
        ("{{é😀}}", 'Some("é😀")'),
        ("{{true}}", 'Some("true")'),
    ],
)
def test_the_path_of_a_missing_variable_is_shown_as_written(template: str, shown: str) -> None:
    assert reason(template) == f"Failed to access variable in strict mode {shown}"


@pytest.mark.parametrize("template", ["{{x}}", "{{{x}}}", "{{&x}}", "{{ x }}", "{{\nx\n}}", "{{~{x}~}}", "{{{~x~}}}"])
def test_nothing_is_escaped(template: str) -> None:
    assert render(template, {"x": "<a href=\"x\">'&'"}) == "<a href=\"x\">'&'"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a text", "a text"),
        ([], "[]"),
        (["a", ["b", {}], ""], "[a, [b, [object]], ]"),
        ({"k": "v"}, "[object]"),
        ({}, "[object]"),
    ],
)
def test_values_print_as_text(value: Any, text: str) -> None:
    assert render("{{x}}", {"x": value}) == text


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ("'single'", "single"),
        ('"double"', "double"),
        ("'it\\'s \"'", "it's \""),
        (r'"tab\tline\nquote\" slash\/ \u0041\ud83d\ude00"', 'tab\tline\nquote" slash/ A😀'),
        ("'a}}b{{c'", "a}}b{{c"),
        ("8080", "8080"),
        ("-5", "-5"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "1.8446744073709552e+19"),
        ("-9223372036854775809", "-9.223372036854776e+18"),
        ("1.50", "1.5"),
        ("1E3", "1000.0"),
        ("1E15", "1000000000000000.0"),
        ("1E16", "1e+16"),
        ("-0.000012", "-0.000012"),
        ("0.00001", "0.00001"),
        ("1E-6", "1e-6"),
        ("true", "true"),
        ('[1, "a", [true, null, -0], {"k": 1}]', "[1, a, [true, , -0.0], [object]]"),
        ('{"a": 1, "b": {}}', "[object]"),
    ],
)
def test_literals_print_as_text(literal: str, text: str) -> None:
    assert rendered(f"{{{{#with {literal}}}}}{{{{this}}}}{{{{/with}}}}") == text


@pytest.mark.parametrize("literal", ["null", "false", "0", "0.0", '""', "[]", "{}"])
def test_empty_literals_are_false(literal: str) -> None:
    assert rendered(f"{{{{#if {literal}}}}}yes{{{{else}}}}no{{{{/if}}}}") == "no"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{db.user}}{{db/user}}{{db.[user]}}{{[db].[user]}}", "uuuu"),
        ("{{hosts.0}}{{hosts.[0]}}{{hosts/0}}{{hosts.01}}{{hosts.[+1]}}", "aaabb"),
        ("{{my-key}} {{[a b]}}", "mk with blank"),
        ("{{this.port}}{{./port}}{{this/port}}{{../port}}{{../../port}}", "8080" * 5),
        ("{{db.this.user}}{{db.user.this}}", "uu"),
        ("{{#with db}}{{user}} {{../port}} {{@root.port}} {{@root.db.user}}{{/with}}", "u 8080 8080 u"),
        (
            "{{#each nodes}}{{#each tags}}{{../name}}{{this}}{{../../port}} {{/each}}{{/each}}",
            "n1x8080 n2y8080 n2z8080 ",
        ),
        ("{{#each nodes}}{{#if name}}{{name}}{{../port}}{{/if}}{{/each}}", "n18080n28080"),
        ("{{this}}{{@root.this}}{{@this}}{{@root.@this}}", "[object]" * 4),
        ("{{#if @root.port}}y{{/if}}{{#if @root}}y{{else}}n{{/if}}", "yn"),
    ],
)
def test_paths(template: str, text: str) -> None:
    assert rendered(template) == text


def test_a_path_above_the_outermost_scope_stays_in_the_current_scope() -> None:
    assert rendered("{{#with db}}{{../../user}}{{/with}}") == "u"


@pytest.mark.parametrize("index", ["x", "-1", "[ 0 ]", "1_0", "99999999999999999999999"])
def test_a_list_has_no_names(index: str) -> None:
    expected = f"Cannot access array/vector with string index, {index.strip('[]')}"
    assert reason(f"{{{{hosts.{index}}}}}") == expected
    assert reason(f"{{{{#if hosts.{index}}}}}{{{{/if}}}}") == expected


@pytest.mark.parametrize(
    ("value", "branch"),
    [
        *((value, "yes") for value in ("port", "zero", "hosts", "db", "1", "-0.5", "true", "'0'", "[0]")),
        *((value, "no") for value in ("empty", "no_hosts", "no_db", "0", "null", "false", "tls", "a.b.c")),
    ],
)
def test_if_and_unless_choose_by_truth(value: str, branch: str) -> None:
    assert rendered(f"{{{{#if {value}}}}}yes{{{{else}}}}no{{{{/if}}}}") == branch
    assert rendered(f"{{{{#unless {value}}}}}no{{{{^}}}}yes{{{{/unless}}}}") == branch


@pytest.mark.parametrize(
    ("condition", "branch"),
    [
        ("0 includeZero=true", "yes"),
        ("0.0 includeZero=true", "yes"),
        ("0 includeZero=1", "no"),
        ("0 includeZero=port", "no"),
        ('"" includeZero=true', "no"),
        ("null includeZero=true", "no"),
        ("tls includeZero=true", "no"),
        ("port tls x=tls", "yes"),
    ],
)
def test_only_include_zero_makes_zero_true(condition: str, branch: str) -> None:
    assert rendered(f"{{{{#if {condition}}}}}yes{{{{else}}}}no{{{{/if}}}}") == branch


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{#if tls}}a{{else if port}}b{{else}}c{{/if}}", "b"),
        ("{{#if tls}}a{{else if empty}}b{{else}}c{{/if}}", "c"),
        ("{{#if tls}}a{{else if empty}}b{{/if}}", ""),
        ("{{#if tls}}a{{elseif port}}b{{/if}}", "b"),
        ("{{#if tls}}a{{^if port}}b{{/if}}", "b"),
        ("{{#if tls}}a{{else with db}}{{user}}{{/if}}", "u"),
        ("{{#if tls}}a{{else each hosts as |h|}}{{h}}{{else}}none{{/if}}", "ab"),
        ("{{#each no_hosts}}a{{else unless tls}}b{{/each}}", "b"),
        ("{{#eq port 1}}a{{else eq port '8080'}}b{{/eq}}", "b"),
        ("{{#if port}}{{#if tls}}a{{else}}{{#if db}}b{{/if}}{{/if}}{{/if}}", "b"),
    ],
)
def test_else_chains(template: str, text: str) -> None:
    assert rendered(template) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{#each hosts}}{{@index}}{{@first}}{{@last}} {{/each}}", "0truefalse 1falsetrue "),
        ("{{#each db}}{{@index}}{{@key}}{{@first}}{{@last}} {{/each}}", "0pwtruefalse 1userfalsetrue "),
        ("{{#each hosts as |h i|}}{{h}}{{i}}{{this}}{{/each}}", "a0ab1b"),
        ("{{#each db as |v k|}}{{k}}={{v}} {{/each}}", "pw=p user=u "),
        ("{{#each nodes as |n|}}{{n.name}}{{name}}{{/each}}", "n1n1n2n2"),
        (
            "{{#each nodes as |n i|}}{{#each n.tags as |t j|}}{{i}}{{j}}{{n.name}}{{t}} {{/each}}{{/each}}",
            "00n1x 10n2y 11n2z ",
        ),
        ("{{#each nodes}}{{#each tags}}{{@../index}}{{@index}} {{/each}}{{/each}}", "00 10 11 "),
        ("{{#each hosts}}{{#with ../db}}{{@index}}{{@../index}}{{user}}{{/with}}{{/each}}", "00u11u"),
        ("{{#each hosts as |port|}}{{../port}}{{/each}}", "ab"),
        ("{{#each no_hosts}}a{{else}}b{{/each}}{{#each no_db}}a{{else}}b{{/each}}", "bb"),
        ("{{#each no_hosts}}a{{/each}}{{#each no_db}}a{{/each}}", ""),
        ("{{#each tls}}a{{else}}{{port}}{{/each}}{{#each port}}a{{else}}b{{/each}}", "8080b"),
        ("{{#each (lookup nodes 1)}}{{@key}} {{/each}}", "name tags "),
        ("{{each hosts}}{{each tls}}", ""),
    ],
)
def test_each(template: str, text: str) -> None:
    assert rendered(template) == text


def test_each_iterates_over_a_map_in_the_order_of_its_keys() -> None:
    keys = ["b", "B", "10", "9", "é", "a b", "😀", ""]
    assert render("{{#each this}}{{@key}},{{/each}}", dict.fromkeys(keys, "")) == ",10,9,B,a b,b,é,😀,"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{#with db}}{{user}}{{/with}}", "u"),
        ("{{#with db as |d|}}{{d.user}}{{user}}{{/with}}", "uu"),
        ("{{#with db as |d|}}{{#with ../hosts}}{{d.user}}{{0}}{{/with}}{{/with}}", "ua"),
        ("{{#with tls}}a{{else}}{{port}}{{/with}}{{#with empty}}a{{else}}b{{/with}}", "8080b"),
        ("{{#with db.user}}{{this}}{{../port}}{{/with}}", "u8080"),
        ("{{#with (lookup nodes 0)}}{{#each tags}}{{this}}{{../name}}{{../../port}}{{/each}}{{/with}}", "xn18080"),
        ("{{with db}}", ""),
    ],
)
def test_with(template: str, text: str) -> None:
    assert rendered(template) == text


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("{{#each tls}}a{{/each}}", 'Some("tls")'),
        ("{{#each port}}a{{/each}}", 'Some("port")'),
        ("{{#each 'port'}}a{{/each}}", "None"),
        ("{{#each (len port)}}a{{/each}}", "None"),
        ("{{#with tls}}a{{/with}}", 'Some("tls")'),
        ("{{#with empty}}a{{/with}}", 'Some("empty")'),
        ("{{#with no_db}}a{{/with}}", 'Some("no_db")'),
        ("{{#with false}}a{{/with}}", "None"),
        ("{{with tls}}", 'Some("tls")'),
        ("{{lookup db 'x'}}", "None"),
        ("{{lookup hosts 2}}", "None"),
        ("{{lookup hosts -1}}", "None"),
        ("{{lookup hosts 1.0}}", "None"),
        ("{{lookup hosts true}}", "None"),
        ("{{lookup hosts '1'}}", "None"),
        ("{{lookup db 1}}", "None"),
        ("{{lookup port 0}}", "None"),
        ("{{lookup tls 'x'}}", "None"),
        ("{{#if (lookup db 'x')}}a{{else}}b{{/if}}", "None"),
        ("{{#with db as |a b|}}{{a}}{{/with}}", 'Some("a")'),
        ("{{#if port as |a|}}{{a}}{{/if}}", 'Some("a")'),
        ("{{#each hosts}}{{@key}}{{/each}}", 'Some("@key")'),
        ("{{#each hosts}}{{@../index}}{{/each}}", 'Some("@../index")'),
        ("{{#each db}}{{#each ../hosts}}{{@key}}{{/each}}{{/each}}", 'Some("@key")'),
        ("{{#each hosts}}{{@../../../index}}{{/each}}", 'Some("@../../../index")'),
        ("{{#each hosts}}{{@root.@index}}{{/each}}", 'Some("@root.@index")'),
        ("{{#with db}}{{port}}{{/with}}", 'Some("port")'),
    ],
)
def test_a_missing_value_without_an_else_is_an_error(template: str, shown: str) -> None:
    assert reason(template) == f"Failed to access variable in strict mode {shown}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{not tls}}", "Helper/Decorator not param at index 0 required but not found"),
        ("{{not}}", "Helper/Decorator not param at index 0 required but not found"),
        ("{{len tls}}", "Helper/Decorator len param with name x required but not found"),
        ("{{len}}", "Helper/Decorator len param with name x required but not found"),
        ("{{eq tls 1}}", "Helper/Decorator eq param at index 0 required but not found"),
        ("{{eq 1 tls}}", "Helper/Decorator eq param at index 1 required but not found"),
        ("{{gt 1}}", "Helper/Decorator gt param at index 1 required but not found"),
        ("{{#if}}{{/if}}", "Helper/Decorator if param at index 0 required but not found"),
        ("{{unless}}", "Helper/Decorator if param at index 0 required but not found"),
        ("{{#each}}{{/each}}", "Helper/Decorator each param at index 0 required but not found"),
        ("{{#with}}{{/with}}", "Helper/Decorator with param at index 0 required but not found"),
        ("{{lookup hosts}}", "Helper/Decorator lookup param at index 1 required but not found"),
        ("{{port x}}", "Helper not found port"),
        ("{{#port}}{{/port}}", "Helper not found port"),
        ("{{#if (tls)}}{{/if}}", "Helper not found tls"),
        ("{{(db.user)}}", "Helper not found db.user"),
        ("{{{{port}}}}{{{{/port}}}}", "Helper not found port"),
        ("{{log 1 level='loud'}}", "Invalid logging level: loud"),
        ("{{#*other}}{{/other}}", "Decorator not found other"),
        ("{{*inline 'x'}}", "Block content required"),
        ("{{#*inline}}{{/inline}}", "Helper/Decorator inline param at index 0 required but not found"),
        ("{{#*inline 1}}{{/inline}}", "Invalid param type, String expected"),
        ("{{> other}}", "Partial not found other"),
        ("{{> @partial-block}}", "Partial block cound not be found"),
    ],
)
def test_wrong_calls(template: str, message: str) -> None:
    assert reason(template) == message


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("eq port '8080'", "true"),
        ("eq port 8080", "false"),
        ("ne port 8080", "true"),
        ("eq 1 1.0", "false"),
        ("eq true 1", "false"),
        ("eq null null", "true"),
        ('eq hosts ["a", "b"]', "true"),
        ('eq db {"pw": "p", "user": "u"}', "true"),
        ('ne db {"pw": "p"}', "true"),
        ("gt port 9", "true"),
        ("gt port '9'", "false"),
        ("lt port '9'", "true"),
        ("gte 8080 port", "true"),
        ("lte '1E3' 1000", "true"),
        ("gt 9007199254740993 9007199254740992.0", "true"),
        ("gt '05' 1", "false"),
        ("lte '05' 1", "false"),
        ("gt true false", "true"),
        ("gte null null", "false"),
        ("gte hosts hosts", "false"),
        ("and port tls", "false"),
        ("and port hosts db", "true"),
        ("and", "true"),
        ("or tls empty zero", "true"),
        ("or", "false"),
        ("not empty", "true"),
        ("not zero", "false"),
        ("len hosts", "2"),
        ("len db", "2"),
        ("len 'né'", "3"),
        ("len 5", "0"),
        ("lookup hosts 1", "b"),
        ("lookup db 'user'", "u"),
        ("lookup (lookup nodes 1) 'tags'", "[y, z]"),
        ("(eq (len hosts) 2)", "true"),
        ("and (eq 1 1) (not (eq port 1))", "true"),
        ("eq (if port) ''", "true"),
        ("log 'x' level='WARN'", ""),
        ("log tls level=tls", ""),
        ("raw", ""),
        ("if port", ""),
    ],
)
def test_helpers_print_their_value(call: str, text: str) -> None:
    assert rendered(f"{{{{{call}}}}}") == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{#eq port '8080'}}y{{else}}n{{/eq}}", "y"),
        ("{{#gt port 9000}}y{{else}}n{{/gt}}", "n"),
        ("{{#not empty}}y{{/not}}", "y"),
        ("{{#and port tls}}y{{/and}}", ""),
        ("{{#len hosts}}y{{else}}n{{/len}}", "2"),
        ("{{#lookup db 'user'}}y{{else}}n{{/lookup}}", "u"),
        ("{{#log 'x'}}y{{else}}n{{/log}}", ""),
        ("{{#raw}}{{port}}{{else}}n{{/raw}}", "8080"),
    ],
)
def test_helpers_as_blocks(template: str, text: str) -> None:
    assert rendered(template) == text


def test_a_name_that_is_a_helper_calls_the_helper() -> None:
    context = {"len": "a value", "and": "a value"}
    assert render("{{and}} {{this.len}} {{[len]}} {{./and}}", context) == "true a value a value a value"
    with pytest.raises(TemplateRenderError, match="len param with name x required"):
        render("{{len}}", context)
