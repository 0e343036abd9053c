import pytest

from ankaios.common.errors import Rejected
from ankaios.common.yaml_text import load_yaml
from ankaios.server.core.scalar_spelling import as_written


def agent(text: str) -> object:
    return as_written(load_yaml(text, "it"), text)["workloads"]["web"]["agent"]


def fault(text: str) -> str:
    with pytest.raises(Rejected) as caught:
        agent(text)
    return str(caught.value)


@pytest.mark.parametrize(
    "word",
    [
        "1.10",
        "1.1",
        "1e3",
        "12e5",
        "007",
        "7",
        "0x1f",
        "0o17",
        "+1",
        "-0",
        "True",
        "true",
        "FALSE",
        ".inf",
        ".NaN",
        "1.",
    ],
)
@pytest.mark.parametrize(
    "layout",
    [
        "workloads:\n  web:\n    agent: {word}\n    runtime: podman\n",
        "workloads:\n  web:\n    runtime: podman\n    agent:   {word}  # the old one",
        "workloads: {{web: {{runtime: podman, agent: {word}}}}}",
        "workloads: {{web: {{'agent' : {word}, runtime: podman}}}}",
        '{{"workloads":{{"web":{{"agent":{word},"runtime":"podman"}}}}}}',
        "workloads:\r\n  web:\r\n    agent: {word}\r\n",
        "workloads:\n  web:\n    agent: {word}\n  other:\n    agent: n1\n    runtimeConfig: 'agent: 99'\n",
    ],
)
def test_a_name_that_looks_like_a_number_keeps_its_spelling(layout: str, word: str) -> None:
    assert agent(layout.format(word=word)) == word


def test_each_field_keeps_its_own_spelling() -> None:
    text = "apiVersion: 1.10\nworkloads: {web: {agent: 1.0, runtime: 1.00, runtimeConfig: 1.000}}"
    assert as_written(load_yaml(text, "it"), text) == {
        "apiVersion": "1.10",
        "workloads": {"web": {"agent": "1.0", "runtime": "1.00", "runtimeConfig": "1.000"}},
    }


def test_other_fields_and_other_values_are_not_changed() -> None:
    text = "configs: {k: 1.10}\nworkloads: {web: {agent: , runtime: [1.10], tags: {a: 1.10}}, odd: 1.10}"
    manifest = load_yaml(text, "it")
    assert as_written(manifest, text) == manifest
    assert as_written({"workloads": [1.1]}, "") == {"workloads": [1.1]}


def test_an_ambiguous_spelling_is_rejected_with_a_hint_to_use_quotes() -> None:
    text = "workloads:\n  web: {agent: 1.10}\n  other: {agent: 1.1}\n"
    assert fault(text) == (
        "workloads.web.agent: the value is read as `1.1`, and it is written '1.1' or '1.10': put it in quotes"
    )


@pytest.mark.parametrize("value", ["&a 1.10", "!!float 1.10", "\n      1.10"])
def test_an_unknown_spelling_is_rejected_with_a_hint_to_use_quotes(value: str) -> None:
    assert "its spelling is ambiguous: put it in quotes" in fault(f"workloads:\n  web:\n    agent: {value}\n")


def test_a_word_that_is_no_yaml_is_no_spelling() -> None:
    text = "workloads:\n  web:\n    agent: 1e3\n    runtimeConfig: |\n      agent: *nobody\n"
    assert agent(text) == "1e3"
