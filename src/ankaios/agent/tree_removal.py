"""Removes folders in which workloads could write any content.

Input: a folder. Output: whether it is removed. Deep folders and many files do not block the agent, and symbolic links
are not followed. A small folder is removed immediately; a large one is moved away first and removed by a thread, which
the module owns.
"""

import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from ankaios.common.supervision import internal_error

FOREGROUND_LIMIT = 0.05  # seconds during which the event loop of the agent is blocked
BACKGROUND_LIMIT = 600.0  # seconds; a process may write faster than files can be removed
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

log = logging.getLogger(__name__)


def remove_tree(folder: Path, seconds: float = FOREGROUND_LIMIT) -> bool:
    """Return whether the folder is removed completely. Raises no errors, and follows no symbolic links."""
    try:
        root = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return True
    except OSError:
        return _unlink(folder)
    try:
        _Removal(root, time.monotonic() + seconds).run()
    finally:
        os.close(root)
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


class _Late(Exception):
    """The time limit is reached."""


class _Removal:
    """Moves nested folders up to the root, so that deep nesting needs no recursion, long paths or many open files."""

    def __init__(self, root: int, until: float) -> None:
        self._root = root
        self._until = until
        self._progress = True

    def run(self) -> None:
        with suppress(_Late, OSError):
            while self._progress:
                self._progress = False
                self._empty(self._root)

    def _empty(self, folder: int) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                if time.monotonic() > self._until:
                    raise _Late
                with suppress(OSError):  # continue with the other entries
                    self._remove(folder, entry)
                    self._progress = True

    def _remove(self, folder: int, entry: os.DirEntry[str]) -> None:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name, dir_fd=folder)
        elif folder != self._root:
            self._move_up(folder, entry.name)
        else:
            self._remove_folder(entry.name)

    def _move_up(self, folder: int, name: str) -> None:
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError:
            os.rename(name, os.urandom(8).hex(), src_dir_fd=folder, dst_dir_fd=self._root)

    def _remove_folder(self, name: str) -> None:
        inner = os.open(name, _FOLDER, dir_fd=self._root)
        try:
            self._empty(inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=self._root)


class DeferredRemoval:
    """A folder on the same file system, with the folders that are to be removed in the background."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._is_busy = False
        self._has_more = False

    def take(self, folder: Path) -> None:
        """Move the folder away and remove it in the background. Raises OSError if it cannot be moved."""
        with self._lock:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            folder.rename(self._folder / os.urandom(8).hex())
        self.empty()

    def empty(self) -> None:
        """Remove the content in a daemon thread. It does not delay the end of the agent; the next agent continues."""
        with self._lock:
            self._has_more = self._folder.exists()
            if self._is_busy or not self._has_more:
                return
            self._is_busy = True
        threading.Thread(target=self._work, name="removal of old folders", daemon=True).start()

    def _work(self) -> None:
        while self._has_work():
            try:
                self._remove_all()
            except Exception as error:
                internal_error("the removal of old folders", error)

    def _remove_all(self) -> None:
        for old in list(self._folder.iterdir()):
            if not remove_tree(old, BACKGROUND_LIMIT):
                log.warning("cannot remove all of '%s', remove it by hand", old)

    def _has_work(self) -> bool:
        with self._lock:
            self._is_busy, self._has_more = self._has_more, False
            if not self._is_busy:
                with suppress(OSError):  # not empty: some files could not be removed
                    self._folder.rmdir()
            return self._is_busy
