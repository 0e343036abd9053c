"""Creates the mounts of a native workload. Part of its shim, so it imports few modules.

Input: sources and targets. Output: mounts that are visible only to the workload. A mount needs a mount point, which is
visible on the host. A created mount point has a special file mode, by which every workload can identify it. The last
workload that uses a mount point removes it (docs/adr/0014). The module owns shared locks on the mount points while the
workload runs. Users can own parent folders of a mount point, so paths are opened step by step through descriptors, and
symbolic links are not followed.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ankaios.runtimes.kernel import Kernel
from ankaios.runtimes.native.descriptors import opened

# The sticky bit has no meaning for a file, or for a folder in which only its owner may write. It marks mount points.
# Other users cannot open a mount point, so they cannot lock it. They can list the folders that contain it.
FILE, FOLDER, PARENT = stat.S_IFREG | 0o1600, stat.S_IFDIR | 0o1711, stat.S_IFDIR | 0o1755
PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
TRIES = 20
PAUSE = 0.001


class MountPoints:
    """Mount points created by the keeper, which ends after the workload. `fault`: why some could not be created."""

    def __init__(self, mounts: list[tuple[str, str, bool]]) -> None:
        self.fault: Exception | None = None
        self.paths: list[str] = []
        self._locks: list[int] = []
        mask = os.umask(0)
        try:
            for source, target, _ in mounts:
                self.paths.append(os.path.realpath(target))
                self._locks += lock_mount_point(self.paths[-1], FOLDER if os.path.isdir(source) else FILE)  # noqa: PTH112
        except (OSError, ValueError) as fault:  # ValueError: not a valid path
            self.fault = fault
        finally:
            os.umask(mask)

    def remove(self) -> None:
        for lock in self._locks:
            os.close(lock)
        for path in reversed(self.paths):
            remove_mount_point(path)
        self._locks, self.paths = [], []


def lock_mount_point(path: str, kind: int) -> list[int]:
    """Create and lock a mount point. Return the locked descriptor, or none if the path exists for other reasons."""
    for _ in range(TRIES):
        try:
            return try_to_lock(path, kind)
        except FileNotFoundError as fault:  # its last user has just removed it or one of its parent folders
            last = fault
    raise last


def try_to_lock(path: str, kind: int) -> list[int]:
    with opened_parent(path, makes=True) as (folder, name):
        make_at(folder, name, kind)
        if not is_own_mount_point(os.stat(name, dir_fd=folder, follow_symlinks=False)):
            return []
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        has_lock(descriptor, shared=True, tries=TRIES)
        if is_at(descriptor, name, folder):
            return [descriptor]
        os.close(descriptor)
        raise FileNotFoundError(path)


@contextmanager
def opened_parent(path: str, makes: bool) -> Iterator[tuple[int, str]]:
    """Open the parent folder of the absolute path; yield it with the last name. `makes`: create missing folders."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        raise OSError(errno.EINVAL, f"cannot mount onto '{path}'")
    name = parts.pop()
    folder = os.open("/", PLACE | os.O_DIRECTORY)
    try:
        for part in parts:
            if makes:
                make_at(folder, part, PARENT)
            above, folder = folder, os.open(part, PLACE | os.O_DIRECTORY, dir_fd=folder)
            os.close(above)
        yield folder, name
    finally:
        os.close(folder)


def make_at(folder: int, name: str, kind: int) -> None:
    """Do nothing if the path exists."""
    if exists_at(folder, name):  # checked first: on file systems of the kernel, creating an existing path is an error
        return
    try:
        if kind == FILE:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(name, flags, stat.S_IMODE(kind), dir_fd=folder))
        else:
            os.mkdir(name, stat.S_IMODE(kind), dir_fd=folder)
    except FileExistsError:
        pass


