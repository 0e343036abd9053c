"""What a run must not leave on a machine, and how it is found.

`Traces.now(folder)` describes what is there at a moment, for people to read: files in the places that this product and
its runtimes use, mounts, network namespaces, links and loop devices. What is there after a run and was not before is
left behind. `processes_of` finds processes of a run by the run folder that every child inherits in its environment, or
names on its command line, or sees as its root file system; and by descent, because `clean_run.py` adopts orphans.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

RUN_VARIABLE = "ANKAIOS_TEST_RUN"  # the run folder
LANE_VARIABLE = "ANKAIOS_TEST_LANE"  # what part of a run this is, if another one runs at the same time
KEEPER_VARIABLE = "ANKAIOS_TEST_KEEPER"  # process id of whoever adopts orphans of the run
RUN_PREFIX = "ank-run-"
GRACE_SECONDS = 5.0
CONTAINER_ID_LENGTH = 64

_SYSTEM = (
    *("/tmp/ank*", "/tmp/pytest-of-*", "/tmp/podman*", "/tmp/containers-*", "/tmp/storage-run-*", "/tmp/buildah*"),
    *(
        "/tmp/debug-echo*",
        "/tmp/fish.*",
        "/var/tmp/ank*",
        "/var/tmp/podman*",
        "/var/tmp/container*",
        "/var/tmp/buildah*",
    ),
    *("/sys/fs/cgroup/ank*", "/sys/fs/cgroup/*/ank*", "/sys/fs/cgroup/libpod_parent", "/sys/fs/cgroup/*/libpod_parent"),
    *("/run/ankaios", "/run/ankaios/*", "/run/runc", "/run/runc/*", "/run/crun", "/run/crun/*", "/run/netns/*"),
    *(
        "/run/libpod",
        "/run/libpod/*",
        "/run/libpod/exits/*",
        "/run/containers",
        "/run/containers/*",
        "/dev/shm/libpod*",
    ),
    *("/run/containers/storage/*", "/run/containers/storage/overlay-containers/*", "/run/containers/networks/*"),
    *("/run/containerd/*", "/run/nerdctl*", "/run/user/*/libpod", "/run/user/*/containers", "/run/user/*/ankaios"),
    *(
        "/etc/ankaios*",
        "/etc/containers/networks",
        "/etc/containers/networks/*",
        "/etc/cni/net.d/*",
        "/etc/dashboard.conf",
    ),
    *("/etc/systemd/system/ank*", "/etc/systemd/user/ank*", "/nonexistent", "/nonexistent/*"),
    *("/var/lib/ankaios*", "/var/lib/akri", "/var/lib/akri/*", "/var/lib/kubelet", "/var/lib/kubelet/*/*"),
    *("/var/lib/containers", "/var/lib/containers/*", "/var/lib/cni/*", "/var/lib/nerdctl*"),
)
_STORAGE = ("", "/*", "/overlay/*", "/overlay-containers/*", "/overlay-images/*", "/overlay-layers/*", "/volumes/*")
_HOME = (
    *("~/.ank*", "~/.config/ankaios", "~/.config/ankaios/*", "~/.config/containers/*", "~/.config/cni/*"),
    *("~/.local/share/ankaios*", "~/.local/state/ankaios*", "~/.cache/ankaios*", "~/.local/bin/ank*"),
    *("~/.cache/pip", "~/.cache/uv", "~/.local/share/uv", "~/.config/uv", "~/.config/fish", "~/.local/share/fish"),
    *(
        "~/.bash_history",
        "~/.zsh_history",
        "~/.python_history",
        "~/.zcompdump*",
        "~/.cache/pytest*",
        "~/.hypothesis",
        "~/.local/lib/python3*/site-packages/ank*",
    ),
)
PLACES = (
    *_SYSTEM,
    *_HOME,
    *(
        f"{base}{part}"
        for base in ("/var/lib/containers/storage", "~/.local/share/containers/storage")
        for part in _STORAGE
    ),
)


@dataclass(frozen=True)
class Traces:
    found: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def now(cls, folder: Path, *own: Path) -> "Traces":
        """`folder` belongs to the run, and mounts in it or in `own` to nobody else."""
        return cls(frozenset([*_files(folder), *_mounts(folder, *own), *_links(), *_loop_devices(folder)]))

    @classmethod
    def in_folder(cls, folder: Path) -> "Traces":
        """For a part of a run: what the other parts use meanwhile in the places of the machine is not seen."""
        return cls(frozenset([*_mounts(folder), *_loop_devices(folder)]))

    def since(self, before: "Traces") -> list[str]:
        return sorted(trace for trace in self.found - before.found if not _is_in_use(trace.removeprefix("file ")))


def _files(folder: Path) -> Iterable[str]:
    for place in PLACES:
        for path in Path("/").glob(str(Path(place).expanduser())[1:]):
            if not path.name.startswith(RUN_PREFIX) and not folder.is_relative_to(path):
                yield f"file {path}"


def _mounts(*folders: Path) -> Iterable[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        target = line.split()[4]
        if any(target == str(folder) or target.startswith(f"{folder}/") for folder in folders):
            yield f"mount {target}"


def _links() -> Iterable[str]:
    """Bridges and pairs of virtual cables that container engines make."""
    for path in Path("/sys/class/net").iterdir():
        if path.name.startswith(("podman", "cni", "veth", "nerdctl", "ank")):
            yield f"network link {path.name}"


def _loop_devices(folder: Path) -> Iterable[str]:
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if str(folder) in (file := path.read_text().strip()):
                yield f"loop device /dev/{path.parts[3]} of {file}"


def _is_in_use(path: str) -> bool:
    """By somebody who has nothing to do with this run, who may well run the same tests. Containers go by their ids."""
    run = os.environ.get(RUN_VARIABLE, "")
    owner = path.rpartition("-")[2]
    if path.startswith("/sys/fs/cgroup/") and owner.isdigit() and Path("/proc", owner).exists():
        return True
    path = Path(path).name if len(Path(path).name) == CONTAINER_ID_LENGTH else path
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes() + b"\0" + (place / "environ").read_bytes()
            if path.encode() in words and not (run and f"={run}".encode() in words):
                return True
    return False


# --- processes


def processes_of(folder: Path, keeper: int | None = None) -> dict[int, str]:
    """Process id -> what it is; without this process and those that it descends from."""
    parents = _parents()
    mine = set(_line_of(os.getpid(), parents))
    found = {}
    for pid in parents:
        if pid in mine or not (
            belongs_to(pid, folder) or (keeper is not None and keeper in _line_of(pid, parents)[1:])
        ):
            continue
        if shown := _command_line(pid):
            found[pid] = f"process {pid}: {shown}"
    return found


def descendants_of(pid: int) -> list[int]:
    parents = _parents()
    return [each for each in parents if pid in _line_of(each, parents)[1:]]


def belongs_to(pid: int, folder: Path) -> bool:
    place = Path("/proc") / str(pid)
    with suppress(OSError):
        if f"={folder}".encode() in (place / "environ").read_bytes():
            return True
        if f"{folder}/".encode() in (place / "cmdline").read_bytes():
            return True
        if (place / "ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink():
            root = (place / "mountinfo").read_text().partition("\n")[0]
            return f"{folder}/" in root
    return False


def _parents() -> dict[int, int]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found[int(path.parts[2])] = int(path.read_text().rpartition(")")[2].split()[1])
    return found


def _line_of(pid: int, parents: dict[int, int]) -> list[int]:
    """The process, its parent, and so on."""
    line = [pid]
    while (parent := parents.get(line[-1], 0)) > 0:
        line.append(parent)
    return line


def _command_line(pid: int) -> str:
    """Empty for one that has ended and was not waited for yet: nothing of it is left but a line in a table."""
    with suppress(OSError):
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        if rest.split()[0] not in "ZX":
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            return " ".join(words).strip()[:300] or name.partition("(")[2]  # it is just becoming another program
    return ""


def end_native_workloads(folder: Path) -> None:
    """They outlive whoever started them, as they should, and their keepers would notice only after a while."""
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
    """What is still there after a while: what is just ending is not left behind."""
    until = time.monotonic() + seconds
    while (left := look()) and time.monotonic() < until:
        time.sleep(0.05)
    return left
