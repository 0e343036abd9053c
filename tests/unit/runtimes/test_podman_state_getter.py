"""The newest source of a container's state takes precedence, and podman is called only without one."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ankaios.common.execution_state import (
    FAILED_LOST,
    FAILED_UNKNOWN,
    RUNNING_OK,
    STOPPING,
    SUCCEEDED_OK,
    exited,
)
from ankaios.runtimes.generic_polling_state_checker import POLL_INTERVAL
from ankaios.runtimes.podman import container_watch
from ankaios.runtimes.podman.podman_state_getter import PodmanKubeStateGetter, PodmanStateGetter
from ankaios.runtimes.podman.podman_watch import PodmanWatch
from ankaios.runtimes.podman.states import KUBE_UNKNOWN, METADATA_UNREADABLE, PODMAN_UNREADABLE, PODS_UNREADABLE
from ankaios.runtimes.runtime_connector import RuntimeFailed
from tests.unit.runtimes.fake_monitor import FakeMonitor, FakePodmanFolders
from tests.unit.runtimes.recording_cli import PS, RecordingCli, a_container, failed

C1, C2 = "c1" * 32, "c2" * 32


class Bench:
    """A getter with scripted listings and a real watch."""

    def __init__(self, cli: RecordingCli, folders: FakePodmanFolders) -> None:
        self.cli = cli
        self.watches = PodmanWatch(cli.listings.reset)
        self.folders = folders
        self.monitors: list[FakeMonitor] = []
        self.hints = 0

    def getter(self, container: str = C1) -> PodmanStateGetter:
        getter = PodmanStateGetter(self.cli, self.watches, container, exits_are_final=True)
        getter.open(self._hint)
        return getter

    def kube(self, pods: Callable[[], list[str] | None]) -> PodmanKubeStateGetter:
        async def find() -> list[str] | None:
            return pods()

        getter = PodmanKubeStateGetter(self.cli, self.watches, find, exits_are_final=True)
        getter.open(self._hint)
        return getter

    def _hint(self) -> None:
        self.hints += 1

    async def hinted(self) -> None:
        async with asyncio.timeout(60):
            while not self.hints:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def monitor(self, container: str = C1, exit_file: bool = True) -> FakeMonitor:
        self.monitors.append(FakeMonitor(self.folders, container, exit_file=exit_file))
        return self.monitors[-1]


@pytest.fixture
async def bench(tmp_path: Path) -> Iterator[Bench]:  # type: ignore[misc]
    made = Bench(RecordingCli(), FakePodmanFolders(tmp_path))
    yield made
    made.watches.close()
    for monitor in made.monitors:
        monitor.close()


async def test_podman_is_called_for_an_unknown_container(bench: Bench) -> None:
    """[utest->swdd~podman-state-getter-uses-podmancli~1]"""
    bench.cli.show(a_container(C1, "exited", ExitCode=2))
    getter = bench.getter()
    assert await getter.get_state() == exited(2)
    assert bench.cli.lines() == [PS]
    assert getter.pause() is None


async def test_a_container_podman_does_not_list_is_lost(bench: Bench) -> None:
    """[utest->swdd~podman-state-getter-returns-removed-state~1]"""
    getter = bench.getter()
    assert await getter.get_state() == FAILED_LOST
    assert getter.pause() is None


async def test_if_podman_fails_the_state_is_unknown(bench: Bench) -> None:
    """[utest->swdd~podman-state-getter-returns-unknown-state~1]"""
    bench.cli.answers[PS] = failed()
    getter = bench.getter()
    assert await getter.get_state() == PODMAN_UNREADABLE
    assert getter.pause() == POLL_INTERVAL


async def test_a_watched_running_container_needs_no_more_calls(bench: Bench) -> None:
    monitor = bench.monitor()
    bench.cli.show(a_container(C1, Pid=monitor.pid))
    getter = bench.getter()
    assert await getter.get_state() == RUNNING_OK
    assert getter.pause() is None
    bench.cli.listings.reset()
    assert await getter.get_state() == RUNNING_OK
    assert bench.cli.count("ps") == 1


async def test_a_container_that_ended_between_an_old_listing_and_the_watch_is_listed_again(bench: Bench) -> None:
    monitor = bench.monitor()
    bench.cli.show(a_container(C1, Pid=monitor.pid))
    await bench.cli.listings.get()
    monitor.end(3)
    monitor.wait()
    bench.cli.answers[PS] = json.dumps([a_container(C1, "exited", ExitCode=3)])
    assert await bench.getter().get_state() == exited(3)
    assert bench.cli.count("ps") == 2


async def test_a_pod_whose_container_ended_between_an_old_listing_and_the_watch_is_listed_again(
    bench: Bench,
) -> None:
    monitor = bench.monitor()
    bench.cli.show(a_container(C1, Pid=monitor.pid, Pod="p"))
    await bench.cli.listings.get()
    monitor.end(3)
    monitor.wait()
    bench.cli.answers[PS] = json.dumps([a_container(C1, "exited", ExitCode=3, Pod="p")])
    assert await bench.kube(lambda: ["p"]).get_state() == exited(3)
    assert bench.cli.count("ps") == 2


async def test_a_running_container_whose_process_is_not_visible_is_listed_only_once_more(bench: Bench) -> None:
    """Its podman may run on another machine, so the process id is not valid on this one."""
    bench.cli.show(a_container(C1, Pid=2**22 - 1))
    await bench.cli.listings.get()
    assert await bench.getter().get_state() == RUNNING_OK
    assert bench.cli.count("ps") == 2


async def test_a_new_container_is_detected_as_running_without_a_call(bench: Bench) -> None:
    first = bench.monitor(C1)
    bench.cli.show(a_container(C1, Pid=first.pid))
    await bench.getter(C1).get_state()
    bench.cli.listings.reset()
    bench.monitor(C2)
    assert await bench.getter(C2).get_state() == RUNNING_OK
    assert bench.cli.count("ps") == 1


async def test_a_running_container_that_cannot_be_watched_is_polled_with_recent_listings(bench: Bench) -> None:
    bench.cli.show(a_container(C1))
    getter = bench.getter()
    assert await getter.get_state() == RUNNING_OK
    assert getter.pause() == POLL_INTERVAL
    bench.cli.show(a_container(C1, "exited", ExitCode=0))
    assert await getter.get_state() == SUCCEEDED_OK


async def test_while_the_process_runs_a_failure_of_podman_changes_nothing(bench: Bench) -> None:
    monitor = bench.monitor()
    bench.cli.show(a_container(C1, Pid=monitor.pid))
    getter = bench.getter()
    await getter.get_state()
    bench.cli.answers[PS] = failed()
    bench.cli.listings.reset()
    await bench.cli.listings.get()
    assert await getter.get_state() == RUNNING_OK


@pytest.mark.parametrize("word", ["stopped", "stopping", "running"])
async def test_an_ended_container_that_podman_has_not_cleaned_up_is_no_change(bench: Bench, word: str) -> None:
    monitor = bench.monitor()
    bench.cli.show(a_container(C1, Pid=monitor.pid))
    getter = bench.getter()
    assert await getter.get_state() == RUNNING_OK
    monitor.end(4)
    await bench.hinted()
    assert await getter.get_state() == exited(4)
    bench.cli.show(a_container(C1, word, Pid=monitor.pid))
    await bench.cli.listings.get()
    assert await getter.get_state() == exited(4)
    bench.cli.show(a_container(C1, "running", Pid=1))  # another run of the container
    await bench.cli.listings.get()
    assert await getter.get_state() == RUNNING_OK


async def test_an_end_without_exit_code_is_not_reported_before_podman_has_recorded_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When many containers end at the same time, podman is slow."""
    monkeypatch.setattr(container_watch, "EXIT_FILE_PAUSES", (0.0,))
    monitor = bench.monitor(exit_file=False)
    bench.cli.show(a_container(C1, Pid=monitor.pid))
    getter = bench.getter()
    assert await getter.get_state() == RUNNING_OK
    monitor.end(4)
    await bench.hinted()
    bench.cli.show(a_container(C1, "stopped"))
    assert await getter.get_state() == RUNNING_OK
    assert getter.pause() == POLL_INTERVAL
    bench.folders.exit_file(C1).write_text("4")
    assert await getter.get_state() == exited(4)


