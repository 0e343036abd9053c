"""One folder for everything temporary of a test run, and a check after each module of what it left behind.

`scripts/test` provides the folder, adopts orphaned processes and checks once more at the end (`support/clean_run.py`).
A pytest that a person starts makes and removes the folder here. Each parallel worker has its part of the folder and
examines only its own processes, mounts and storage. The podman of the machine is not used: storage and settings are in
the folder, too. Skipped and failed tests are noted for the end of `scripts/test`.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.isolated_podman import IsolatedPodman
from tests.support.leftovers import RUN_PREFIX, RUN_VARIABLE, processes_of, traces_in, wait_until_gone
from tests.support.notes import note
from tests.support.schedule import group_of, longest_first

ROOT = Path(__file__).resolve().parent.parent
WORKER_VARIABLE = "PYTEST_XDIST_WORKER"

# Timings never decide a test: an example takes long on a loaded machine.
settings.register_profile("without a deadline", deadline=None)
settings.load_profile("without a deadline")


class Run:
    """Owns the folder if this process made it, and the podman settings in it."""

    def __init__(self) -> None:
        given = os.environ.get(RUN_VARIABLE)
        self._owned = given is None
        self.whole = Path(given or tempfile.mkdtemp(prefix=RUN_PREFIX)).resolve()
        # Paths of sockets must not be too long.
        self.folder = self.whole / os.environ.get(WORKER_VARIABLE, "c").removeprefix("gw")
        self.folder.mkdir(exist_ok=True)
        self._podman = IsolatedPodman(
            with_image=False, folder=Path(tempfile.mkdtemp(prefix="podman-", dir=self.folder))
        )
        self._set_environment()
        self._reported: set[str] = set()

    def _set_environment(self) -> None:
        """For every process that a test starts."""
        os.environ[RUN_VARIABLE] = str(self.whole)
        os.environ["TMPDIR"] = str(self.folder)
        os.environ["DISCOVERY_HANDLERS_DIRECTORY"] = str(self.folder / "akri")
        os.environ["PIP_CACHE_DIR"] = str(ROOT / ".venv/.cache/pip")  # as scripts/install does
        os.environ.update(self._podman.variables)
        tempfile.tempdir = None

    def newly_left(self) -> list[str]:
        """What is left behind, each only once."""
        left = wait_until_gone(lambda: [trace for trace in self._left() if trace not in self._reported])
        self._reported.update(left)
        return left

    def _left(self) -> list[str]:
        processes = processes_of(self.folder, os.getpid())
        processes.pop(self._podman.pause_process, "")
        return [*processes.values(), *traces_in(self.folder)]

    def close(self) -> None:
        self._podman.close()
        if self._owned:
            shutil.rmtree(self.whole, ignore_errors=True)


THE_RUN = pytest.StashKey[Run]()


@pytest.hookimpl(tryfirst=True)  # before pytest chooses a longer path for tmp_path
def pytest_configure(config: pytest.Config) -> None:
    config.stash[THE_RUN] = run = Run()
    config.option.basetemp = run.folder / "t"


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[THE_RUN].close()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("loadgroup", default=False):
        file_of = {item: str(item.path.relative_to(ROOT)) for item in items}
        positions = longest_first(file_of.values())
        items.sort(key=lambda item: positions[file_of[item]])
        for item in items:
            item.add_marker(pytest.mark.xdist_group(group_of(file_of[item])))


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set up before all other fixtures of a module: what is found here outlived all of them."""
    interrupted = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, interrupted)  # programs that a test ran in this process may have replaced the handler
    if left := request.config.stash[THE_RUN].newly_left():
        pytest.fail("left behind by this file:\n" + "\n".join(left), pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """No test is skipped silently, and every failed test is in the summary of `scripts/test`."""
    if WORKER_VARIABLE in os.environ:
        return  # the process that started the workers gets all reports
    for report in terminalreporter.stats.get("skipped", []):
        file, _, reason = report.longrepr
        note("skipped", reason.removeprefix("Skipped: "), str(Path(file).relative_to(ROOT)))
    for kind in ("failed", "error"):
        for report in terminalreporter.stats.get(kind, []):
            note("failed", kind, f"{report.nodeid.partition('@')[0]}: {_cause_of(report)}")


def _cause_of(report: pytest.TestReport) -> str:
    """The last line of the error, short enough for a summary."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr)
    return " ".join(text.split())[:200]
