"""Gives a native workload of another user what it needs of the agent's folders. Part of its shim, so it imports little.

In come the user and where control interface and files are; out go their owners and modes. That user may have put
anything into folders that it was given before, so everything is reached by descriptors: no link is followed, and
nothing is given away but what belongs to the agent and is what the agent makes. Where mounts show the workload its
folders, nothing else is needed; where nothing can be mounted it must be able to pass through the folder of its instance
(docs/adr/0021).
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FIFOS = ("input", "output")
PRIVATE, PASSABLE = 0o700, 0o711
SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | SAFE


def give_folders(order: dict[str, Any], is_mounted: bool) -> None:
    """Raises OSError if something is not what the agent made."""
    user = order["user"]
    if user is None:
        return
    owner = (user[0], user[1])
    if order["control_interface"]:
        give_control_interface(order["control_interface"], owner)
    if not is_mounted and owner[0] != os.geteuid():
        open_way([path for path in (order["control_interface"], order["files"]) if path], owner)


def give_control_interface(path: str, owner: tuple[int, int]) -> None:
    folder = open_own(path, owner[0])
    try:
        for name in FIFOS:
            give_fifo(folder, name, owner)
        os.fchown(folder, *owner)
    finally:
        os.close(folder)


def give_fifo(folder: int, name: str, owner: tuple[int, int]) -> None:
    """Not opened, which would look like a reader: a descriptor that only names the file is enough."""
    try:
        fifo = os.open(name, os.O_PATH | SAFE, dir_fd=folder)
    except FileNotFoundError:
        return  # the agent could not make it, or the workload removed it: its own loss
    try:
        found = os.fstat(fifo)
        if not stat.S_ISFIFO(found.st_mode) or found.st_nlink != 1:
            raise OSError(errno.EPERM, f"'{name}' of the control interface is not the FIFO that the agent made")
        check_owner(f"'{name}' of the control interface", found, owner[0])
        os.chown(f"/proc/self/fd/{fifo}", *owner)
    finally:
        os.close(fifo)


def open_way(paths: list[str], owner: tuple[int, int]) -> None:
    """Each folder for its user alone before others can pass through the folder that all of them are in."""
    for path in paths:
        folder = open_own(path, owner[0])
        try:
            os.fchown(folder, *owner)
            os.fchmod(folder, PRIVATE)
        finally:
            os.close(folder)
    for above in {os.path.dirname(path) for path in paths}:  # noqa: PTH120 - pathlib costs memory here
        folder = open_own(above, os.geteuid())
        try:
            os.fchmod(folder, PASSABLE)
        finally:
            os.close(folder)


def open_own(path: str, uid: int) -> int:
    folder = os.open(path, FOLDER)
    try:
        check_owner(f"'{path}'", os.fstat(folder), uid)
    except OSError:
        os.close(folder)
        raise
    return folder


def check_owner(what: str, found: os.stat_result, uid: int) -> None:
    if found.st_uid not in (os.geteuid(), uid):
        raise OSError(errno.EPERM, f"{what} belongs to another user (id {found.st_uid})")
