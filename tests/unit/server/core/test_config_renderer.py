from typing import Any

import pytest

from ankaios.common.errors import Rejected
from ankaios.common.state_manipulation import MISSING
from ankaios.server.core.config_renderer import RenderedWorkload, render_workload
from tests.unit.server.scenario import a_form

CONFIGS: dict[str, Any] = {
    "p": "8080",
    "h": ["a", "b"],
    "d": {"user": "u", "pw": "p"},
    "c": "l1\nl2",
    "cn": "l1\nl2\n",
    "agent": "n2",
    "b64": "eA==",
}
ALIASES = {"port": "p", "hosts": "h", "db": "d", "cfg": "c"}


def rendered(config: str = "x", aliases: dict[str, str] | None = None, **more: Any) -> RenderedWorkload:
    form = a_form(config=config, configs=ALIASES if aliases is None else aliases, **more)
    return render_workload("web", form, lambda key: CONFIGS.get(key, MISSING))


def fault(config: str = "x", aliases: dict[str, str] | None = None, **more: Any) -> str:
    with pytest.raises(Rejected) as caught:
        rendered(config, aliases, **more)
    return str(caught.value)


@pytest.mark.parametrize(
    ("template", "result"),
    [
        ("p: {{port}} {{hosts.1}} {{hosts}} {{db}}", "p: 8080 b [a, b] [object]"),
        ("x:\n{{#each hosts}}\n- {{this}}\n{{/each}}\nend", "x:\n- a\n- b\nend"),
        ("{{#each db}}{{@key}}={{this}};{{/each}}{{#if tls}}on{{else}}off{{/if}}", "pw=p;user=u;off"),
        ("no braces", "no braces"),
    ],
)
def test_templates_become_the_content_of_the_configs(template: str, result: str) -> None:
    """[utest->swdd~config-renderer-renders-workload-configuration~2]
    [utest->swdd~server-delegate-template-render-to-external-library~1]
    """
    assert rendered(template).form["runtimeConfig"] == result


@pytest.mark.parametrize(
    ("template", "key", "result"),
    [
        ("f: |\n  {{> indent content=cfg}}\nz", "c", "f: |\n  l1\n  l2z"),
        ("f: |\n  {{> indent content=cfg}}\nz", "cn", "f: |\n  l1\n  l2\nz"),
        ("k: {{> indent content=cfg}}\nz", "c", "k: l1\n l2\nz"),
    ],
)
def test_the_indent_of_a_line_can_be_kept(template: str, key: str, result: str) -> None:
    """[utest->swdd~config-renderer-supports-rendering-with-keeping-line-indent~1]"""
    assert rendered(template, {"cfg": key}).form["runtimeConfig"] == result


def test_agent_and_files_are_rendered_and_the_references_are_removed() -> None:
    """[utest->swdd~config-renderer-renders-workload-configuration~2]"""
    files = [{"mountPoint": "/{{a}}", "data": "on {{a}}"}, {"mountPoint": "/b", "binaryData": "{{b}}"}]
    workload = rendered(aliases={"a": "agent", "b": "b64"}, agent="{{a}}", files=files, tags={"t": "{{a}}"})
    assert workload.form["agent"] == "n2"
    assert workload.form["files"] == [
        {"mountPoint": "/{{a}}", "data": "on n2"},
        {"mountPoint": "/b", "binaryData": "eA=="},
    ]
    assert workload.form["tags"] == {"t": "{{a}}"}, "tags are no templates"
    assert "configs" not in workload.form
    assert workload.instance_name == RenderedWorkload.of("web", workload.form).instance_name
    assert workload.instance_name.agent == "n2"


def test_a_workload_without_references_is_taken_as_it_is() -> None:
    """[utest->swdd~config-renderer-renders-workload-configuration~2]"""
    form = a_form(config="{{port}} {{#if}}")
    assert render_workload("web", form, lambda key: MISSING).form is form


def test_a_missing_config_is_an_error_even_if_it_is_not_used() -> None:
    assert fault(aliases={"c": "nope"}) == "Workload references config key 'nope' that does not exist"


def test_templates_use_aliases_and_not_keys() -> None:
    assert "Failed to access variable in strict mode" in fault("{{p}}")


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"config": "a\nb: {{tls}}"}, "runtimeConfig"),
        ({"agent": "a\nb: {{tls}}"}, "agent"),
        ({"files": [{"mountPoint": "/m", "data": "a\nb: {{tls}}"}]}, "files with mount point /m"),
    ],
)
def test_a_missing_variable_is_reported_with_its_field_and_position(parts: dict[str, Any], field: str) -> None:
    assert fault(**parts) == (
        f"Failed to render field '{field}': 'Error rendering \"Unnamed template\" line 2, col 4: "
        'Failed to access variable in strict mode Some("tls")\''
    )


def test_an_invalid_template_is_reported_with_its_field() -> None:
    assert fault("{{#if port}}").startswith("Failed to render field 'runtimeConfig': '")


def test_a_text_too_long_for_the_cache_is_rendered() -> None:
    assert rendered("x" * 20_000 + "{{port}}").form["runtimeConfig"].endswith("x8080")
