"""Finds the files in which podman stores process ids and exit codes of containers.

Input: the command lines of container monitors (conmon). Output: paths, and the content of these files. They can be read
without a call of podman. Paths are strings and not `Path` objects for speed: a restarted agent reads several files for
each container before it can report states.
"""

import os
from contextlib import suppress
from itertools import pairwise

from msgspec import Struct


class Monitor(Struct, frozen=True):
    """The settings in the command line of a container monitor."""

    pid_file: str | None
    exit_folder: str | None
    auto_remove: bool
    storage: str | None = None


def read_monitor(arguments: list[str], container: str) -> Monitor | None:
    """Return None if these are not the arguments of the monitor of that container."""
    if container not in arguments:
        return None
    pairs = list(pairwise(arguments))
    values = dict(pairs)
    pid_file, exit_folder = values.get("-p"), values.get("--exit-dir")
    return Monitor(
        pid_file if pid_file and container in pid_file else None,
        exit_folder or None,
        ("--exit-command-arg", "--rm") in pairs,
        dict(pairwise(value for name, value in pairs if name == "--exit-command-arg")).get("--root"),
    )


class Places(Struct):
    """The paths of podman's files. They are unknown until the monitor of a running container was found."""

    pid_file_pattern: tuple[str, str] | None = None
    exit_folder: str | None = None
    storage: str | None = None

    def update_from(self, monitor: Monitor, container: str) -> None:
        if monitor.pid_file is not None:
            before, _, after = monitor.pid_file.partition(container)
            self.pid_file_pattern = (before, after)
        if monitor.exit_folder is not None:
            self.exit_folder = monitor.exit_folder
        if monitor.storage is not None:
            self.storage = monitor.storage

    def pid_file(self, container: str) -> str | None:
        return container.join(self.pid_file_pattern) if self.pid_file_pattern else None

    def exit_file(self, container: str) -> str | None:
        return f"{self.exit_folder}/{container}" if self.exit_folder else None

    @property
    def state_files(self) -> list[str]:
        """The database of podman, in older and in newer versions. Podman writes it only if a state changes."""
        return [f"{self.storage}/libpod/bolt_state.db", f"{self.storage}/db.sql"] if self.storage else []

    @property
    def containers_folder(self) -> str | None:
        return self.pid_file_pattern[0].rstrip("/") if self.pid_file_pattern else None


def stamp_of(path: str | None) -> int | None:
    with suppress(OSError):
        return os.stat(path).st_mtime_ns if path else None  # noqa: PTH116
    return None


def number_in(path: str) -> int | None:
    """Read the number in a pid file or exit file."""
    with suppress(OSError, ValueError), open(path, "rb") as file:  # noqa: PTH123
        return int(file.read())
    return None


def exit_code(path: str, old: int | None) -> int | None:
    """Return None if the exit file does not exist or is of an earlier run."""
    if (stamp := stamp_of(path)) is None or stamp == old:
        return None
    return number_in(path)
