"""The view of `ank up`."""

import sys
from math import inf
from pathlib import Path

import pytest

from ankaios.cli.up.up_view import (
    SETTLE_SECONDS,
    WAITING_SETTLE_SECONDS,
    command_lines,
    next_steps,
    own_command,
    settle_seconds,
)
from ankaios.cli.views.workload_rows import WorkloadRow


def row(name: str, state: str) -> WorkloadRow:
    return WorkloadRow((name, "id", "node"), "native", state, "")


def test_a_cluster_is_settled_when_nothing_changes_and_later_if_a_workload_waits() -> None:
    ended, waiting = row("a", "Succeeded(Ok)"), row("b", "Pending(WaitingToStart)")
    assert settle_seconds([]) == settle_seconds([ended]) == SETTLE_SECONDS
    assert settle_seconds([ended, waiting]) == WAITING_SETTLE_SECONDS > SETTLE_SECONDS
    for state in ("Pending(Initial)", "Pending(Starting)", "Stopping(Stopping)", "Stopping(RequestedAtRuntime)"):
        assert settle_seconds([waiting, row("c", state)]) == inf


def test_logs_of_a_running_workload_are_suggested() -> None:
    rows = [row("camera", "Running(Ok)"), row("upload", "Running(Ok)"), row("zip", "Succeeded(Ok)")]
    assert next_steps(rows, with_devices=False) == ["get workloads --watch", "logs -f upload", "get events"]


def test_without_a_running_workload_the_logs_of_another_one_are_suggested() -> None:
    assert next_steps([row("b", "Failed(ExecFailed)"), row("a", "Pending(Initial)")], True) == [
        *("get workloads --watch", "logs -f b", "get devices")
    ]


def test_an_empty_cluster_waits_for_a_manifest() -> None:
    assert next_steps([], with_devices=False)[1] == "apply MANIFEST.yaml"


def test_a_command_that_is_too_long_for_the_terminal_can_still_be_copied() -> None:
    assert command_lines("ank -k", "logs -f web", 80) == ["  ank -k logs -f web"]
    assert command_lines("/opt/ank -k", "logs -f web", 20) == ["  /opt/ank -k \\", "    logs -f web"]


def test_the_command_is_short_if_the_path_contains_this_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "my tools/ank"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert own_command() == f"'{program}'"
    monkeypatch.setenv("PATH", str(program.parent))
    assert own_command() == "ank"


def test_a_module_is_called_as_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/lib/ankaios/__main__.py"])
    monkeypatch.setattr(sys, "executable", "/bin/python3")
    assert own_command() == "/bin/python3 -m ankaios"
