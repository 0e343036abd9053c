"""Connectors are created from names."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from ankaios.runtimes.child_process import ChildProcess
from ankaios.runtimes.connectors import Connectors
from ankaios.runtimes.podman.early_listing import EarlyListing
from ankaios.runtimes.podman.podman_settings import PodmanSettings
from ankaios.runtimes.registry import RUNTIME_NAMES, make_connectors
from tests.support.fake_runtime import FakeRuntime


@pytest.fixture(autouse=True)
def nerdctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "nerdctl"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program


def make(names: list[str]) -> Connectors:
    return make_connectors(names, Path("/run/x"), "agent_A", PodmanSettings())


def test_every_name_has_its_connector() -> None:
    """[utest->swdd~functions-required-by-runtime-connector~1]"""
    made = make(list(RUNTIME_NAMES))
    assert {name: connector.name for name, connector in made.items()} == {name: name for name in RUNTIME_NAMES}
    functions = ["existing_workloads", "create_workload", "workload_id", "start_checker", "delete_workload", "logs"]
    for connector in made.values():
        assert all(callable(getattr(connector, function)) for function in functions)


def test_only_requested_connectors_are_created() -> None:
    assert list(make(["podman"])) == ["podman"]
    assert list(make([])) == []


def test_an_unknown_name_is_reported_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    assert list(make(["docker", "native"])) == ["native"]
    assert "unknown runtime 'docker' is skipped" in caplog.text


def test_without_nerdctl_containerd_is_not_enabled(
    nerdctl: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    nerdctl.unlink()
    monkeypatch.setenv("PATH", str(nerdctl.parent))
    caplog.set_level("INFO")
    assert list(make(["containerd", "podman"])) == ["podman"]
    assert "runtime 'containerd' is not enabled: the program nerdctl is not installed" in caplog.text


def test_both_podman_connectors_share_one_podman() -> None:
    made = make(["podman", "podman-kube"])
    first, second = (made[name] for name in ("podman", "podman-kube"))
    assert first._podman is second._podman  # type: ignore[attr-defined]


def test_a_connector_is_loaded_when_it_is_needed() -> None:
    script = """
import sys
from pathlib import Path
from ankaios.runtimes.registry import RUNTIME_NAMES, make_connectors
made = make_connectors(RUNTIME_NAMES, Path("/run/x"), "agent_A")
print([name for name in sys.modules if name.endswith("_runtime")])
made["native"]
print([name for name in sys.modules if name.endswith("_runtime")])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "['ankaios.runtimes.native.native_runtime']"]


def test_without_its_folder_the_native_runtime_is_unused(tmp_path: Path) -> None:
    """An agent that lists existing workloads does not load it then."""
    made = make_connectors(["native", "podman"], tmp_path, "agent_A")
    assert made.is_unused("native")
    assert not made.is_unused("podman")
    (tmp_path / "agent_A_native").mkdir(mode=0o700)
    assert not made.is_unused("native")


def test_a_loaded_runtime_is_not_unused(tmp_path: Path) -> None:
    made = make_connectors(["native"], tmp_path, "agent_A")
    assert made["native"] is made["native"]
    assert not made.is_unused("native")


async def test_only_loaded_connectors_are_closed() -> None:
    first, second = FakeRuntime(), FakeRuntime()
    connectors = Connectors({"first": lambda: first, "second": lambda: second})
    assert connectors["first"] is first
    await connectors.close()
    assert (first.closed, second.closed) == (True, False)


def test_loaded_and_later_connectors_can_be_wrapped() -> None:
    connectors = Connectors({"first": FakeRuntime, "second": FakeRuntime})
    assert connectors["first"].name == "fake"
    connectors.wrap(lambda connector: FakeRuntime(f"wrapped {connector.name}"))
    assert [connector.name for connector in connectors.values()] == ["wrapped fake", "wrapped fake"]


async def test_an_early_listing_is_used_even_if_it_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    await made.close()


def test_settings_have_defaults() -> None:
    assert "podman" in make_connectors(["podman", "containerd", "native"], Path("/run/x"), "agent_A")
