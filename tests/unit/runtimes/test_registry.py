"""Connectors made from names."""

from pathlib import Path

import pytest

from ankaios.runtimes.nerdctl_cli import NerdctlSettings
from ankaios.runtimes.podman_settings import PodmanSettings
from ankaios.runtimes.registry import RUNTIME_NAMES, make_connectors
from ankaios.runtimes.runtime_connector import RuntimeConnector


def make(names: list[str], nerdctl: str = "true") -> dict[str, RuntimeConnector]:
    settings = NerdctlSettings(program=nerdctl)
    return make_connectors(names, Path("/run/x"), "agent_A", PodmanSettings(), settings)


def test_every_name_has_its_connector() -> None:
    """[utest->swdd~functions-required-by-runtime-connector~1]"""
    made = make(list(RUNTIME_NAMES))
    assert {name: connector.name for name, connector in made.items()} == {name: name for name in RUNTIME_NAMES}
    functions = ["existing_workloads", "create_workload", "workload_id", "start_checker", "delete_workload", "logs"]
    for connector in made.values():
        assert all(callable(getattr(connector, function)) for function in functions)


def test_only_what_is_wanted_is_made() -> None:
    assert list(make(["podman"])) == ["podman"]
    assert make([]) == {}


def test_an_unknown_name_is_warned_about_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    assert list(make(["docker", "native"])) == ["native"]
    assert "unknown runtime 'docker' is skipped" in caplog.text


def test_a_program_that_is_missing_may_be_installed_later() -> None:
    assert list(make(["containerd"], nerdctl="/no/such")) == ["containerd"]


def test_both_podman_connectors_share_one_podman() -> None:
    made = make(["podman", "podman-kube"])
    assert made["podman"]._podman is made["podman-kube"]._podman  # type: ignore[attr-defined]


def test_settings_have_defaults() -> None:
    assert "podman" in make_connectors(["podman", "containerd", "native"], Path("/run/x"), "agent_A")
