"""One folder for everything temporary of a test run, and a look after each module at what it left behind.

`scripts/test` brings the folder with it, adopts orphaned processes and looks once more at the end
(`tools/clean_run.py`); a pytest of its own makes and removes the folder here. What the machine has of podman is neither
seen nor touched: storage and settings are in the folder, too. What was skipped, and what needed a second try, is noted
for the end of `scripts/test`.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.notes import note
from tools.isolated_podman import IsolatedPodman
from tools.leftovers import KEEPER_VARIABLE, RUN_PREFIX, RUN_VARIABLE, Traces, processes_of, wait_until_gone

ROOT = Path(__file__).resolve().parent.parent
# What native workloads of the tests see their files and pipes at, if the agent is root: mounting needs something there.
MOUNT_POINTS = (
    *("/run/ankaios/control_interface", "/run/ankaios"),
    *("/etc/ankaios-example/network.conf", "/etc/ankaios-example", "/etc/dashboard.conf"),
)


class Run:
    """Owns the folder if nobody gave it, the podman in it and the mount points."""

    def __init__(self) -> None:
        given = os.environ.get(RUN_VARIABLE)
        self._owned = given is None
        self.folder = Path(given or tempfile.mkdtemp(prefix=RUN_PREFIX)).resolve()
        self._keeper = int(os.environ.get(KEEPER_VARIABLE, 0)) or None
        self._podman = IsolatedPodman(
            with_image=False, folder=Path(tempfile.mkdtemp(prefix="podman-", dir=self.folder))
        )
        self._mount_points = [path for path in map(Path, MOUNT_POINTS) if not os.path.lexists(path)]
        self._set_environment()
        self._before = Traces.now(self.folder, ROOT)
        self._told: set[str] = set()

    def _set_environment(self) -> None:
        """For every process that a test starts."""
        os.environ[RUN_VARIABLE] = os.environ["TMPDIR"] = str(self.folder)
        os.environ["DISCOVERY_HANDLERS_DIRECTORY"] = str(self.folder / "akri")
        os.environ.update(self._podman.variables)
        tempfile.tempdir = None

    def newly_left(self) -> list[str]:
        """What is left behind, each only once."""
        left = wait_until_gone(lambda: [trace for trace in self._left() if trace not in self._told])
        self._told.update(left)
        return left

    def _left(self) -> list[str]:
        self.remove_mount_points()
        traces = Traces.now(self.folder, ROOT).since(self._before)
        storages = [f"podman storage {path}" for path in self.folder.glob("ank-podman-*")]
        return [*processes_of(self.folder, self._keeper).values(), *traces, *storages]

    def remove_mount_points(self) -> None:
        for path in self._mount_points:
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()

    def close(self) -> None:
        self._podman.close()
        self.remove_mount_points()
        if self._owned:
            shutil.rmtree(self.folder, ignore_errors=True)


THE_RUN = pytest.StashKey[Run]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[THE_RUN] = Run()


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[THE_RUN].close()


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set up before everything else of a module, so what is seen here outlived all of it."""
    yield
    if left := request.config.stash[THE_RUN].newly_left():
        pytest.fail("left behind by this file:\n" + "\n".join(left), pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skipping is fine, doing it silently is not. Nor is what fails now and then."""
    for report in terminalreporter.stats.get("skipped", []):
        file, _, reason = report.longrepr
        note("skipped", reason.removeprefix("Skipped: "), str(Path(file).relative_to(ROOT)))
    for kind in ("failed", "error"):
        for report in terminalreporter.stats.get(kind, []):
            note("failed", "", report.nodeid)
