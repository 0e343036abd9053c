"""An isolated podman: separate storage and run folder, one tiny image; everything is removed at the end.

`IsolatedPodman` makes a folder with the configuration files that its `variables` name. Give these variables to every
process that shall use this podman. The only image is `localhost/bb`, a busybox with all its applets in /bin. `close`
ends containers, also without their monitors, and removes mounts and files, also the few that podman makes in
fixed places. Without root rights it is a rootless podman. Used by the tests, the demo and an example.
"""

import functools
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.leftovers import STORAGE_PREFIX

IMAGE = "localhost/bb"
CALL_LIMIT = 60.0

CONTAINERS_CONF = """\
[engine]
runtime = "{runtime}"
tmp_dir = "{root}/tmp"
events_logger = "file"
lock_type = "file"
{more}[engine.runtimes]
{runtime} = ["{root}/runtime"]
[containers]
netns = "none"
default_ulimits = ["nofile={nofile}:{nofile}", "nproc={nproc}:{nproc}"]
[network]
network_config_dir = "{root}/net"
"""

STORAGE_CONF = """\
[storage]
driver = "{driver}"
graphroot = "{root}/graph"
rootless_storage_path = "{root}/graph"
runroot = "{root}/run"
"""

# The state of running containers belongs to this podman as well.
RUNTIME = """\
#!/bin/sh
exec "{program}" --root "{root}/state" "$@"
"""

# Files that podman creates with any settings.
FIXED_PLACES = (
    "/var/lib/containers/cache/blob-info-cache-v1.boltdb",
    "/var/lib/containers/cache/blob-info-cache-v1.sqlite",
    "/var/lib/containers/cache",
    "/var/lib/containers",
    "/run/containers/networks/aardvark.lock",
    "/run/containers/networks/ipam.db",
    "/run/containers/networks/aardvark-dns",
    "/run/containers/networks",
    "/run/containers",
    "/run/libpod",
    "/run/netns",
)
PROGRAMS = ("podman", "conmon", "netavark", "aardvark-dns")
ID_LENGTH = 64
PARENT_GROUP = "libpod_parent"  # in every hierarchy of control groups


@functools.cache
def why_no_podman() -> str | None:
    """The reason why tests with a real podman of root cannot run here, or None."""
    if os.geteuid() != 0:
        return "an isolated podman needs root rights"
    missing = missing_program()
    return f"an isolated podman needs the program '{missing}'" if missing else None


def missing_program() -> str | None:
    """The first missing program; `podman run` reports the others."""
    programs = ["podman", "conmon", "busybox"]
    if os.geteuid() != 0:
        programs += ["newuidmap", "newgidmap"]
    return next((program for program in programs if _program(program) is None), None)


def _program(name: str) -> str | None:
    """Users other than root often have no `sbin` on their path."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _fixed_places() -> list[Path]:
    """A folder comes after its content."""
    groups = [folder / name for folder in _hierarchies() for name in (f"{PARENT_GROUP}/conmon", PARENT_GROUP)]
    return [*map(Path, FIXED_PLACES), *groups]


def _control_groups() -> set[Path]:
    return {group for folder in _hierarchies() for group in (folder / PARENT_GROUP).glob("*") if group.is_dir()}


def _is_podman_running() -> bool:
    for place in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if place.read_text().strip() in PROGRAMS:
                return True
    return False


def _hierarchies() -> list[Path]:
    top = Path("/sys/fs/cgroup")
    return [top, *(path for path in top.glob("*") if path.is_dir())]


def _limit(name: str, at_most: int) -> int:
    import resource

    hard = resource.getrlimit(getattr(resource, name))[1]
    return at_most if hard == resource.RLIM_INFINITY else min(at_most, hard)


def busybox_layer() -> bytes:
    """A root file system with busybox and a link for each of its applets."""
    program = Path(str(_program("busybox"))).resolve()
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in ("bin", "tmp", "etc", "run", "var"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        tar.add(program, "bin/busybox")
        for library in _shared_libraries(program):
            tar.add(library.resolve(), str(library)[1:])
        for applet in applets:
            if applet == "busybox":
                continue
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
        passwd = tarfile.TarInfo("etc/passwd")
        text = b"root:x:0:0:root:/:/bin/sh\n"
        passwd.size = len(text)
        tar.addfile(passwd, BytesIO(text))
    return out.getvalue()


def _shared_libraries(program: Path) -> list[Path]:
    """None if it is linked statically, as it is in Debian's package busybox-static, but not in busybox."""
    output = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return [Path(word) for word in output.split() if word.startswith("/")]