def exists_at(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def is_own_mount_point(found: os.stat_result) -> bool:
    """Return whether this is a mount point that was created by this module and is still empty."""
    is_empty = found.st_size == 0 or stat.S_ISDIR(found.st_mode)  # rmdir rejects a folder that is not empty
    return found.st_mode in (FILE, FOLDER, PARENT) and found.st_uid == os.geteuid() and is_empty


def has_lock(descriptor: int, shared: bool, tries: int) -> bool:
    """Users of a mount point hold a shared lock. Its removal needs an exclusive lock."""
    import fcntl

    for number in range(tries):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
        except BlockingIOError:
            time.sleep(PAUSE if number + 1 < tries else 0)
        except OSError:
            return False  # a file system without locks: without an exclusive lock the mount point is never removed
        else:
            return True
    return False


def is_at(descriptor: int, name: str, folder: int) -> bool:
    return os.path.samestat(os.fstat(descriptor), os.stat(name, dir_fd=folder, follow_symlinks=False))


def remove_mount_point(path: str) -> None:
    """Remove the mount point and the folders that were created for it, unless they are in use."""
    tries = 1
    while os.path.basename(path) and remove_one(path, tries):  # noqa: PTH119
        path, tries = os.path.dirname(path), TRIES  # noqa: PTH120 - others may remove the same folder at the same time


def remove_one(path: str, tries: int) -> bool:
    """Return whether the path is removed, by this call or earlier."""
    try:
        with opened_parent(path, makes=False) as (folder, name):
            return remove_at(folder, name, tries)
    except OSError as fault:
        return isinstance(fault, FileNotFoundError)


def remove_at(folder: int, name: str, tries: int) -> bool:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not is_own_mount_point(found):
        return False
    with opened(name, os.O_RDONLY | os.O_NOFOLLOW, folder) as descriptor:
        if not has_lock(descriptor, shared=False, tries=tries) or not is_at(descriptor, name, folder):
            return False
        remove = os.unlink if found.st_mode == FILE else os.rmdir
        remove(name, dir_fd=folder)
    return True


# -- in the process that becomes the workload

NEW_NAMESPACE = 0x20000
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 1 << 12, 1 << 14, 1 << 18


def mount_all(order: dict[str, Any], fault: Exception | None) -> str:
    """Mount everything in a new mount namespace. Without permission, return a note and continue without mounts.

    `fault` is the reason why mount points are missing. It is raised only if the process is permitted to mount.
    """
    if not order["mounts"]:
        return ""
    try:
        Kernel().call("unshare", NEW_NAMESPACE, what="unshare")
        mount(None, "/", RECURSIVE | PRIVATE)
    except OSError as why:
        order["env"].update(order["env_without_mounts"])
        return without_mounts(order, why)
    if fault:
        raise fault
    for source, target, readonly in order["mounts"]:
        bind_mount(source, target, readonly)
    return ""


def bind_mount(source: str, target: str, readonly: bool) -> None:
    """Create the mount point if it is missing, which happens inside an earlier mount of the same workload.

    Such a mount point is not removed. Container engines do not remove it either.
    """
    with opened_parent(os.path.realpath(target), makes=True) as (folder, name):
        make_at(folder, name, FOLDER if os.path.isdir(source) else FILE)  # noqa: PTH112
        mount_at(source, folder, name, target, BIND | RECURSIVE)
        if readonly:
            mount_at(None, folder, name, target, BIND | REMOUNT | READ_ONLY)


def mount_at(source: str | None, folder: int, name: str, target: str, flags: int) -> None:
    """Mount through a descriptor, so that the checked file is the one that is mounted on. `target` is for messages."""
    with opened(name, PLACE, folder) as place:
        if stat.S_ISLNK(os.fstat(place).st_mode):
            raise OSError(errno.ELOOP, f"mount at '{target}': {os.strerror(errno.ELOOP)}")
        mount(source, f"/proc/self/fd/{place}", flags, target)


def mount(source: str | None, place: str, flags: int, target: str = "") -> None:
    target = target or place
    what = f"mount '{source}' at '{target}'" if source else f"mount '{target}'"
    Kernel().call("mount", source and os.fsencode(source), os.fsencode(place), None, flags, None, what=what)


def without_mounts(order: dict[str, Any], fault: OSError) -> str:
    """Return a note with the variables that replace mounts and with the missing targets.

    A source that would be mounted at the same path is not missing, but it stays writable.
    """
    places = order["env_without_mounts"]
    named = tuple(places.values())
    missing = [target for source, target, _ in order["mounts"] if source != target and not source.startswith(named)]
    follows = [f"paths are in {', '.join(f'${name}' for name in sorted(places))}"] if places else []
    follows += [f"missing: {', '.join(missing)}"] if missing else []
    why = "Agent is not root" if os.geteuid() else f"Agent cannot mount ({fault.strerror})"
    return f"{why}: {'; '.join(follows or ['nothing is read-only'])}"
