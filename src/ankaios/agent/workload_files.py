"""Writes the files of a workload on the host, to be mounted into it.

Input: files of the manifest. Output: file on the host -> mount point, or `FilesFailed` with the file and the reason.
After a failure the folder is removed completely. The folder is private to the agent, but the files in it are readable
for all users, because a container can run as any user (docs/adr/0021). Symbolic links are not followed: without mounts,
a native workload of another user owns the folder.
"""

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from ankaios.agent.tree_removal import remove_tree
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.workload import File

MAX_LEVELS = 255
LONGEST_PATH = 4096  # limit of the kernel in bytes, including the terminating zero
ROOT_MODE, FOLDER_MODE, FILE_MODE = 0o700, 0o755, 0o644
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | _SAFE


class FilesFailed(Rejected):
    """The workload cannot start with these files; a retry cannot succeed."""

    def __init__(self, reason: str) -> None:
        super().__init__(failure_text(reason))


class DiskFull(Unavailable):
    """The disk has no space for the files; a retry may succeed."""


def failure_text(reason: str) -> str:
    return f"Failed to create workload file: '{reason}'"


def write_files(folder: Path, files: Iterable[File]) -> Mapping[Path, str]:
    """Write the files. Existing files are overwritten in place, so that a container sees the new content."""
    try:
        return {_write(folder, file): file.mount_point for file in files}
    except (FilesFailed, DiskFull):
        remove_tree(folder)
        raise


def _write(folder: Path, file: File) -> Path:
    relative = relative_mount_point(file.mount_point)
    host_file = folder / relative
    content = content_of(file)
    try:
        if len(os.fsencode(host_file)) >= LONGEST_PATH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        parent = _open_folder(folder, relative.parts[:-1])
    except OSError as error:
        what = "failed to create workload file directory structure for"
        raise _failure(f"{what} '{file.mount_point}'", error) from error
    try:
        _put(parent, relative.name, content)
    except OSError as error:
        raise _failure(f"write failed for '{file.mount_point}'", error) from error
    finally:
        os.close(parent)
    return host_file


def _open_folder(root: Path, parts: Iterable[str]) -> int:
    """Return a descriptor of the folder below `root`; missing folders are created."""
    with suppress(FileExistsError):
        root.mkdir(mode=ROOT_MODE)
    folder = os.open(root, _FOLDER)
    for part in parts:
        above = folder
        try:
            folder = _step(above, part)
        finally:
            os.close(above)
    return folder


def _step(above: int, name: str) -> int:
    try:
        os.mkdir(name, FOLDER_MODE, dir_fd=above)
    except FileExistsError:
        return os.open(name, _FOLDER, dir_fd=above)
    folder = os.open(name, _FOLDER, dir_fd=above)
    os.fchmod(folder, FOLDER_MODE)
    return folder


def _put(folder: int, name: str, content: bytes) -> None:
    """Write in place, but only to a file with one link: another link could be a file of the host."""
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not (_is_plain(found) or stat.S_ISDIR(found.st_mode)):
            os.unlink(name, dir_fd=folder)
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | _SAFE, FILE_MODE, dir_fd=folder)
    try:
        if not _is_plain(os.fstat(descriptor)):
            raise OSError(errno.EPERM, "replaced by the workload")
        os.fchmod(descriptor, FILE_MODE)
        os.ftruncate(descriptor, 0)
        while content:
            content = content[os.write(descriptor, content) :]
    finally:
        os.close(descriptor)


def _is_plain(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _failure(what: str, error: OSError) -> FilesFailed | DiskFull:
    reason = f"{what}: '{error.strerror}'"
    return DiskFull(failure_text(reason)) if error.errno in (errno.ENOSPC, errno.EDQUOT) else FilesFailed(reason)


def folder_failure(error: OSError) -> FilesFailed | DiskFull:
    """Return the error for a folder of an instance that cannot be created or used."""
    return _failure("failed to create the folder of the workload", error)


def relative_mount_point(mount_point: str) -> PurePosixPath:
    """Return the path below the folder. Paths outside the folder are rejected."""
    fault = None
    if mount_point.endswith(("/", "/.")):
        fault = f"'{mount_point}' is a directory, expected a file"
    elif not mount_point.startswith("/"):
        fault = f"path '{mount_point}' is relative, expected absolute path"
    elif ".." in PurePosixPath(mount_point).parts or "\0" in mount_point:
        fault = f"path '{mount_point}' contains invalid path components"
    elif mount_point.count("/") > MAX_LEVELS:
        fault = f"path has {mount_point.count('/')} levels, expected at most {MAX_LEVELS}"
    if fault:
        raise FilesFailed(f"invalid mount point '{mount_point}': '{fault}'")
    return PurePosixPath(*[part for part in PurePosixPath(mount_point).parts if "/" not in part])


def content_of(file: File) -> bytes:
    if file.data is not None:
        return file.data.encode()
    import base64  # loaded late: most agents do not need it

    text = "".join(line.strip() for line in (file.binary_data or "").split("\n"))
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise FilesFailed(f"invalid base64 data in '{file.mount_point}': '{error}'") from error
