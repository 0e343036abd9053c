"""What a native workload sees at other paths than the rest of the machine. Part of its shim, so it imports little.

In come sources and targets; out go mounts that only the workload sees. A mount needs something below it, which others
see, too: what is made for that is known by its mode, so that every workload can tell, and goes with the last one that
uses it, whoever made it (docs/adr/0014). Owned are shared locks on it, for as long as the workload runs. Users may own
folders on the way to a mount point, so the way is walked by descriptors, and no link that appears on it is followed.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import Any

# The sticky bit says nothing about a file or about a folder in which only its owner may write: nobody else sets it.
# What is mounted onto cannot be opened by other users, so they cannot hold locks on it; others may list what it is in.
FILE, FOLDER, PARENT = stat.S_IFREG | 0o1600, stat.S_IFDIR | 0o1711, stat.S_IFDIR | 0o1755
PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
TRIES = 20
PAUSE = 0.001


class MountPoints:
    """Made by the keeper, which ends after the workload. `fault`: why not all of them could be made."""

    def __init__(self, mounts: list[tuple[str, str, bool]]) -> None:
        self.fault: Exception | None = None
        self.paths: list[str] = []
        self._locks: list[int] = []
        mask = os.umask(0)
        try:
            for source, target, _ in mounts:
                self.paths.append(os.path.realpath(target))
                self._locks += hold(self.paths[-1], FOLDER if os.path.isdir(source) else FILE)  # noqa: PTH112
        except (OSError, ValueError) as fault:  # the last one: no path at all
            self.fault = fault
        finally:
            os.umask(mask)

    def remove(self) -> None:
        for lock in self._locks:
            os.close(lock)
        for path in reversed(self.paths):
            remove_mount_point(path)
        self._locks, self.paths = [], []


def hold(path: str, kind: int) -> list[int]:
    """A locked descriptor, or none for what is there anyway."""
    for _ in range(TRIES):
        try:
            return try_to_hold(path, kind)
        except FileNotFoundError as fault:  # its last user has just removed it or a folder that it is in
            last = fault
    raise last


def try_to_hold(path: str, kind: int) -> list[int]:
    folder, name = open_parent(path, makes=True)
    try:
        make_at(folder, name, kind)
        if not was_made(os.stat(name, dir_fd=folder, follow_symlinks=False)):
            return []
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        has_lock(descriptor, shared=True, tries=TRIES)
        if is_at(descriptor, name, folder):
            return [descriptor]
        os.close(descriptor)
        raise FileNotFoundError(path)
    finally:
        os.close(folder)


def open_parent(path: str, makes: bool) -> tuple[int, str]:
    """The folder that the absolute path is in, and the name in there. `makes`: folders that are missing are made."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        raise OSError(errno.EINVAL, f"cannot mount onto '{path}'")
    name = parts.pop()
    folder = os.open("/", PLACE | os.O_DIRECTORY)
    for part in parts:
        above = folder
        try:
            if makes:
                make_at(above, part, PARENT)
            folder = os.open(part, PLACE | os.O_DIRECTORY, dir_fd=above)
        finally:
            os.close(above)
    return folder, name


def make_at(folder: int, name: str, kind: int) -> None:
    """Nothing happens if it is there."""
    if exists_at(folder, name):  # also where nobody may write, as on file systems of the kernel
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


def was_made(found: os.stat_result) -> bool:
    """For mounts, and nobody has put anything into it since."""
    is_empty = found.st_size == 0 or stat.S_ISDIR(found.st_mode)  # a folder that is not empty cannot be removed anyway
    return found.st_mode in (FILE, FOLDER, PARENT) and found.st_uid == os.geteuid() and is_empty


def has_lock(descriptor: int, shared: bool, tries: int) -> bool:
    """Users of a mount point share a lock on it; who removes it must be alone, for a moment."""
    import fcntl

    for number in range(tries):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
        except BlockingIOError:
            time.sleep(PAUSE if number + 1 < tries else 0)
        except OSError:
            return False  # a file system without locks: what nobody can have alone is never removed
        else:
            return True
    return False


