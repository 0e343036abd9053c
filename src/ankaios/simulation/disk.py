"""The disks of simulated hosts: full on command, and torn by a power cut.

Input: the folder of a host. Output: writes that fail while its disk is full; after a power cut, files without what was
not synchronized. Owns which disks are full and what was synchronized. The files are real ones in a folder of memory.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from ankaios.simulation.virtual_time import current_process
from ankaios.storage.sqlite.database import SqliteDatabase

# Files that only exist while a program uses them.
_VOLATILE = ("-shm",)


class SimulatedDisks:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._full: set[str] = set()
        self._synchronized: set[tuple[int, int, int]] = set()
        self._fsync = os.fsync
        self._write = os.write

    def fill(self, host: str) -> None:
        self._full.add(host)

    def free(self, host: str) -> None:
        self._full.discard(host)

    def free_all(self) -> None:
        self._full.clear()

    def replaced(self) -> list[tuple[Any, str, Any]]:
        """What has to be replaced while the simulation runs."""
        return [
            (os, "fsync", self._note_fsync),
            (os, "write", self._checked_write),
            *(
                (SqliteDatabase, name, self._refused_if_full(getattr(SqliteDatabase, name)))
                for name in ("commit", "save_records", "probe")
            ),
        ]

    # --- full disks ---

    def _is_full(self) -> bool:
        process = current_process()
        return process is not None and process.host in self._full

    def _checked_write(self, descriptor: int, data: Any) -> int:
        if self._full and self._is_full() and stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(descriptor, data)

    def _refused_if_full(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any) -> Any:
            if self._is_full():
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            return work(*args)

        return checked

    # --- power cuts ---

    def _note_fsync(self, descriptor: int) -> None:
        self._fsync(descriptor)
        self._synchronized.add(_version(os.fstat(descriptor)))

    def process_ended(self, folder: Path) -> None:
        """The kernel closes the databases of a killed process: the next process opens other files."""
        for path in _files(folder):
            if path.name.endswith(_VOLATILE):
                path.unlink()
            elif path.suffix == ".db" or path.name.endswith("-wal"):
                self._copy(path)

    def _copy(self, path: Path) -> None:
        was_synchronized = _version(path.stat()) in self._synchronized
        draft = path.with_name(f"{path.name}.copy")
        shutil.copy(path, draft)
        draft.replace(path)
        if was_synchronized:
            self._synchronized.add(_version(path.stat()))

    def power_cut(self, folder: Path) -> None:
        """Tear what was not synchronized. SQLite synchronizes its commits; what it was writing then is half there."""
        for path in _files(folder):
            found = path.stat()
            if path.name.endswith("-wal"):
                with path.open("ab") as file:
                    file.write(self._random.randbytes(self._random.randrange(1, 5000)))
            elif path.suffix != ".db" and _version(found) not in self._synchronized and found.st_size:
                os.truncate(path, self._random.randrange(found.st_size))


def _version(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_mtime_ns, found.st_size


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