class IsolatedPodman:
    """Use as a context manager or call `close`."""

    def __init__(self, *, with_image: bool = True, folder: Path | None = None) -> None:
        self.root = Path(tempfile.mkdtemp(prefix=STORAGE_PREFIX)) if folder is None else folder
        self._not_there_before = [path for path in _fixed_places() if not os.path.lexists(path)]
        self._write_configuration()
        if with_image:
            self.import_image()

    @classmethod
    def found_at(cls, folder: Path) -> Self:
        """Open the podman of an earlier process, to close it."""
        found = cls.__new__(cls)
        found.root, found._runtime = folder, folder / "runtime"
        found._not_there_before = []
        return found

    def _write_configuration(self) -> None:
        for folder in ("graph", "run", "tmp", "net", "user"):
            (self.root / folder).mkdir()
        (self.root / "user").chmod(0o700)
        runtime = "runc" if _program("runc") else "crun"
        nofile, nproc = _limit("RLIMIT_NOFILE", 20000), _limit("RLIMIT_NPROC", 20000)
        rootless = os.geteuid() != 0
        more = 'cgroup_manager = "cgroupfs"\n' if rootless else ""  # works without a user session, too
        overlay = not rootless and "overlay" in Path("/proc/filesystems").read_text()
        driver = "overlay" if overlay else "vfs"
        (self.root / "containers.conf").write_text(
            CONTAINERS_CONF.format(root=self.root, runtime=runtime, nofile=nofile, nproc=nproc, more=more)
        )
        (self.root / "storage.conf").write_text(STORAGE_CONF.format(root=self.root, driver=driver))
        self._runtime = self.root / "runtime"
        self._runtime.write_text(RUNTIME.format(program=_program(runtime) or runtime, root=self.root))
        self._runtime.chmod(0o755)

    @property
    def variables(self) -> dict[str, str]:
        """Only the variables that make a process use this podman."""
        found = {
            "CONTAINERS_CONF": str(self.root / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.root / "storage.conf"),
        }
        if os.geteuid() != 0:  # else some files would still be in the user's folders
            for name in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
                found[name] = str(self.root / "user")
        return found

    @property
    def environ(self) -> dict[str, str]:
        """A whole environment for child processes."""
        return {**os.environ, **self.variables}

    @property
    def pause_process(self) -> int:
        """Of a rootless podman: it keeps the user namespace until `close`. 0: there is none."""
        with suppress(OSError, ValueError):
            return int((self.root / "tmp/pause.pid").read_text())
        return 0

    def import_image(self) -> None:
        archive = self.root / "bb.tar"
        archive.write_bytes(busybox_layer())
        self.podman("import", "--quiet", str(archive), IMAGE)

    def podman(self, *args: str, check: bool = True, stdin: str | None = None) -> str:
        """Run podman in this environment and return what it prints."""
        done = subprocess.run(
            ["podman", *args], env=self.environ, capture_output=True, text=True, input=stdin, timeout=CALL_LIMIT
        )
        if check and done.returncode:
            raise AssertionError(f"podman {' '.join(args)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def containers(self) -> list[dict[str, Any]]:
        """All containers, infra containers included, as `podman ps` describes them."""
        found: list[dict[str, Any]] = json.loads(self.podman("ps", "--all", "--format=json"))
        return found

    def clear(self) -> None:
        """Remove all containers, pods and volumes, e.g. between tests."""
        # A pod whose containers end only when it is removed has podman wait three seconds for its control group.
        for command in (["pod", "stop"], ["pod", "rm", "--force"], ["rm", "--force"]):
            self.podman(*command, "--all", "--time", "0", "--ignore", check=False)
        self.podman("volume", "rm", "--force", "--all", check=False)

    def close(self) -> None:
        if used := any(self.root.glob("graph/*")):
            with suppress(subprocess.TimeoutExpired):
                self.clear()
            self._end_containers()
            self._end_processes()
            self._remove_control_groups(self._ids())
            if os.geteuid() != 0:
                self._leave_user_namespace()
        self._unmount()
        shutil.rmtree(self.root, ignore_errors=True)
        if used:
            self._remove_fixed_places()

    def _remove_fixed_places(self) -> None:
        """Folders only if they are empty, files only if no other podman on the machine may use them now."""
        shared = _is_podman_running()
        for path in self._not_there_before:
            with suppress(OSError):
                if path.is_dir():
                    path.rmdir()
                elif not shared:
                    path.unlink()

    def _end_containers(self) -> None:
        """Those that podman cannot end any more, for example because their monitors were killed."""
        with suppress(subprocess.TimeoutExpired):
            listed = subprocess.run([self._runtime, "list", "-q"], capture_output=True, text=True, timeout=CALL_LIMIT)
            for name in listed.stdout.split():
                delete = [str(self._runtime), "delete", "--force", name]
                subprocess.run(delete, capture_output=True, timeout=CALL_LIMIT)

    def _leave_user_namespace(self) -> None:
        """Files of a container's other users can be removed only in this namespace; a process of podman keeps it."""
        self.podman("unshare", "rm", "-rf", str(self.root / "graph"), str(self.root / "run"), check=False)
        self.podman("system", "migrate", check=False)

    def _ids(self) -> set[str]:
        """Of all containers and pods that this podman ever created: its log of events names them."""
        ids = set()
        with suppress(FileNotFoundError):
            for line in (self.root / "tmp/events/events.log").read_text().splitlines():
                event = json.loads(line)
                if event["Type"] in ("container", "pod"):
                    ids.add(event["ID"])
        return ids

    def _remove_control_groups(self, ids: set[str]) -> None:
        """Podman does not remove those of pods. Other podmans on the machine use groups next to them."""
        for own in (group for group in _control_groups() if group.name[-ID_LENGTH:] in ids):
            for group, _, _ in os.walk(own, topdown=False):
                with suppress(OSError):  # in use
                    Path(group).rmdir()

    def _own_processes(self) -> list[int]:
        """What still runs from this environment: container monitors and clean-up calls, by their command lines.

        A podman that an agent started just before its end is recognized by its environment; it may still mount.
        """
        own, part = [], f"{self.root}/".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_podman = (folder / "comm").read_text() == "podman\n"
                if part in (folder / "cmdline").read_bytes() or (
                    is_podman and part in (folder / "environ").read_bytes()
                ):
                    own.append(int(folder.name))
        return [pid for pid in own if pid != os.getpid()]

    def _end_processes(self) -> None:
        until = time.monotonic() + 2
        while (own := self._own_processes()) and time.monotonic() < until:
            time.sleep(0.02)  # clean-up calls of ended containers finish by themselves
        for pid in own:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _unmount(self) -> None:
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in sorted((m for m in mounts if m.startswith(f"{self.root}/")), key=len, reverse=True):
            subprocess.run(["umount", "--lazy", mount], capture_output=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
