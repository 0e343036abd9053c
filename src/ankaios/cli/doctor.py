"""Looks at this machine as the product will: what is fine, what is not, and the command that fixes it.

Each check is a function that looks at one thing and returns findings; none of them changes anything. What a check needs
from outside comes in through `Surroundings`, so each verdict is tested on machines we do not have.
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
EARLIEST_SANE_CLOCK = 1_760_000_000  # a machine that believes it is before October 2025 has lost its clock
RUN_FOLDER_FIX = "ank-agent --run-folder <a folder of yours>"
_CALL_LIMIT_SECONDS = 20
# Where podman looks for the first process of a pod, besides the search path.
_HELPERS = ("usr/libexec/podman", "usr/lib/podman", "usr/libexec/catatonit", "usr/local/libexec/podman")


class Verdict(Enum):
    FINE = "ok"
    NOTE = "note"
    WRONG = "wrong"


class Finding(Struct, frozen=True):
    """One line of the report; `fix` is a command or a short advice."""

    topic: str
    verdict: Verdict
    text: str
    fix: str = ""


class Result(Struct, frozen=True):
    """What a program answered; `code` is None if it could not be started or did not end."""

    code: int | None
    output: str


def run_program(*command: str) -> Result:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_CALL_LIMIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return Result(None, str(fault))
    return Result(done.returncode, done.stdout if done.returncode == 0 else done.stderr)


class Surroundings(Struct, frozen=True):
    """Everything the checks look at."""

    run: Callable[..., Result] = run_program
    find: Callable[[str], str | None] = shutil.which
    root: Path = Path("/")
    uid: int = os.getuid()
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    now: float = 0.0


def check_python(_: Surroundings) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", Verdict.FINE, f"Python {version} at {sys.executable}")


def check_podman(around: Surroundings) -> Iterator[Finding]:
    """Presence, version, and what `podman info` says of storage, runtime and rights."""
    if around.find("podman") is None:
        yield Finding(
            "podman",
            Verdict.NOTE,
            "not installed: only the runtime 'native' can run workloads here",
            "apt-get install podman",
        )
        return
    info = around.run("podman", "info", "--format", "json")
    if info.code != 0:
        yield Finding(
            "podman", Verdict.WRONG, f"'podman info' fails: {_last_line(info.output)}", "podman --log-level=debug info"
        )
        return
    try:
        facts = json.loads(info.output)
        yield from _podman_findings(facts, around)
    except (ValueError, KeyError, TypeError) as fault:
        yield Finding("podman", Verdict.WRONG, f"'podman info' answers nonsense: {fault!r}", "podman info")


def _podman_findings(facts: dict[str, dict[str, object]], around: Surroundings) -> Iterator[Finding]:
    version = str(facts["version"]["Version"])
    if _numbers(version) < OLDEST_PODMAN:
        yield Finding("podman", Verdict.WRONG, f"version {version} is older than 4.3", "install podman 4.3 or newer")
    else:
        yield Finding("podman", Verdict.FINE, f"version {version}")
    host, store = facts["host"], facts["store"]
    runtime = host["ociRuntime"]
    name = runtime["name"] if isinstance(runtime, dict) else "?"
    cgroups = host["cgroupVersion"]
    if name == "crun" and cgroups == "v1":
        yield Finding(
            "cgroups",
            Verdict.NOTE,
            "crun with cgroups v1: containers may fail to start",
            'apt-get install runc, and runtime = "runc" in the [engine] part of /etc/containers/containers.conf',
        )
    else:
        yield Finding("cgroups", Verdict.FINE, f"cgroups {cgroups}, container runtime {name}")
    if not around.find("catatonit") and not any((around.root / folder / "catatonit").exists() for folder in _HELPERS):
        yield Finding("pods", Verdict.NOTE, "podman-kube needs the program 'catatonit'", "apt-get install catatonit")
    yield from _storage_findings(str(store["graphRoot"]), str(store["graphDriverName"]))
    security = host.get("security")
    if isinstance(security, dict) and security.get("rootless"):
        yield from _rootless_findings(around)


def _storage_findings(folder: str, driver: str) -> Iterator[Finding]:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as fault:
        yield Finding("storage", Verdict.WRONG, f"'{folder}': {fault.strerror}", "podman system info")
        return
    if free < FREE_BYTES_WANTED:
        yield Finding("storage", Verdict.WRONG, f"only {free // 2**20} MiB free in '{folder}'", "podman system prune")
        return
    yield Finding("storage", Verdict.FINE, f"driver {driver}, {free // 2**20} MiB free in '{folder}'")
    if driver == "vfs":
        yield Finding(
            "storage",
            Verdict.NOTE,
            "driver vfs copies every layer of every container",
            "apt-get install fuse-overlayfs",
        )


def _user_name(around: Surroundings) -> str:
    """The variable is often that of somebody else, or not there: after `su`, in a service, in a container."""
    path = around.root / "etc/passwd"
    for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
        fields = line.split(":")
        if len(fields) > 2 and fields[2] == str(around.uid):
            return fields[0]
    return around.environ.get("USER", str(around.uid))


def _rootless_findings(around: Surroundings) -> Iterator[Finding]:
    user = _user_name(around)
    for name in ("subuid", "subgid"):
        path = around.root / "etc" / name
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        if not any(line.split(":")[0] in (user, str(around.uid)) for line in lines):
            yield Finding(
                "rootless",
                Verdict.WRONG,
                f"/etc/{name} has no range for '{user}'",
                f"sudo usermod --add-{name}s 100000-165535 {user}",
            )
            return
    yield Finding("rootless", Verdict.FINE, f"'{user}' has subordinate user and group ids")


def check_run_folder(around: Surroundings) -> Iterator[Finding]:
    """The default place of FIFOs and files of workloads."""
    folder = Path(around.environ.get("TMPDIR", str(around.root / "tmp"))) / "ankaios"
    place = folder if folder.exists() else folder.parent
    try:
        if fault := untrusted_part(folder):
            yield Finding("run folder", Verdict.WRONG, f"'{fault.path}' {fault.why}", RUN_FOLDER_FIX)
            return
        with tempfile.NamedTemporaryFile(dir=place):
            pass
    except OSError as fault:
        yield Finding(
            "run folder",
            Verdict.WRONG,
            f"cannot write to '{place}': {fault.strerror}",
            RUN_FOLDER_FIX,
        )
        return
    yield Finding("run folder", Verdict.FINE, f"'{folder}' can be used")


def check_native_rights(around: Surroundings) -> Iterator[Finding]:
    """Private mounts put files and control interface where containers have them."""
    if around.uid == 0:
        yield Finding("native", Verdict.FINE, "native workloads see files and control interface at their usual paths")
    else:
        yield Finding(
            "native",
            Verdict.NOTE,
            "not root: native workloads get the paths of files and control interface in environment variables",
        )


def check_clock(around: Surroundings) -> Iterator[Finding]:
    if around.now < EARLIEST_SANE_CLOCK:
        yield Finding(
            "clock",
            Verdict.WRONG,
            "the clock is years behind: certificates will count as not yet valid",
            "timedatectl set-ntp true",
        )
        return
    yield Finding("clock", Verdict.FINE, "plausible")


LOCAL_CHECKS: tuple[Callable[[Surroundings], Iterator[Finding]], ...] = (
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
