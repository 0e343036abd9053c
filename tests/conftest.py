"""One folder for everything temporary of a test run, and a look after each module at what it left behind.

`scripts/test` brings the folder with it, adopts orphaned processes and looks once more at the end
(`tests/support/clean_run.py`); a pytest of its own makes and removes the folder here. Where two run at the same time
(`tests/support/lanes.py`) each has its part of the folder, and only one looks at places that others use, too. What the
machine has of podman is neither seen nor touched: storage and settings are in the folder, too. What was skipped, and
what needed a second try, is noted for the end of `scripts/test`.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.isolated_podman import FIXED_PLACES, IsolatedPodman
from tests.support.leftovers import (
    KEEPER_VARIABLE,
    LANE_VARIABLE,
    RUN_PREFIX,
    RUN_VARIABLE,
    Traces,
    processes_of,
    wait_until_gone,
)
from tests.support.notes import note

ROOT = Path(__file__).resolve().parent.parent
# What podman leaves there is removed with the podman of the run; whether it is, the end of `scripts/test` sees.
NOT_BEFORE_THE_END = frozenset(f"file {place}" for place in FIXED_PLACES)


class Run:
    """Owns the folder if nobody gave it, and the podman in it."""

    def __init__(self) -> None:
        given = os.environ.get(RUN_VARIABLE)
        self._owned = given is None
        whole = Path(given or tempfile.mkdtemp(prefix=RUN_PREFIX)).resolve()
        lane = os.environ.get(LANE_VARIABLE, "")
        self.folder = whole / lane[:1]  # paths of sockets must not be too long
        self.folder.mkdir(exist_ok=True)
        self._is_apart = lane == "apart"
        # Of two lanes both have the same: whose a process is that it adopted, only the end of the run asks.
        self._keeper = None if lane else int(os.environ.get(KEEPER_VARIABLE, 0)) or None
        self._podman = IsolatedPodman(
            with_image=False, folder=Path(tempfile.mkdtemp(prefix="podman-", dir=self.folder))
        )
        os.environ[RUN_VARIABLE] = str(whole)
        self._set_environment()
        self._before = self._traces()
        self._told: set[str] = set()

    def _set_environment(self) -> None:
        """For every process that a test starts."""
        os.environ["TMPDIR"] = str(self.folder)
        os.environ["DISCOVERY_HANDLERS_DIRECTORY"] = str(self.folder / "akri")
        os.environ["PIP_CACHE_DIR"] = str(ROOT / ".venv/.cache/pip")  # as scripts/install does
        os.environ.update(self._podman.variables)
        tempfile.tempdir = None

    def _traces(self) -> Traces:
        return Traces.in_folder(self.folder) if self._is_apart else Traces.now(self.folder, ROOT)

    def newly_left(self) -> list[str]:
        """What is left behind, each only once."""
        left = wait_until_gone(lambda: [trace for trace in self._left() if trace not in self._told])
        self._told.update(left)
        return left

    def _left(self) -> list[str]:
        traces = [trace for trace in self._traces().since(self._before) if trace not in NOT_BEFORE_THE_END]
        storages = [f"podman storage {path}" for path in self.folder.glob("ank-podman-*")]
        processes = processes_of(self.folder, self._keeper)
        processes.pop(self._podman.pause_process, "")
        return [*processes.values(), *traces, *storages]

    def close(self) -> None:
        self._podman.close()
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
    interrupted = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, interrupted)  # programs that a test ran in this process took it, and Ctrl+C is for us
    if left := request.config.stash[THE_RUN].newly_left():
        pytest.fail("left behind by this file:\n" + "\n".join(left), pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skipping is fine, doing it silently is not. Nor is what fails now and then."""
    note("ended", "", "")
    for report in terminalreporter.stats.get("skipped", []):
        file, _, reason = report.longrepr
        note("skipped", reason.removeprefix("Skipped: "), str(Path(file).relative_to(ROOT)))
    for kind in ("failed", "error"):
        for report in terminalreporter.stats.get(kind, []):
            note("failed", "", report.nodeid)
