"""Writes the files of a workload on the host, to be mounted into it.

Comes in: files as the manifest has them. Goes out: file on the host -> mount point, or `FilesFailed` saying which file
and why. Everything or nothing: after a failure the folder is gone.
"""

import errno
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from ankaios.agent.tree_removal import remove_tree
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.workload import File


class FilesFailed(Rejected):
    """The workload cannot start with these files: trying again would not help."""

    def __init__(self, reason: str) -> None:
        super().__init__(failure_text(reason))


class DiskFull(Unavailable):
    """There is no room for the files; there may be some soon."""


def failure_text(reason: str) -> str:
    return f"Failed to create workload file: '{reason}'"


def write_files(folder: Path, files: Iterable[File]) -> Mapping[Path, str]:
    """Existing files are overwritten in place, so that a container which mounts them sees the new content."""
    try:
        return {_write(folder, file): file.mount_point for file in files}
    except (FilesFailed, DiskFull):
        remove_tree(folder)
        raise


def _write(folder: Path, file: File) -> Path:
    host_file = folder / relative_mount_point(file.mount_point)
    content = content_of(file)
    try:
        host_file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = "failed to create workload file directory structure for"
        raise _failure(f"{what} '{file.mount_point}'", error) from error
    try:
        host_file.write_bytes(content)
    except OSError as error:
        raise _failure(f"write failed for '{file.mount_point}'", error) from error
    return host_file


def _failure(what: str, error: OSError) -> FilesFailed | DiskFull:
    reason = f"{what}: '{error.strerror}'"
    return DiskFull(failure_text(reason)) if error.errno in (errno.ENOSPC, errno.EDQUOT) else FilesFailed(reason)


def relative_mount_point(mount_point: str) -> PurePosixPath:
    """Where it lies below the folder; nothing may lie outside."""
    fault = None
    if mount_point.endswith(("/", "/.")):
        fault = f"'{mount_point}' is a directory, expected a file"
    elif not mount_point.startswith("/"):
        fault = f"path '{mount_point}' is relative, expected absolute path"
    elif ".." in PurePosixPath(mount_point).parts or "\0" in mount_point:
        fault = f"path '{mount_point}' contains invalid path components"
    if fault:
        raise FilesFailed(f"invalid mount point '{mount_point}': '{fault}'")
    return PurePosixPath(*[part for part in PurePosixPath(mount_point).parts if "/" not in part])


def content_of(file: File) -> bytes:
    if file.data is not None:
        return file.data.encode()
    import base64  # most agents never need it

    text = "".join(line.strip() for line in (file.binary_data or "").split("\n"))
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise FilesFailed(f"invalid base64 data in '{file.mount_point}': '{error}'") from error