async def test_a_state_that_podman_keeps_reporting_is_finally_accepted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_watch, "EXIT_FILE_PAUSES", (0.0,))
    monkeypatch.setattr(container_watch, "RECORD_LIMIT", 0.0)
    monitor = bench.monitor(exit_file=False)
    bench.cli.show(a_container(C1, Pid=monitor.pid))
    getter = bench.getter()
    assert await getter.get_state() == RUNNING_OK
    monitor.end(4)
    await bench.hinted()
    bench.cli.show(a_container(C1, "stopped"))
    assert await getter.get_state() == STOPPING.because("stopped")


async def test_a_newer_listing_replaces_the_watched_state(bench: Bench) -> None:
    getter = bench.getter()
    bench.cli.show(a_container(C1, "exited", ExitCode=0))
    assert await getter.get_state() == SUCCEEDED_OK
    bench.cli.show()
    await bench.cli.listings.get()
    assert await getter.get_state() == FAILED_LOST
    bench.cli.listings.reset()
    assert await getter.get_state() == FAILED_LOST
    assert bench.cli.count("ps") == 2


async def test_a_paused_container_is_polled_less_and_less_often(bench: Bench) -> None:
    bench.cli.show(a_container(C1, "paused"))
    getter = bench.getter()
    pauses = []
    for _ in range(9):
        assert await getter.get_state() == FAILED_UNKNOWN.because("paused")
        pauses.append(getter.pause())
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    bench.cli.show(a_container(C1, "stopped"))
    assert await getter.get_state() == STOPPING.because("stopped")
    bench.cli.show(a_container(C1, "exited", ExitCode=0))
    assert await getter.get_state() == SUCCEEDED_OK
    assert getter.pause() is None