def is_at(descriptor: int, name: str, folder: int) -> bool:
    return os.path.samestat(os.fstat(descriptor), os.stat(name, dir_fd=folder, follow_symlinks=False))


def remove_mount_point(path: str) -> None:
    """And the folders that were made for it, unless somebody uses them."""
    tries = 1
    while os.path.basename(path) and is_gone(path, tries):  # noqa: PTH119
        path, tries = os.path.dirname(path), TRIES  # noqa: PTH120 - others may be trying to remove the same folder


def is_gone(path: str, tries: int) -> bool:
    """Whether it was removed, by us or before."""
    try:
        folder, name = open_parent(path, makes=False)
        try:
            return is_removed(folder, name, tries)
        finally:
            os.close(folder)
    except OSError as fault:
        return isinstance(fault, FileNotFoundError)


def is_removed(folder: int, name: str, tries: int) -> bool:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not was_made(found):
        return False
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not has_lock(descriptor, shared=False, tries=tries) or not is_at(descriptor, name, folder):
            return False
        remove = os.unlink if found.st_mode == FILE else os.rmdir
        remove(name, dir_fd=folder)
    finally:
        os.close(descriptor)
    return True


# -- in the process that becomes the workload

NEW_NAMESPACE = 0x20000
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 1 << 12, 1 << 14, 1 << 18


def mount_all(order: dict[str, Any], fault: Exception | None) -> str:
    """Give the process its own view of the mounts; without the rights say so and go on without.

    `fault` is why there are not all mount points, which only matters to who may mount.
    """
    if not order["mounts"]:
        return ""
    try:
        system_call("unshare", "unshare", NEW_NAMESPACE)
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
    """What is mounted onto may be missing below a mount of its own, where container engines leave it, too."""
    folder, name = open_parent(os.path.realpath(target), makes=True)
    try:
        make_at(folder, name, FOLDER if os.path.isdir(source) else FILE)  # noqa: PTH112
        mount_at(source, folder, name, target, BIND | RECURSIVE)
        if readonly:
            mount_at(None, folder, name, target, BIND | REMOUNT | READ_ONLY)
    finally:
        os.close(folder)


def mount_at(source: str | None, folder: int, name: str, target: str, flags: int) -> None:
    """`target` is for messages; the descriptor leads to nothing but what was looked at."""
    place = os.open(name, PLACE, dir_fd=folder)
    try:
        if stat.S_ISLNK(os.fstat(place).st_mode):
            raise OSError(errno.ELOOP, f"mount at '{target}': {os.strerror(errno.ELOOP)}")
        mount(source, f"/proc/self/fd/{place}", flags, target)
    finally:
        os.close(place)


def mount(source: str | None, place: str, flags: int, target: str = "") -> None:
    target = target or place
    what = f"mount '{source}' at '{target}'" if source else f"mount '{target}'"
    system_call(what, "mount", source and os.fsencode(source), os.fsencode(place), None, flags, None)


def system_call(what: str, name: str, *arguments: Any) -> None:
    import ctypes

    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def without_mounts(order: dict[str, Any], fault: OSError) -> str:
    """What a variable names is found there; what would have been mounted onto itself is there anyway, but writable."""
    places = order["env_without_mounts"]
    told = tuple(places.values())
    missing = [target for source, target, _ in order["mounts"] if source != target and not source.startswith(told)]
    follows = [f"paths are in {', '.join(f'${name}' for name in sorted(places))}"] if places else []
    follows += [f"missing: {', '.join(missing)}"] if missing else []
    why = "Agent is not root" if os.geteuid() else f"Agent cannot mount ({fault.strerror})"
    return f"{why}: {'; '.join(follows or ['nothing is read-only'])}"
