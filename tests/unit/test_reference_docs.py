"""The reference pages are current and complete."""

import functools
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ankaios.cli.tree.ank import ANK
from ankaios.common.model.schema import schema_text
from tools import reference_docs
from tools.reference.markdown import plain
from tools.reference.wire_page import FILES, PROTO, read_proto
from tools.reference_docs import main

pages = functools.cache(reference_docs.pages)


def test_the_committed_pages_are_current(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(reference_docs, "pages", pages)
    assert (main(["--check"]), capsys.readouterr().err) == (0, "")


def test_a_page_that_is_not_current_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference_docs, "pages", pages)
    monkeypatch.setattr(reference_docs, "TARGET", tmp_path / "reference")
    assert main(["--check"]) == 1
    assert main([]) == 0
    assert main(["--check"]) == 0
    (tmp_path / "reference/wire.md").write_text("old")
    capsys.readouterr()
    assert main(["--check"]) == 1
    assert capsys.readouterr().err == "docs/reference/wire.md is not current: run tools/reference_docs.py\n"
    assert main(["--nonsense"]) == 2


def test_pages_do_not_depend_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pages()
    for name in ("HOME", "TMPDIR", "ANK_SERVER_URL", "ANKSERVER_CA_PEM"):
        monkeypatch.setenv(name, "/elsewhere")
    for name in ("ANK_INSECURE", "ANKAGENT_INSECURE", "ANKSERVER_INSECURE"):
        monkeypatch.setenv(name, "true")
    assert reference_docs.pages() == before


def test_links_within_a_page_have_targets_and_texts_are_not_run_as_commands() -> None:
    for name, text in pages().items():
        anchors = re.findall(r"\{#([\w-]+)\}", text)
        assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= set(anchors), name
        assert len(anchors) == len(set(anchors)), name
        assert "```console" not in text, name


def properties(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        for name, inner in schema.get("properties", {}).items():
            if "const" not in inner:  # a condition, not a property
                yield f"{path}.{name}", inner
        for key, inner in schema.items():
            yield from properties(inner, f"{path}.{key}")
    elif isinstance(schema, list):
        for inner in schema:
            yield from properties(inner, path)


def test_every_part_of_the_schema_is_explained_and_shown() -> None:
    text = pages()["manifest.md"]
    for path, schema in properties(json.loads(schema_text())):
        assert schema.get("description"), path
        assert f"| `{path.rpartition('.')[2]}` |" in text, path


def test_every_command_is_on_the_page() -> None:
    text = pages()["cli.md"]
    for command in ANK.children:
        for name in (f"ank-{command.name}", *(f"ank-{command.name}-{child.name}" for child in command.children)):
            assert f"{{#{name}}}" in text


@pytest.mark.parametrize("name", FILES)
def test_the_tables_have_what_the_compiled_messages_have(name: str) -> None:
    module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    read = {
        block.name: {(one.number, one.name) for one in block.fields}
        for block in read_proto((PROTO / name).read_text()).blocks
    }
    compiled: dict[str, set[tuple[int, str]]] = {}

    def note(message: Any) -> None:
        compiled[message.name] = {(one.number, one.name) for one in message.fields}
        for inner in message.nested_types:
            if not inner.GetOptions().map_entry:
                note(inner)
        for enum in message.enum_types:
            compiled[enum.name] = {(one.number, one.name) for one in enum.values}

    for message in module.DESCRIPTOR.message_types_by_name.values():
        note(message)
    for enum in module.DESCRIPTOR.enum_types_by_name.values():
        compiled[enum.name] = {(one.number, one.name) for one in enum.values}
    assert read == compiled


def test_an_unknown_line_of_a_proto_file_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot read 'reserved 5;'"):
        read_proto("message A {\n  reserved 5;\n}\n")


def test_additions_of_this_project_are_marked() -> None:
    text = pages()["wire.md"]
    assert "| 1000 | `deviceReport` | [DeviceReport](#grpc-DeviceReport) | **ours**" in text
    assert "### DeviceReport {#grpc-DeviceReport}\n\n**Ours.**" in text
    assert "### ServerHello {#grpc-ServerHello}\n\n|" in text


def test_texts_of_the_code_become_markdown() -> None:
    assert plain("for 'ank apply', a workload's <name>, {{a.b}} and a.*") == (
        "for `ank apply`, a workload's &lt;name>, `{{a.b}}` and a.\\*"
    )


def test_the_exit_codes_of_server_and_agent_are_as_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.common.log.setup_logging", lambda: None)
    monkeypatch.setattr("ankaios.server.program.setup_logging", lambda: None)
    for program in ("server", "agent"):
        start = import_module(f"ankaios.{program}.__main__").main
        for words, code in ((["--version"], 0), (["--help"], 0), (["--nonsense"], 2)):
            with pytest.raises(SystemExit) as ended:
                start(words)
            assert ended.value.code == code
        assert start(["-x", str(tmp_path / "missing.conf")]) == 1
