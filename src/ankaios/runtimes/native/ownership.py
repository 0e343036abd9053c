"""Gives the user of a native workload access to its folders. Part of its shim, so it imports few modules.

Input: the user, and the paths of control interface and files. Output: changed owners and modes. The user may have
changed the content of folders that it already owns. Therefore everything is opened through descriptors, no symbolic
link is followed, and only files that belong to the agent and have the expected type change their owner. With mounts,
nothing else is needed. Without mounts, the workload must be able to traverse the folder of its instance
(docs/adr/0021).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ankaios.runtimes.native.descriptors import opened

FIFOS = ("input", "output")
PRIVATE, TRAVERSABLE = 0o700, 0o711


def change_owners(order: dict[str, Any], is_mounted: bool) -> None:
    """Raises OSError if a file is not the one that the agent created."""
    user = order["user"]
    if user is None:
        return
    owner = (user[0], user[1])
    if order["control_interface"]:
        change_control_interface_owner(order["control_interface"], owner)
    if not is_mounted and owner[0] != os.geteuid():
        allow_traversal([path for path in (order["control_interface"], order["files"]) if path], owner)


def change_control_interface_owner(path: str, owner: tuple[int, int]) -> None:
    with opened_own(path, owner[0]) as folder:
        for name in FIFOS:
            change_fifo_owner(folder, name, owner)
        os.fchown(folder, *owner)


def change_fifo_owner(folder: int, name: str, owner: tuple[int, int]) -> None:
    """Change the owner through an `O_PATH` descriptor: opening the FIFO would count as a reader."""
    try:
        fifo = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return  # the agent could not create it, or the workload removed it
    try:
        found = os.fstat(fifo)
        if not stat.S_ISFIFO(found.st_mode) or found.st_nlink != 1:
            raise OSError(errno.EPERM, f"'{name}' of the control interface is not the FIFO that the agent made")
        check_owner(f"'{name}' of the control interface", found, owner[0])
        os.chown(f"/proc/self/fd/{fifo}", *owner)
    finally:
        os.close(fifo)


def allow_traversal(paths: list[str], owner: tuple[int, int]) -> None:
    """Make each folder private to the user first, then make their parent folders traversable for others."""
    for path in paths:
        with opened_own(path, owner[0]) as folder:
            os.fchown(folder, *owner)
            os.fchmod(folder, PRIVATE)
    for above in {os.path.dirname(path) for path in paths}:  # noqa: PTH120 - pathlib costs memory here
        with opened_own(above, os.geteuid()) as folder:
            os.fchmod(folder, TRAVERSABLE)


@contextmanager
def opened_own(path: str, uid: int) -> Iterator[int]:
    with opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as folder:
        check_owner(f"'{path}'", os.fstat(folder), uid)
        yield folder


def check_owner(what: str, found: os.stat_result, uid: int) -> None:
    if found.st_uid not in (os.geteuid(), uid):
        raise OSError(errno.EPERM, f"{what} belongs to another user (id {found.st_uid})")
