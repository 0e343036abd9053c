"""Checks whether another user of the machine could replace a path or one of its parent folders.

Input: a path. Output: the first part that cannot be trusted, with the reason. A folder is trusted if it belongs to root
or to the current user, and other users cannot rename or delete its entries: they have no write permission, or the
sticky bit limits them to their entries. A private group, whose only member is the owner, does not count as other users.
Parts that do not exist yet are not checked: the caller creates them.
"""

import errno
import os
import stat
from pathlib import Path

from msgspec import Struct

_MAX_LINKS = 40  # the limit of the kernel


class UntrustedPart(Struct, frozen=True):
    path: str
    why: str
    advice: str

    def __str__(self) -> str:
        return f"'{self.path}' {self.why}; {self.advice}"


def untrusted_part(path: Path) -> UntrustedPart | None:
    """Return None if only root and the current user can replace `path`. Raises OSError if a part is not accessible."""
    uid = os.geteuid()
    current, links = "/", 0
    pending = [part for part in reversed(Path(path).absolute().parts) if part != "/"]
    while True:
        found = _lstat(current)
        if found is None:
            return None
        if fault := part_fault(current, found, uid):
            return fault
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _MAX_LINKS:
                return UntrustedPart(current, "is one of too many symbolic links", "name the folder without links")
            target = Path(os.readlink(current))  # noqa: PTH115 - the text, not a path
            pending.extend(part for part in reversed(target.parts) if part != "/")
            current = "/" if target.is_absolute() else os.path.dirname(current)  # noqa: PTH120
            continue
        if not pending:
            return None
        part = pending.pop()
        current = os.path.dirname(current) if part == ".." else os.path.join(current, part)  # noqa: PTH118, PTH120


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def part_fault(path: str, found: os.stat_result, uid: int) -> UntrustedPart | None:
    """Check one folder or symbolic link of the path, for a process of the user `uid`."""
    if found.st_uid not in (0, uid):
        why = f"belongs to another user (id {found.st_uid}), who could replace everything in it"
        return UntrustedPart(path, why, "remove it or choose a folder of root or of this user")
    if stat.S_ISLNK(found.st_mode) or found.st_mode & stat.S_ISVTX or not _others_may_write(found):
        return None
    who = "every user" if found.st_mode & 0o002 else f"the group with id {found.st_gid}"
    why = f"has mode {stat.S_IMODE(found.st_mode):04o}, so {who} could replace everything in it"
    return UntrustedPart(path, why, f"run 'chmod go-w {path}' or choose another folder")


def _others_may_write(found: os.stat_result) -> bool:
    if found.st_mode & 0o002:
        return True
    return bool(found.st_mode & 0o020) and not is_private_group(found.st_uid, found.st_gid)


def is_private_group(uid: int, gid: int) -> bool:
    """Return whether the group has the name of the user and no other members."""
    import grp  # loaded late: only needed for folders that a group may write
    import pwd

    try:
        user, group = pwd.getpwuid(uid).pw_name, grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == user and set(group.gr_mem) <= {user}


def owner_fault(found: os.stat_result, uid: int) -> str | None:
    """Return why this is not a folder of the user `uid`; None if it is."""
    if stat.S_ISLNK(found.st_mode):
        return "is a symbolic link"
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"
    return None if found.st_uid == uid else f"belongs to another user (id {found.st_uid})"


def set_mode(folder: Path, mode: int) -> None:
    """Set the mode of a folder of the current user, independently of the umask. Symbolic links are not followed."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if fault := owner_fault(os.fstat(descriptor), os.geteuid()):
            raise PermissionError(errno.EPERM, f"'{folder}' {fault}")
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
