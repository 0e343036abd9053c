"""The output and the exit code of `ank validate`."""

import io
import json
from pathlib import Path

import pytest

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.command_line.parser import parse_command_line
from ankaios.cli.commands.validate import run
from ankaios.cli.settings import CliSettings
from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.tree.ank import ANK

GOOD = "apiVersion: v1\nworkloads:\n  web: {agent: n, runtime: podman, runtimeConfig: 'image: x'}\n"
BAD = GOOD.replace("podman", "podmen")


def ran(*words: str, quiet: bool = False) -> tuple[int, str]:
    out = io.StringIO()
    parsed = parse_command_line(ANK, ["validate", *words])
    output = CliOutput(out, io.StringIO(), environ={})
    output.quiet = quiet
    return run(CommandCall(parsed.path, parsed.values, CliSettings(), output)), out.getvalue()


def test_valid_files_have_no_findings(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD.replace("web", "db"))
    assert ran(str(tmp_path / "a.yaml")) == (0, "All fine in 1 file.\n")
    assert ran(str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")) == (0, "All fine in 2 files.\n")
    assert ran(str(tmp_path / "a.yaml"), quiet=True) == (0, "")


def test_errors_end_with_one_and_warnings_do_not(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(BAD)
    assert ran(str(file)) == (
        1,
        f"{file}:3: error: workloads.web.runtime: unknown runtime 'podmen'; did you mean 'podman'?\n"
        "1 error, 0 warnings in 1 file.\n",
    )
    file.write_text(GOOD + "workloads-: {}\n")
    code, text = ran(str(file))
    assert (code, text.splitlines()[-1]) == (0, "0 errors, 1 warning in 1 file.")


def test_json_is_a_list_of_findings(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(BAD)
    code, text = ran("--json", str(file))
    message = "unknown runtime 'podmen'; did you mean 'podman'?"
    path = "workloads.web.runtime"
    assert code == 1
    assert json.loads(text) == [{"file": str(file), "line": 3, "severity": "error", "path": path, "message": message}]
    file.write_text(GOOD)
    assert ran("--json", str(file)) == (0, "[]\n")


def test_a_missing_file_is_an_error_in_addition_to_those_of_other_files(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(BAD)
    code, text = ran(str(tmp_path / "none"), str(file), str(tmp_path))
    assert code == 1
    reason = "the file cannot be read: No such file or directory; check the name"
    assert text.splitlines()[0] == f"{tmp_path}/none: error: {reason}"
    assert text.splitlines()[1].startswith(f"{tmp_path}: error: the file cannot be read: Is a directory; ")
    assert text.splitlines()[-1] == "3 errors, 0 warnings in 3 files."


def test_a_file_given_twice_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(GOOD)
    assert ran(str(file), str(file))[0] == 0


def test_a_manifest_cannot_control_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(GOOD.replace("podman", '"\\e[31mred\\nline"'))
    _, text = ran(str(file))
    assert "\x1b" not in text
    assert len(text.splitlines()) == 2


def test_the_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.cli.commands.validate.read_input", lambda file: BAD.encode())
    code, text = ran("-")
    assert code == 1
    assert text.startswith("<stdin>:3: error: workloads.web.runtime: ")
