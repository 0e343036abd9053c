"""A machine with systemd as its process 1, in namespaces on an overlay over /; its changes are removed with it.

    with SystemdMachine(folder) as machine:
        machine.run("systemctl", "start", "something")

Needs root rights, systemd, util-linux, overlay file systems and cgroups v2, also beside v1. `why_no_machine` names
what is missing. Outside `folder` only a control group is made, and removed at the end.
"""

import functools
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

BOOT = Path(__file__).with_name("systemd_boot.sh")
SYSTEMD = Path("/lib/systemd/systemd")
NAMESPACES = ("--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup")
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "DEBIAN_FRONTEND": "noninteractive",
}
WAIT_SECONDS = 30.0


def _own_control_group() -> Path | None:
    """The folder of the control group of this process in the hierarchy of cgroups v2, if that is mounted here."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    mounted = next((Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"), None)
    path = next((line[4:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line[:3] == "0::"), None)
    return None if mounted is None or path is None else mounted / path


@functools.cache
def why_no_machine() -> str | None:
    """The reason why no systemd can be started here, or None."""
    if os.geteuid() != 0:
        return "an isolated systemd needs root rights"
    for program in ("unshare", "nsenter", "setpriv", "pivot_root", "systemctl", "journalctl"):
        if shutil.which(program) is None:
            return f"an isolated systemd needs the program '{program}'"
    if not SYSTEMD.exists():
        return f"an isolated systemd needs '{SYSTEMD}'"
    if not any(line.split()[4] == "/" for line in Path("/proc/self/mountinfo").read_text().splitlines()):
        return "an isolated systemd needs a root folder that is a mount point"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "an isolated systemd needs overlay file systems"
    group = _own_control_group()
    if group is None or not os.access(group, os.W_OK):
        return "an isolated systemd needs cgroups v2 that can be written to"
    if subprocess.run(["unshare", *NAMESPACES, "--fork", "true"], capture_output=True, check=False).returncode:
        return "an isolated systemd needs the right to make namespaces"
    return None


class SystemdMachine:
    """Boots immediately; use as a context manager or call `close`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        own = _own_control_group()
        assert own is not None, why_no_machine()
        self._group = own / f"ankaios-test-{os.getpid()}"
        self._group.mkdir()
        self._group.chmod(0o755)  # for the services of its users, with any umask here
        self._log = folder.with_suffix(".log")
        join = 'echo 0 >"$0/cgroup.procs"; exec "$@"'
        with self._log.open("wb") as log:
            # The machine ends with this process.
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "sh", "-euc", join, self._group, "unshare", *NAMESPACES, "--fork",
                 "--kill-child", "--propagation", "private", BOOT, folder],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            self.wait_until("the machine exists", self._exists)
            self.wait_until("systemd has started the machine", self._has_booted)
        except BaseException:
            self.close()
            raise

    @property
    def _init(self) -> int | None:
        """The id of process 1 of the machine outside of it."""
        with suppress(OSError):
            pid = self._process.pid
            return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        return None

    @property
    def root(self) -> Path:
        """Its root folder, as seen from outside."""
        return Path(f"/proc/{self._init}/root")

    def _exists(self) -> bool:
        """Before that, a command would be run on the machine below."""
        if self._process.poll() is not None:
            raise AssertionError(f"the machine ended with {self._process.returncode}:\n{self._log.read_text()}")
        with suppress(OSError, IndexError):
            return (self.root / "run/machine-of-a-test").exists() and (self.root / "proc/1/comm").read_text() == (
                "systemd\n"
            )
        return False

    def _has_booted(self) -> bool:
        return self.call("systemctl", "is-system-running").stdout.strip() in ("running", "degraded")

    # --- commands

    def call(self, *command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine, as root, and return its result, also after a failure."""
        enter = ["nsenter", "--target", str(self._init), *NAMESPACES, "--root"]
        return subprocess.run(
            [*enter, *command], env=ENVIRONMENT, cwd="/", input=stdin, stdin=None if stdin else subprocess.DEVNULL,
            capture_output=True, text=True, timeout=WAIT_SECONDS * 2, check=False, umask=0o022,
        )  # fmt: skip

    def run(self, *command: str, stdin: str | None = None) -> str:
        """Output of a command that must succeed."""
        done = self.call(*command, stdin=stdin)
        if done.returncode:
            raise AssertionError(
                f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}\n{self.journal()}"
            )
        return done.stdout

    def sh(self, script: str) -> str:
        return self.run("sh", "-euc", script)

    def journal(self, *arguments: str) -> str:
        return self.call("journalctl", "--no-pager", "--quiet", *(arguments or ("--lines=60",))).stdout

    def wait_until(self, what: str, condition: Callable[[], bool], more: Callable[[], str] = str) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while not condition():
            if time.monotonic() > until:
                output = self.journal() if self._exists() else self._log.read_text()
                raise AssertionError(f"timeout while waiting until {what}\n{more()}\n{output}")
            time.sleep(0.05)

    # --- the end

    def close(self) -> None:
        self._process.kill()  # and with it the machine: --kill-child
        self._process.wait(WAIT_SECONDS)
        until = time.monotonic() + WAIT_SECONDS
        while self._group.exists() and time.monotonic() < until:
            for folder, _, _ in os.walk(self._group, topdown=False):
                with suppress(OSError):  # the last process is about to go
                    Path(folder).rmdir()
            time.sleep(0.02)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
