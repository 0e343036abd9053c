"""Checks of this machine for `ank doctor`. Each check is a function from the machine to results; none changes anything.

`Machine` contains everything that the checks read, so that each result can be tested for machines that we do not have.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path

from msgspec import Struct, field

from ankaios.common.trusted_path import untrusted_part

OLDEST_PODMAN = (4, 3)
FREE_BYTES_WANTED = 500 * 1024 * 1024
EARLIEST_SANE_CLOCK = 1_760_000_000  # October 2025: a machine with an earlier time has lost its clock
RUN_FOLDER_FIX = "ank-agent --run-folder <a folder of yours>"
_CALL_LIMIT_SECONDS = 20
# The folders where podman looks for the first process of a pod, besides the search path.
_HELPERS = ("usr/libexec/podman", "usr/lib/podman", "usr/libexec/catatonit", "usr/local/libexec/podman")


class CheckStatus(Enum):
    FINE = "ok"
    NOTE = "note"
    WRONG = "wrong"


class CheckResult(Struct, frozen=True):
    """One line of the report; `fix` is a command or a short advice."""

    topic: str
    verdict: CheckStatus
    text: str
    fix: str = ""


Results = Iterator[CheckResult]


def fine(topic: str, text: str) -> CheckResult:
    return CheckResult(topic, CheckStatus.FINE, text)


def note(topic: str, text: str, fix: str = "") -> CheckResult:
    return CheckResult(topic, CheckStatus.NOTE, text, fix)


def wrong(topic: str, text: str, fix: str) -> CheckResult:
    return CheckResult(topic, CheckStatus.WRONG, text, fix)


class ProgramResult(Struct, frozen=True):
    """The output of a program, with its errors if it failed; `code` is None if it did not start or did not end."""

    code: int | None
    output: str


def run_program(*command: str, text: str = "") -> ProgramResult:
    """Run a program that reads the text."""
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CALL_LIMIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return ProgramResult(None, str(error))
    return ProgramResult(done.returncode, done.stdout + (done.stderr if done.returncode else ""))


class Machine(Struct, frozen=True):
    run: Callable[..., ProgramResult] = run_program
    find: Callable[[str], str | None] = shutil.which
    root: Path = Path("/")
    uid: int = os.getuid()
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    now: float = 0.0

    def lines(self, path: str) -> list[str]:
        """The lines of a file below the root; none if it is missing."""
        file = self.root / path
        return file.read_text(errors="replace").splitlines() if file.exists() else []


def check_python(_: Machine) -> Results:
    version = ".".join(map(str, sys.version_info[:3]))
    yield fine("python", f"Python {version} at {sys.executable}")


def check_podman(machine: Machine) -> Results:
    """Presence, version, and what `podman info` reports about storage, runtime and rights."""
    if machine.find("podman") is None:
        text = "not installed: only the runtime 'native' can run workloads here"
        yield note("podman", text, "apt-get install podman")
        return
    info = machine.run("podman", "info", "--format", "json")
    if info.code != 0:
        yield wrong("podman", f"'podman info' fails: {_last_line(info.output)}", "podman --log-level=debug info")
        return
    try:
        yield from _podman_results(json.loads(info.output), machine)
    except (ValueError, KeyError, TypeError) as error:
        yield wrong("podman", f"the output of 'podman info' is unexpected: {error!r}", "podman info")


def _podman_results(facts: dict[str, dict[str, object]], machine: Machine) -> Results:
    version = str(facts["version"]["Version"])
    if _numbers(version) < OLDEST_PODMAN:
        yield wrong("podman", f"version {version} is older than 4.3", "install podman 4.3 or newer")
    else:
        yield fine("podman", f"version {version}")
    host, store = facts["host"], facts["store"]
    runtime = host["ociRuntime"]
    name = runtime["name"] if isinstance(runtime, dict) else "?"
    cgroups = host["cgroupVersion"]
    if name == "crun" and cgroups == "v1":
        fix = 'apt-get install runc, and runtime = "runc" in the [engine] part of /etc/containers/containers.conf'
        yield note("cgroups", "crun with cgroups v1: containers may fail to start", fix)
    else:
        yield fine("cgroups", f"cgroups {cgroups}, container runtime {name}")
    if not machine.find("catatonit") and not any((machine.root / folder / "catatonit").exists() for folder in _HELPERS):
        yield note("pods", "podman-kube needs the program 'catatonit'", "apt-get install catatonit")
    yield from _storage_results(str(store["graphRoot"]), str(store["graphDriverName"]))
    security = host.get("security")
    if isinstance(security, dict) and security.get("rootless"):
        yield from _rootless_results(machine)


def _storage_results(folder: str, driver: str) -> Results:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        yield wrong("storage", f"'{folder}': {error.strerror}", "podman system info")
        return
    if free < FREE_BYTES_WANTED:
        yield wrong("storage", f"only {free // 2**20} MiB free in '{folder}'", "podman system prune")
        return
    yield fine("storage", f"driver {driver}, {free // 2**20} MiB free in '{folder}'")
    if driver == "vfs":
        yield note("storage", "driver vfs copies every layer of every container", "apt-get install fuse-overlayfs")


def _user_name(machine: Machine) -> str:
    """From /etc/passwd: after `su`, in a service or a container, the variable is often wrong or not set."""
    for line in machine.lines("etc/passwd"):
        fields = line.split(":")
        if len(fields) > 2 and fields[2] == str(machine.uid):
            return fields[0]
    return machine.environ.get("USER", str(machine.uid))


def _rootless_results(machine: Machine) -> Results:
    user = _user_name(machine)
    for name in ("subuid", "subgid"):
        if not any(line.split(":")[0] in (user, str(machine.uid)) for line in machine.lines(f"etc/{name}")):
            fix = f"sudo usermod --add-{name}s 100000-165535 {user}"
            yield wrong("rootless", f"/etc/{name} has no range for '{user}'", fix)
            return
    yield fine("rootless", f"'{user}' has subordinate user and group ids")


def check_run_folder(machine: Machine) -> Results:
    """The default folder for FIFOs and files of workloads."""
    folder = Path(machine.environ.get("TMPDIR", str(machine.root / "tmp"))) / "ankaios"
    place = folder if folder.exists() else folder.parent
    try:
        if fault := untrusted_part(folder):
            yield wrong("run folder", f"'{fault.path}' {fault.why}", RUN_FOLDER_FIX)
            return
        with tempfile.NamedTemporaryFile(dir=place):
            pass
    except OSError as error:
        yield wrong("run folder", f"cannot write to '{place}': {error.strerror}", RUN_FOLDER_FIX)
        return
    yield fine("run folder", f"'{folder}' can be used")


def check_native_rights(machine: Machine) -> Results:
    """As root, private mounts put files and control interface at the same paths as in containers."""
    if machine.uid == 0:
        yield fine("native", "native workloads see files and control interface at their usual paths")
    else:
        text = "not root: native workloads get the paths of files and control interface in environment variables"
        yield note("native", text)


def check_clock(machine: Machine) -> Results:
    if machine.now < EARLIEST_SANE_CLOCK:
        text = "the clock is years behind: certificates will count as not yet valid"
        yield wrong("clock", text, "timedatectl set-ntp true")
        return
    yield fine("clock", "plausible")


LOCAL_CHECKS: tuple[Callable[[Machine], Results], ...] = (
    check_python,
    check_podman,
    check_run_folder,
    check_native_rights,
    check_clock,
)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1]
