"""Removes folders in which workloads could write, whatever they have left there.

Comes in: a folder. Goes out: whether it is gone. Neither depth nor number of files hold up the agent, and no link leads
it elsewhere: little is removed at once, more goes out of the way first. Owned here: the thread that removes it then.
"""

import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from ankaios.common.supervision import internal_error

AT_ONCE = 0.05  # seconds in which nothing else of the agent goes on
IN_THE_END = 600.0  # seconds; somebody may write faster than anybody can remove
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

log = logging.getLogger(__name__)


def remove_tree(folder: Path, seconds: float = AT_ONCE) -> bool:
    """Whether nothing of it is left. Never fails, never follows a link."""
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
    """Time is up."""


class _Removal:
    """Folders in folders are moved up to the root, so that no depth needs a stack, a long path or many open files."""

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
                with suppress(OSError):  # the others can be removed nevertheless
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
    """A folder for what is to be removed, on the same file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._is_busy = False
        self._has_more = False

    def take(self, folder: Path) -> None:
        """Out of the way at once; raises OSError if it cannot be moved."""
        with self._lock:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            folder.rename(self._folder / os.urandom(8).hex())
        self.empty()

    def empty(self) -> None:
        """In a daemon thread, so that an agent can end meanwhile; the next one goes on."""
        with self._lock:
            self._has_more = self._folder.exists()
            if self._is_busy or not self._has_more:
                return
            self._is_busy = True
        threading.Thread(target=self._work, name="removal of old folders", daemon=True).start()

    def _work(self) -> None:
        while self._goes_on():
            try:
                self._remove_all()
            except Exception as error:
                internal_error("the removal of old folders", error)

    def _remove_all(self) -> None:
        for old in list(self._folder.iterdir()):
            if not remove_tree(old, IN_THE_END):
                log.warning("cannot remove all of '%s', remove it by hand", old)

    def _goes_on(self) -> bool:
        with self._lock:
            self._is_busy, self._has_more = self._has_more, False
            if not self._is_busy:
                with suppress(OSError):  # something could not be removed
                    self._folder.rmdir()
            return self._is_busy
