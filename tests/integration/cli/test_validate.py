"""`ank validate` as a process: without a server and certificates; its output and exit codes."""

import json
from pathlib import Path

import pytest

from tests.integration.cli.ank import ank

MANIFEST = """\
apiVersion: v1
workloads:
  web:
    agent: node
    runtime: podman
    dependencies:
      db: ADD_COND_RUNNING
    configs:
      net: network
    runtimeConfig: |
      image: nginx
      commandOptions: ["-p", "{{net.prot}}:80"]
  db:
    agent: node
    runtime: native
    dependencies: {web: ADD_COND_RUNNING}
    runtimeConfig: |
      comand: [db]
configs:
  network: {port: "8080"}
"""
ADDED_BY_RUN = "apiVersion: v1\nconfigs:\n  paths: {python: python3, controller: controller.py}\n"
STORY = "story.yaml"  # steps of a simulation, which is no manifest
EXAMPLES = sorted(file for file in (Path(__file__).parents[3] / "examples").glob("*/*.yaml") if file.name != STORY)


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(MANIFEST)
    done = ank("validate", str(file))
    assert (done.returncode, done.stderr) == (1, "")
    lines = [line.removeprefix(f"{file}:") for line in done.stdout.splitlines()]
    assert [line.partition(": ")[0] for line in lines[:-1]] == ["12", "16", "18", "18"]
    assert "did you mean 'net.port'?" in lines[0]
    assert "workload dependency 'db' is part of a cycle: db -> web -> db." in lines[1]
    assert lines[2].endswith("command: expected a list with at least the program")
    assert lines[3].endswith("unknown key 'comand'; did you mean 'command'?")
    assert lines[4] == "3 errors, 1 warning in 1 file."


def test_output_for_other_programs_has_one_line_for_each_mistake_or_is_json() -> None:
    done = ank("validate", "--json", "-", stdin=MANIFEST)
    assert done.returncode == 1
    assert {(one["file"], one["severity"]) for one in json.loads(done.stdout)} == {
        ("<stdin>", "error"),
        ("<stdin>", "warning"),
    }


def test_without_files_it_prints_its_usage() -> None:
    done = ank("validate")
    assert done.returncode == 2
    assert "Usage: ank validate [OPTIONS] <FILE>..." in done.stderr


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_examples_have_no_errors(file: Path) -> None:
    done = ank("validate", str(file), "-", stdin=ADDED_BY_RUN)
    assert done.returncode == 0, done.stdout