def in_pod(container: str, pod: str, state: str = "running", **more: int) -> dict[str, object]:
    return a_container(container, state, Pod=pod, **more)


async def test_the_state_of_pods_is_that_of_all_their_containers(bench: Bench) -> None:
    """[utest->swdd~podman-kube-state-getter-uses-container-states~1]"""
    bench.cli.show(in_pod("a", "p1"), in_pod("b", "p2", "exited", ExitCode=3), in_pod("c", "other", "paused"))
    getter = bench.kube(lambda: ["p1", "p2"])
    assert await getter.get_state() == exited(3)
    assert set(getter.containers()) == {"a", "b"}
    bench.cli.show(in_pod("a", "p1"), in_pod("b", "p2"))
    assert await getter.get_state() == RUNNING_OK
    assert getter.pause() == POLL_INTERVAL
    getter.close()


async def test_the_end_of_a_watched_container_of_a_pod_needs_no_call(bench: Bench) -> None:
    monitor = bench.monitor(C1)
    bench.cli.show(in_pod(C1, "p1", Pid=monitor.pid))
    getter = bench.kube(lambda: ["p1"])
    assert await getter.get_state() == RUNNING_OK
    assert getter.pause() is None
    monitor.end(5)
    await bench.hinted()
    assert await getter.get_state() == exited(5)
    assert bench.cli.count("ps") == 1


async def test_a_missing_pod_is_unknown_and_its_containers_are_not_watched_any_more(bench: Bench) -> None:
    bench.cli.show(in_pod("a", "p1"))
    getter = bench.kube(lambda: ["p1"])
    await getter.get_state()
    bench.cli.show()
    assert await getter.get_state() == KUBE_UNKNOWN
    assert getter.containers() == []


async def test_no_pods_are_lost_and_unknown_pods_count_as_succeeded(bench: Bench) -> None:
    assert await bench.kube(list).get_state() == FAILED_LOST
    assert await bench.kube(lambda: None).get_state() == SUCCEEDED_OK


async def test_errors_of_podman_and_missing_data_are_distinguished(bench: Bench) -> None:
    def missing() -> list[str]:
        raise RuntimeFailed("no volume")

    assert await bench.kube(missing).get_state() == METADATA_UNREADABLE
    bench.cli.answers[PS] = failed()
    assert await bench.kube(lambda: ["p1"]).get_state() == PODS_UNREADABLE


async def test_known_pods_become_unknown_after_a_failure_of_podman(bench: Bench) -> None:
    bench.cli.show(in_pod("a", "p1"))
    getter = bench.kube(lambda: ["p1"])
    assert await getter.get_state() == RUNNING_OK
    bench.cli.answers[PS] = failed()
    bench.cli.listings.reset()
    assert (await getter.get_state()).state == "Failed"
