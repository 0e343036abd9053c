"""The start of the program: podman lists its containers from the start, and the listing never outlives the agent."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ankaios.agent import __main__ as program
from ankaios.agent.settings import AgentSettings
from ankaios.runtimes.podman.early_listing import EarlyListing
from tests.support.stand_in import StandIn


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    made = StandIn(tmp_path)
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    yield made
    made.close()


class Runs:
    """Replaces the rest of the agent, and records its arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.early: list[EarlyListing | None] = []
        self.pids: list[int] = []
        monkeypatch.setattr(program, "_run", self)

    def __call__(self, settings: AgentSettings, early: EarlyListing | None) -> None:
        self.early.append(early)
        if early is not None and early._process is not None:
            self.pids.append(early._process.pid)


def flags(tmp_path: Path, runtimes: str) -> list[str]:
    file = tmp_path / "agent.conf"
    file.write_text(f"version = 'v1'\nname = 'a'\nruntimes = {runtimes}\n")
    return ["-k", "-x", str(file)]


def test_podman_lists_its_containers_during_the_start_and_ends_with_the_agent(
    podman: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    podman.script("ps", do="hang")
    runs = Runs(monkeypatch)
    assert program.main(flags(tmp_path, "['podman']")) == 0
    (pid,) = runs.pids
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_agent_without_podman_does_not_call_it(
    podman: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(monkeypatch)
    assert program.main(flags(tmp_path, "['native']")) == 0
    assert runs.early == [None]
    assert podman.records() == []


def test_an_agent_starts_without_podman_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    runs = Runs(monkeypatch)
    assert program.main(flags(tmp_path, "['podman']")) == 0
    assert len(runs.early) == 1


def test_a_failed_start_leaves_no_podman_process(
    podman: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    podman.script("ps", do="hang")
    before = children()
    assert program.main([*flags(tmp_path, "['podman']"), "-r", str(tmp_path / "missing")]) == 1
    assert "does not exist, create it first" in capsys.readouterr().err
    assert children() <= before


def children() -> set[str]:
    """Children of this process, including ended ones that are not reaped."""
    return {pid for thread in Path("/proc/self/task").iterdir() for pid in (thread / "children").read_text().split()}
