"""The files next to a database: lock, confirmed commit, copy, and damaged databases that were kept.

Input: the path of the database. Output: file operations that survive a crash at any point. `WriterLock` owns the lock
file of one server.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ankaios.common.trusted_path import untrusted_part
from ankaios.storage.core.content_summary import ConfirmedCommit, row_checksum
from ankaios.storage.state_store import StorageFailed

_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700
_HEAD = "head"


class StoreFiles:
    """The names of all files of one store. `replacement` is the complete database that replaces a damaged one."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.wal = self._with("-wal")
        self.shared_memory = self._with("-shm")
        self.lock = self._with(".lock")
        self.head = self._with(".head")
        self.copy = self._with(".copy")
        self.replacement = self._with(".new")

    def _with(self, suffix: str) -> Path:
        return self.database.with_name(self.database.name + suffix)

    def damaged(self, seconds: float) -> Path:
        """The name under which a damaged database is kept."""
        return self._unused(".damaged", seconds)

    def kept_copy(self, seconds: float) -> Path:
        """The name under which the copy of a lost database is kept."""
        return self._unused(".copy", seconds)

    def _unused(self, suffix: str, seconds: float) -> Path:
        stamp = datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%SZ")
        names = (self._with(f"{suffix}-{stamp}{number}") for number in ("", *(f"-{n}" for n in range(2, 1000))))
        return next(name for name in names if not name.exists())

    def has_content(self) -> bool:
        """An empty file without WAL is what a crash leaves when a database is created."""
        return any(path.exists() and path.stat().st_size > 0 for path in (self.database, self.wal))


@contextmanager
def translated_os_errors(action: str, path: Path) -> Iterator[None]:
    """Translate errors of the operating system."""
    try:
        yield
    except OSError as error:
        raise StorageFailed(f"cannot {action} '{path}': {error.strerror or error}") from error


def prepare_directory(database: Path) -> None:
    """Create the directory if necessary, and reject places where the state would not be safe."""
    directory = database.parent
    with translated_os_errors("use the directory", directory):
        directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        if fault := untrusted_part(directory):
            raise StorageFailed(f"cannot store the state in '{database}': {fault}")
    if database.exists() and not database.is_file():
        raise StorageFailed(f"cannot store the state in '{database}': it is not a regular file")


def restrict_mode(database: Path) -> None:
    """Only the server's user may read the state; SQLite gives its own files the same mode."""
    with translated_os_errors("create the database", database):
        descriptor = os.open(database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        os.fchmod(descriptor, _FILE_MODE)
        os.close(descriptor)


class WriterLock:
    """One server at a time uses a database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        if self._descriptor is not None:
            return
        with translated_os_errors("create the lock", self._path):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise StorageFailed(
                f"cannot lock '{self._path}': another server (process {owner or 'unknown'}) uses the database"
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise StorageFailed(f"cannot lock '{self._path}': {error.strerror}") from error
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def read_head(path: Path) -> ConfirmedCommit | None:
    """Return the last confirmed commit; None if the file is missing or was not written completely."""
    try:
        checksum, _, data = path.read_bytes().rstrip(b" \n").partition(b" ")
        if int(checksum) != row_checksum(_HEAD, "", data):
            return None
        return msgspec.json.decode(data, type=ConfirmedCommit)
    except (OSError, ValueError):
        return None


def write_head(path: Path, head: ConfirmedCommit) -> None:
    """Not synchronised: after a power failure the file may be older than the database, but never newer."""
    data = msgspec.json.encode(head)
    line = str(row_checksum(_HEAD, "", data)).encode() + b" " + data + b"\n"
    with translated_os_errors("write", path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            os.pwrite(descriptor, line, 0)
            os.ftruncate(descriptor, len(line))
        finally:
            os.close(descriptor)
