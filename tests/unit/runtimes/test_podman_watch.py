"""Changes of containers are detected without calls of podman."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shutil import rmtree

import pytest

from ankaios.common.execution_state import FAILED_LOST, RUNNING_OK, exited
from ankaios.runtimes.podman import container_watch, podman_watch
from ankaios.runtimes.podman.container_watch import ContainerWatch
from ankaios.runtimes.podman.places import Monitor, exit_code, read_monitor
from ankaios.runtimes.podman.podman_resync import PodmanResync
from ankaios.runtimes.podman.podman_settings import PodmanSettings
from ankaios.runtimes.podman.podman_watch import PodmanWatch
from tests.support.bugs import FailsOnce
from tests.support.waiting import until
from tests.unit.runtimes.fake_monitor import FakeMonitor, FakePodmanFolders
from tests.unit.runtimes.recording_cli import PS, RecordingCli, a_container

C1, C2 = "c1" * 32, "c2" * 32


class Watched:
    """A watch of a container with its hints."""

    def __init__(self, watches: PodmanWatch, container: str, final: bool = True) -> None:
        self.hints = 0
        self._came = asyncio.Event()
        self.watch: ContainerWatch = watches.watch(container, final, self._hint)

    def _hint(self) -> None:
        self.hints += 1
        self._came.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self._came.clear()
                await self._came.wait()

    async def hinted(self) -> None:
        await self.until(lambda: self.hints > 0)


async def folders_are_watched(watches: PodmanWatch) -> None:
    """They are watched some time after the first container was found."""
    async with asyncio.timeout(60):
        while watches._folders is None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@pytest.fixture
def folders(tmp_path: Path) -> FakePodmanFolders:
    return FakePodmanFolders(tmp_path)


@pytest.fixture
def monitors(folders: FakePodmanFolders) -> Iterator[Callable[..., FakeMonitor]]:
    made: list[FakeMonitor] = []

    def make(container: str = C1, **more: bool | Sequence[str]) -> FakeMonitor:
        made.append(FakeMonitor(folders, container, **more))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for monitor in made:
        monitor.close()


@pytest.fixture
async def watches() -> Iterator[PodmanWatch]:  # type: ignore[misc]
    changes: list[None] = []
    made = PodmanWatch(lambda: changes.append(None))
    yield made
    made.close()


Make = Callable[..., FakeMonitor]


async def test_the_exit_code_of_a_container_is_read_without_podman(watches: PodmanWatch, monitors: Make) -> None:
    monitor = monitors()
    watched = Watched(watches, C1)
    assert watched.watch.attach(monitor.pid)
    assert watched.watch.fact == RUNNING_OK
    assert watched.watch.alive
    monitor.end(3)
    await watched.hinted()
    assert watched.watch.fact == exited(3)
    assert not watched.watch.alive


async def test_after_one_container_was_seen_the_next_ones_are_found_by_their_pid_file(
    watches: PodmanWatch, monitors: Make
) -> None:
    first = monitors(C1)
    assert not Watched(watches, C1).watch.attach()  # the paths of the files are not known yet
    assert Watched(watches, C1).watch.attach(first.pid)
    monitors(C2)
    assert Watched(watches, C2).watch.attach()


async def test_a_process_of_another_container_is_not_watched(watches: PodmanWatch, monitors: Make) -> None:
    """The kernel may have reused the process id since the listing."""
    monitor = monitors(C1)
    watched = Watched(watches, C2)
    assert not watched.watch.attach(monitor.pid)
    assert watched.watch.fact is None


async def test_the_exit_file_of_an_earlier_run_is_ignored(
    watches: PodmanWatch, monitors: Make, folders: FakePodmanFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_watch, "EXIT_FILE_PAUSES", (0.0, 0.001))
    folders.exit_file(C1).write_text("7")
    monitor = monitors(exit_file=False)
    watched = Watched(watches, C1)
    assert watched.watch.attach(monitor.pid)
    monitor.end(0)
    await watched.hinted()
    assert watched.watch.fact is None  # a listing is needed


async def test_a_missing_exit_file_triggers_a_listing(
    watches: PodmanWatch, monitors: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_watch, "EXIT_FILE_PAUSES", (0.0, 0.001))
    monitor = monitors(exit_file=False)
    watched = Watched(watches, C1)
    watched.watch.attach(monitor.pid)
    began = watched.watch.since
    monitor.end(0)
    await watched.hinted()
    assert watched.watch.fact is None
    assert watched.watch.since > began


async def test_an_internal_error_while_reading_the_exit_code_triggers_a_listing(
    watches: PodmanWatch, monitors: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = monitors()
    watched = Watched(watches, C1)
    watched.watch.attach(monitor.pid)
    monkeypatch.setattr(container_watch, "exit_code", FailsOnce(exit_code))
    monitor.end(3)
    await watched.hinted()
    assert watched.watch.fact is None
    assert "internal error in the reading of the exit code of c1c1c1c1c1c1, giving it up: Bug: a bug" in caplog.text


async def test_a_container_that_removes_itself_is_lost_when_it_ends(watches: PodmanWatch, monitors: Make) -> None:
    monitor = monitors(auto_remove=True)
    watched = Watched(watches, C1)
    watched.watch.attach(monitor.pid)
    monitor.end(0)
    await watched.hinted()
    assert watched.watch.fact == FAILED_LOST


async def test_a_container_that_podman_restarts_stays_running(watches: PodmanWatch, monitors: Make) -> None:
    watches.restart_pause = 1000
    monitor = monitors()
    watched = Watched(watches, C1, final=False)
    watched.watch.attach(monitor.pid)
    monitor.end(1)
    monitor.wait()
    async with asyncio.timeout(60):
        while watched.watch.alive:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert watched.watch.fact == RUNNING_OK  # until a listing is available
    monitors(C1)
    watched.watch.look_for_restart()
    assert watched.watch.fact == RUNNING_OK
    assert watched.watch.alive


async def test_a_container_that_podman_did_not_restart_triggers_a_listing(watches: PodmanWatch, monitors: Make) -> None:
    watches.restart_pause = 0.0
    monitor = monitors()
    watched = Watched(watches, C1, final=False)
    watched.watch.attach(monitor.pid)
    monitor.end(1)
    await watched.hinted()
    assert watched.watch.fact is None


async def test_an_ended_container_that_a_user_restarts_is_detected(watches: PodmanWatch, monitors: Make) -> None:
    monitor = monitors()
    watched = Watched(watches, C1)
    watched.watch.attach(monitor.pid)
    monitor.end(0)
    await watched.until(lambda: watched.watch.fact == exited(0))
    monitor.wait()
    monitors(C1)
    await watched.until(lambda: watched.watch.fact == RUNNING_OK)


async def test_a_container_removed_by_a_user_triggers_a_listing(
    watches: PodmanWatch, monitors: Make, folders: FakePodmanFolders
) -> None:
    monitor = monitors(C1)
    watched, other = Watched(watches, C1), Watched(watches, C2)
    watched.watch.attach(monitor.pid)
    await folders_are_watched(watches)
    (folders.containers / C2).mkdir()
    rmtree(folders.containers / C2)
    await other.hinted()
    assert watched.hints == 0


async def test_a_container_removed_by_the_agent_triggers_no_listing(
    watches: PodmanWatch, monitors: Make, folders: FakePodmanFolders
) -> None:
    monitor = monitors(C1)
    watched, other = Watched(watches, C1), Watched(watches, C2)
    watched.watch.attach(monitor.pid)
    await folders_are_watched(watches)
    watches.suspend_reports(C1)
    watches.suspend_reports("not watched")
    monitor.close()
    rmtree(folders.containers / C1)
    (folders.containers / C2).mkdir()
    await other.hinted()
    watches.hint_all()
    assert watched.hints == 0
    watches.resume_reports(C1)
    assert watched.hints == 1


async def test_dropped_events_invalidate_all_facts(watches: PodmanWatch, monitors: Make) -> None:
    monitor = monitors(C1)
    watched = Watched(watches, C1)
    watched.watch.attach(monitor.pid)
    watches._changed("", "")
    assert watched.hints == 1
    assert watched.watch.fact is None


async def test_a_closed_watch_gives_no_hints(watches: PodmanWatch, monitors: Make) -> None:
    monitor = monitors()
    watched, other = Watched(watches, C1), Watched(watches, C1)
    watched.watch.attach(monitor.pid)
    other.watch.attach(monitor.pid)
    watched.watch.close()
    watched.watch.invalidate()
    monitor.end(0)
    await other.hinted()
    assert watched.hints == 0
    assert not watched.watch.attach(monitor.pid)


async def test_without_folder_watches_containers_are_listed(
    watches: PodmanWatch, monitors: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_space(_: object) -> None:
        raise OSError(24, "no more watches")

    monkeypatch.setattr(podman_watch, "Inotify", no_space)
    monitor = monitors()
    watched = Watched(watches, C1)
    watched.watch.attach(monitor.pid)
    monitor.end(3)
    await watched.hinted()
    assert watched.watch.fact == exited(3)
    assert "removed containers are detected later" in caplog.text


async def test_a_listing_replaces_the_fact_unless_the_process_is_alive(watches: PodmanWatch, monitors: Make) -> None:
    monitor = monitors(C1)
    alive, unseen = Watched(watches, C1), Watched(watches, C2)
    alive.watch.attach(monitor.pid)
    for watched in (alive, unseen):
        watched.watch.update(FAILED_LOST, 5.0)
    assert alive.watch.fact == RUNNING_OK
    assert (unseen.watch.fact, unseen.watch.since) == (FAILED_LOST, 5.0)


def test_the_arguments_of_a_monitor_contain_the_paths_of_its_files() -> None:
    arguments = ["conmon", "-c", C1, "-p", f"/run/x/{C1}/pidfile", "--exit-dir", "/tmp/exits"]
    assert read_monitor(arguments, C1) == Monitor(f"/run/x/{C1}/pidfile", "/tmp/exits", False)
    assert read_monitor(arguments, C2) is None
    assert read_monitor(["conmon", C1], C1) == Monitor(None, None, False)
    assert read_monitor(["conmon", C1, "-p", "/elsewhere/pidfile"], C1) == Monitor(None, None, False)
    stored = [*arguments, "--exit-command-arg", "--root", "--exit-command-arg", "/var/containers"]
    assert read_monitor(stored, C1) == Monitor(f"/run/x/{C1}/pidfile", "/tmp/exits", False, "/var/containers")
    removing = [*arguments, "--exit-command-arg", "--rm"]
    assert read_monitor(removing, C1) == Monitor(f"/run/x/{C1}/pidfile", "/tmp/exits", True)


@pytest.mark.parametrize("file", ["libpod/bolt_state.db", "db.sql"])
async def test_a_state_that_podman_stores_is_detected(
    watches: PodmanWatch, monitors: Make, tmp_path: Path, file: str
) -> None:
    """The state of a paused container is visible only in the database."""
    database = tmp_path / "graph" / file
    database.parent.mkdir(parents=True)
    database.write_text("running")
    more = ("--exit-command-arg", "--root", "--exit-command-arg", str(tmp_path / "graph"))
    monitor = monitors(more=more)
    watched = Watched(watches, C1)
    assert watched.watch.attach(monitor.pid)
    await folders_are_watched(watches)
    database.read_text()
    assert not watches.states_written.is_set()
    database.write_text("paused")
    async with asyncio.timeout(60):
        await watches.states_written.wait()


async def test_a_replaced_database_is_watched_again_after_the_next_resync(
    watches: PodmanWatch, monitors: Make, tmp_path: Path
) -> None:
    """For example by `podman system reset`. The kernel drops the watch of a removed file."""
    database = tmp_path / "graph/db.sql"
    database.parent.mkdir()
    database.touch()
    monitor = monitors(more=("--exit-command-arg", "--root", "--exit-command-arg", str(tmp_path / "graph")))
    cli = RecordingCli([a_container(C1, Pid=monitor.pid)], settings=PodmanSettings(resync=0.001))
    resync = PodmanResync(cli, watches)
    watched = Watched(watches, C1)
    watched.watch.attach(monitor.pid)
    await folders_are_watched(watches)
    database.unlink()
    database.touch()
    resync.begin()
    await until(lambda: cli.count(PS) >= 2)
    database.write_text("paused")
    async with asyncio.timeout(60):
        await watches.states_written.wait()
    await resync.close()
