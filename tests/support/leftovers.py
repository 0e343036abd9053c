"""What a test run must not leave on the machine, and how it is found.

Only the run's own process tree, mounts and storage are examined. Other users of the machine may start containers, make
files or run the same tests at the same time. Everything of a run is in its run folder: temporary files, mounts, images
of loop devices, podman storage. `processes_of` finds the processes of a run by the run folder that every child inherits
in its environment, names on its command line, or sees as its root file system; and by descent, because `clean_run.py`
adopts orphans.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

RUN_VARIABLE = "ANKAIOS_TEST_RUN"  # the run folder
RUN_PREFIX = "ank-run-"
STORAGE_PREFIX = "ank-podman-"
GRACE_SECONDS = 5.0


def traces_in(folder: Path, *also_mounts_in: Path) -> list[str]:
    """Mounts, loop devices and podman storage of a run, with readable descriptions."""
    return sorted([*_mounts(folder, *also_mounts_in), *_loop_devices(folder), *_storages(folder)])


def _mounts(*folders: Path) -> Iterable[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        target = line.split()[4]
        if any(target == str(folder) or target.startswith(f"{folder}/") for folder in folders):
            yield f"mount {target}"


def _loop_devices(folder: Path) -> Iterable[str]:
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if (file := path.read_text().strip()).startswith(f"{folder}/"):
                yield f"loop device /dev/{path.parts[3]} of {file}"


def _storages(folder: Path) -> Iterable[str]:
    return (f"podman storage {path}" for path in folder.glob(f"{STORAGE_PREFIX}*"))


# --- processes


def processes_of(folder: Path, ancestor: int | None = None) -> dict[int, str]:
    """Process id -> description, of the folder's processes and the ancestor's descendants.

    This process and those that it descends from are left out.
    """
    parents = _parents()
    mine = set(_line_of(os.getpid(), parents))
    found = {}
    for pid in parents:
        if pid in mine or not (
            belongs_to(pid, folder) or (ancestor is not None and ancestor in _line_of(pid, parents)[1:])
        ):
            continue
        if shown := _command_line(pid):
            found[pid] = f"process {pid}: {shown}"
    return found


def descendants_of(pid: int) -> list[int]:
    parents = _parents()
    return [each for each in parents if pid in _line_of(each, parents)[1:]]


def belongs_to(pid: int, folder: Path) -> bool:
    with suppress(OSError):
        environ = _proc_file(pid, "environ")
        if any(f"={folder}{end}".encode() in environ for end in ("/", "\0")):
            return True
        if f"{folder}/".encode() in _proc_file(pid, "cmdline"):
            return True
        if os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt"):
            return f"{folder}/".encode() in _proc_file(pid, "mountinfo").partition(b"\n")[0]
    return False


def _parents() -> dict[int, int]:
    found = {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            found[int(pid)] = int(_proc_file(pid, "stat").rpartition(b")")[2].split()[1])
    return found


def _proc_file(pid: int | str, name: str) -> bytes:
    """Without the layers of `open`: a check after each file of tests reads this of every process."""
    descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
    try:
        parts = iter(lambda: os.read(descriptor, 1 << 16), b"")
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _line_of(pid: int, parents: dict[int, int]) -> list[int]:
    """The process, its parent, and so on."""
    line = [pid]
    while (parent := parents.get(line[-1], 0)) > 0:
        line.append(parent)
    return line


def _command_line(pid: int) -> str:
    """Empty for one that has ended and was not waited for yet: it is only an entry in the process table."""
    with suppress(OSError):
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        if rest.split()[0] not in "ZX":
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            return " ".join(words).strip()[:300] or name.partition("(")[2]  # it is just becoming another program
    return ""


def end_native_workloads(folder: Path) -> None:
    """Native workloads continue after the end of the agent by design."""
    for note in folder.glob("**/process"):
        with suppress(OSError, ValueError):
            pid, start = note.read_text().split()[:2]
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19] == start:
                os.killpg(int(pid), signal.SIGKILL)
    wait_until_gone(lambda: _working_in(folder))


def _working_in(folder: Path) -> list[int]:
    """Keepers, which end with what they keep."""
    found = []
    for cwd in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if cwd.readlink().is_relative_to(folder):
                found.append(int(cwd.parts[2]))
    return found


def wait_until_gone(look: Callable[[], T], seconds: float = GRACE_SECONDS) -> T:
    """Return what is still there after the grace period: a process that is just ending is not left behind."""
    until = time.monotonic() + seconds
    while (left := look()) and time.monotonic() < until:
        time.sleep(0.05)
    return left
