"""Connectors made from names."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ankaios.runtimes.child_process import ChildProcess
from ankaios.runtimes.early_listing import EarlyListing
from ankaios.runtimes.nerdctl_cli import NerdctlSettings
from ankaios.runtimes.on_demand import OnDemand
from ankaios.runtimes.podman_settings import PodmanSettings
from ankaios.runtimes.registry import RUNTIME_NAMES, make_connectors
from ankaios.runtimes.runtime_connector import RuntimeConnector


def make(names: list[str], nerdctl: str = "true") -> Mapping[str, OnDemand]:
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


def test_without_nerdctl_containerd_is_as_if_not_enabled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert list(make(["containerd", "podman"], nerdctl="/no/such")) == ["podman"]
    assert "runtime 'containerd' is not enabled: the program nerdctl is not installed" in caplog.text


def test_both_podman_connectors_share_one_podman() -> None:
    made = make(["podman", "podman-kube"])
    first, second = (made[name].load() for name in ("podman", "podman-kube"))
    assert first._podman is second._podman  # type: ignore[attr-defined]


def test_a_connector_is_loaded_when_it_is_needed() -> None:
    script = """
import sys
from collections.abc import Mapping
from pathlib import Path
from ankaios.runtimes.registry import RUNTIME_NAMES, make_connectors
made = make_connectors(RUNTIME_NAMES, Path("/run/x"), "agent_A")
print([name for name in sys.modules if name.endswith("_runtime")])
made["native"].load()
print([name for name in sys.modules if name.endswith("_runtime")])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "['ankaios.runtimes.native_runtime']"]


async def test_the_native_runtime_is_loaded_for_a_list_only_if_it_was_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_connectors(["native"], tmp_path, "agent_A")["native"]
    loads: list[str] = []
    load = made.load

    def observed_load() -> RuntimeConnector:
        loads.append("native")
        return load()

    monkeypatch.setattr(made, "load", observed_load)
    assert await made.existing_workloads("agent_A") == []
    assert loads == []
    (tmp_path / "agent_A_native").mkdir(mode=0o700)
    assert await made.existing_workloads("agent_A") == []
    assert loads == ["native"]


async def test_what_was_never_needed_is_closed_as_well() -> None:
    for connector in make(list(RUNTIME_NAMES)).values():
        await connector.close()


async def test_an_early_listing_is_taken_even_if_nothing_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = asyncio.Event()
    take = EarlyListing.take

    def observed_take(listing: EarlyListing) -> ChildProcess | None:
        taken.set()
        return take(listing)

    monkeypatch.setattr(EarlyListing, "take", observed_take)
    settings = PodmanSettings(program="true")
    made = make_connectors(["podman-kube"], tmp_path, "agent_A", settings, early=EarlyListing(settings))
    assert not taken.is_set()
    async with asyncio.timeout(30):
        await taken.wait()
    for connector in made.values():
        await connector.close()


def test_settings_have_defaults() -> None:
    assert "podman" in make_connectors(["podman", "containerd", "native"], Path("/run/x"), "agent_A")
