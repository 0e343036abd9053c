"""A user without root rights for tests: a temporary user that only the test sees, or the user who runs the tests.

    with UnprivilegedUser() as user:
        subprocess.run(user.command("id"), env=user.environ)

Root becomes a temporary user: in a mount namespace that hides only /etc/passwd, /etc/group, /etc/subuid and
/etc/subgid, and lets that user through to Python and a temporary folder where ancestors of theirs are private. In that
folder are a copy of the product and all files of the user: home, run time folder, podman's storage. Locks are in
a separate /dev/shm.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.cluster import Cluster
from tests.support.isolated_podman import IMAGE, busybox_layer
from tests.support.readable_copy import copy_product

PYTHON = Path(sys.executable).resolve()  # not that of .venv, which may be private
NAME, UID, SUB_UIDS = "ankaios-user", 54321, "400000:65536"
CALL_LIMIT = 60.0

# Arguments: folder with `etc`, then folders to be reached. A folder below a private one is bound to the same path on a
# file system that covers the private one, so that nothing is seen of it but the way.
NAMESPACE = """
umask 022
folder=$1
for file in "$folder"/etc/*; do mount --bind "$file" "/etc/${file##*/}"; done
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /mnt
number=0
for path in "$@"; do
  number=$((number + 1))
  mkdir "/mnt/$number"
  mount --bind "$path" "/mnt/$number"
done
number=0
for path in "$@"; do
  number=$((number + 1))
  part=
  private=
  rest=${path#/}
  while [ "$rest" != "${rest#*/}" ]; do
    part=$part/${rest%%/*}
    rest=${rest#*/}
    case $(stat -c %A "$part") in *x | *t) ;; *) private=$part; break ;; esac
  done
  [ -n "$private" ] || continue
  mount -t tmpfs -o mode=755 tmpfs "$private"
  # Folders that were bound below it before are covered now.
  other=0
  for again in "$@"; do
    other=$((other + 1))
    case $again in "$private"/*) mkdir -p "$again"; mount --bind "/mnt/$other" "$again" ;; esac
  done
done
umount -R /mnt
mount --make-rshared /
echo ready
exec sleep infinity
"""

CONTAINERS_CONF = """\
[engine]
{runtime}
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
[containers]
netns = "host"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
"""


@functools.cache
def why_unavailable() -> str | None:
    """The reason why no user without root rights is available here, or None."""
    if os.geteuid() != 0:
        return None
    for program in ("unshare", "nsenter", "setpriv"):
        if shutil.which(program) is None:
            return f"becoming a user without root rights needs the program '{program}'"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        return "becoming a user that only the test sees needs the right to mount"
    return None


class UnprivilegedUser:
    """Use as a context manager or call `close`."""

    def __init__(self) -> None:
        # Directly in the folder for everything temporary: sockets of containers need short paths.
        self.folder = folder = Path(tempfile.mkdtemp(prefix="ank-"))
        folder.chmod(0o755)
        for name in ("home/.config/containers", "run", "tmp", "etc"):
            (folder / name).mkdir(parents=True)
        runtime = 'runtime = "runc"' if shutil.which("runc") else ""
        (folder / "home/.config/containers/containers.conf").write_text(CONTAINERS_CONF.format(runtime=runtime))
        (folder / "home/.config/containers/storage.conf").write_text('[storage]\ndriver = "vfs"\n')
        (folder / "run").chmod(0o700)
        self._holder: subprocess.Popen[str] | None = None
        if os.geteuid() == 0:
            self._create_user()
        copy_product(folder / "lib")

    def _create_user(self) -> None:
        home = self.folder / "home"
        lines = {
            "passwd": f"{NAME}:x:{UID}:{UID}::{home}:/bin/sh",
            "group": f"{NAME}:x:{UID}:",
            "subuid": f"{NAME}:{SUB_UIDS}",
            "subgid": f"{NAME}:{SUB_UIDS}",
        }
        for name, line in lines.items():
            there = Path("/etc") / name
            if there.exists():
                (self.folder / "etc" / name).write_text(f"{there.read_text().rstrip()}\n{line}\n")
                (self.folder / "etc" / name).chmod(0o644)
        for folder, _, files in os.walk(self.folder):
            for path in (folder, *(f"{folder}/{name}" for name in files)):
                if not path.startswith(f"{self.folder}/etc"):
                    os.chown(path, UID, UID)
        self._hold_namespace()

    def _hold_namespace(self) -> None:
        # The namespace ends with this process.
        hold = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "sh", "-euc"]
        reached = [str(path) for path in (self.folder, Path(sys.base_prefix).resolve())]
        self._holder = subprocess.Popen(
            [*hold, NAMESPACE, "sh", *reached], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "ready\n":
            raise AssertionError(f"no namespace: {self._holder.communicate(timeout=CALL_LIMIT)[1]}")

    # --- running commands as the user

    def command(self, *arguments: str) -> list[str]:
        """Return the command line that starts this as the user. Signals reach the program itself."""
        if self._holder is None:
            return list(arguments)
        enter = ["nsenter", f"--target={self._holder.pid}", "--mount", "--root", "env", f"--chdir={self.folder}"]
        return [*enter, "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", *arguments]

    @property
    def environ(self) -> dict[str, str]:
        """Only the variables of this environment that are the same for all users."""
        home = self.folder / "home"
        kept = {key: value for key, value in os.environ.items() if key.startswith(("ANKAIOS_TEST", "LANG", "LC_"))}
        return {
            **kept, "PATH": os.defpath + ":/usr/sbin:/sbin", "HOME": str(home), "TMPDIR": str(self.folder / "tmp"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"), "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_HOME": str(home / ".local/share"), "PYTHONPATH": str(self.folder / "lib"),
        }  # fmt: skip

    def run(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environ,
            input=stdin,
            capture_output=True,
            timeout=CALL_LIMIT,
            check=False,
        )

    def why_no_podman(self) -> str | None:
        """The reason why this user cannot run a container on this machine, or None. Tested without the product."""
        for program in ("podman", "conmon", "newuidmap", "newgidmap", "busybox"):
            if shutil.which(program) is None:
                return f"rootless containers need the program '{program}'"
        imported = self.run("podman", "import", "--quiet", "-", IMAGE, stdin=busybox_layer())
        ran = imported if imported.returncode else self.run("podman", "run", "--rm", IMAGE, "/bin/true")
        return f"rootless containers do not run here: {ran.stderr.decode()}" if ran.returncode else None

    def close(self) -> None:
        if (self.folder / "home/.local/share/containers").exists():
            self.run("podman", "rm", "--force", "--all", "--time", "0")
            self.run("podman", "system", "migrate")  # ends the process that keeps the user namespace
            self.run("podman", "unshare", "rm", "-rf", str(self.folder / "home/.local"))
            self.run("podman", "system", "migrate")
        if self._holder is not None:
            self._holder.kill()
            self._holder.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class ClusterOf(Cluster):
    """Server, agents and `ank` of one user."""

    def __init__(self, person: UnprivilegedUser) -> None:
        super().__init__(person.environ, person.command(str(PYTHON)), person.folder / "tmp")
        (self.folder / "run").mkdir()
        for path in (self.folder, self.folder / "run"):
            self._give(path)

    def write(self, name: str, text: str) -> Path:
        path = super().write(name, text)
        self._give(path)
        return path

    def _give(self, path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, UID, UID)
