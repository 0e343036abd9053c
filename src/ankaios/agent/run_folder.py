"""The folder of an agent with the FIFOs and files of its workloads, one folder for each instance.

    <run folder>/<agent>_io/<workload>.<id>/control_interface/{input,output}
    <run folder>/<agent>_io/<workload>.<id>/files/<mount point>

The folder is not removed when the agent ends, because workloads outlive the agent and continue to use it. The module
owns the lock on the folder and the modes of its folders (docs/adr/0021): only root and the user of the agent can
replace a folder, or read the folder of an instance.
"""

import asyncio
import errno
import fcntl
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

from ankaios.agent.settings import default_run_folder
from ankaios.agent.tree_removal import DeferredRemoval, remove_tree
from ankaios.common.errors import Rejected, StartupFailed
from ankaios.common.trusted_path import owner_fault, set_mode, untrusted_part
from ankaios.common.workload import InstanceName

LOCK_POLL = 0.2
BASE_MODE = 0o1777
OWN_MODE = 0o711  # a workload of another user may have to traverse it
INSTANCE_MODE, PASSABLE_MODE = 0o700, 0o711
_CONTEXT = "Run folder creation failed. Cannot continue without run folder"

log = logging.getLogger(__name__)


class RunFolder:
    """[impl->swdd~agent-control-interface-pipes-path-naming~1]"""

    def __init__(self, base: Path, agent: str) -> None:
        self._base = base
        self.path = base / f"{agent}_io"
        self._lock: int | None = None
        # No conflict with folders of workloads, whose names contain a dot.
        self._removal = DeferredRemoval(self.path / "removed")

    def prepare(self) -> None:
        """Create the folder. Only the default run folder is created on demand; a mistyped one is an error."""
        try:
            if self._base == default_run_folder():
                _make_base(self._base)
            elif not self._base.is_dir():
                raise StartupFailed(_CONTEXT, f"the run folder '{self._base}' does not exist, create it first")
            _check_trust(self._base)
            self._make()
        except OSError as error:
            raise StartupFailed(_CONTEXT, f"cannot create '{self.path}': {error.strerror}") from error

    def _make(self) -> None:
        with suppress(FileExistsError):
            self.path.mkdir(mode=OWN_MODE)
        found = self.path.lstat()
        if fault := owner_fault(found, os.geteuid()):
            advice = "remove it or choose another folder with --run-folder"
            raise StartupFailed(_CONTEXT, f"'{self.path}' {fault}, {advice}")
        set_mode(self.path, OWN_MODE)

    async def lock(self) -> bool:
        """Wait until no other agent of this name runs: two agents would start and delete the same containers.

        Return whether another agent was running. Folders that it had no time to remove are removed now.
        """
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        was_alone = _is_locked(self._lock)
        if not was_alone:
            log.warning("another agent works in '%s', waiting until it has ended", self.path)
            while not _is_locked(self._lock):  # noqa: ASYNC110 - no event reports it
                await asyncio.sleep(LOCK_POLL)
        self._removal.empty()
        return not was_alone

    def unlock(self) -> None:
        """Release the lock. The end of the process releases it as well."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def of(self, name: InstanceName) -> Path:
        """Return the folder of the instance. Raises `Rejected` for a name that could lead to another folder."""
        if InstanceName.parse(str(name)) != name:
            raise Rejected(f"'{name}' is not a valid name of a workload instance")
        return self.path / f"{name.workload}.{name.id}"

    def make(self, name: InstanceName) -> Path:
        """Create the folder of the instance, private to the agent. Raises OSError if it cannot be created or used.

        Mode 0711 is kept: without mounts, a native workload of another user must be able to traverse the folder.
        """
        folder = self.of(name)
        with suppress(FileExistsError):
            folder.mkdir(mode=INSTANCE_MODE)
        found = folder.lstat()
        if fault := owner_fault(found, os.geteuid()):
            raise PermissionError(errno.EPERM, f"'{folder}' {fault}")
        if stat.S_IMODE(found.st_mode) not in (INSTANCE_MODE, PASSABLE_MODE):
            set_mode(folder, INSTANCE_MODE)
        return folder

    def control_interface(self, name: InstanceName) -> Path:
        return self.of(name) / "control_interface"

    def files(self, name: InstanceName) -> Path:
        return self.of(name) / "files"

    def remove(self, name: InstanceName) -> None:
        """Remove the folder, or move it away and remove it in the background if that takes long."""
        try:
            self._discard(self.of(name))
        except (Rejected, OSError) as error:
            log.warning("cannot remove the folder of '%s': %s", name, error)

    def remove_control_interface(self, name: InstanceName) -> None:
        """Remove the folder with all files of the workload. Raises OSError if it can be neither removed nor moved."""
        self._discard(self.control_interface(name))

    def remove_files(self, name: InstanceName) -> None:
        try:
            self._discard(self.files(name))
            with suppress(OSError):
                self.of(name).rmdir()  # only if it is empty
        except (Rejected, OSError) as error:
            log.warning("cannot remove the files of '%s': %s", name, error)

    def _discard(self, folder: Path) -> None:
        if not remove_tree(folder):
            self._removal.take(folder)


def _check_trust(base: Path) -> None:
    """Reject a path that other users can replace: they could make the agent, often root, use any file of the host."""
    if fault := untrusted_part(base):
        raise StartupFailed(_CONTEXT, f"{fault} with --run-folder")


def _make_base(base: Path) -> None:
    """Create the folder for all users, with the sticky bit, and correct the mode of an existing one."""
    _check_trust(base.parent)
    for folder in reversed([folder for folder in (base, *base.parents) if not folder.exists()]):
        with suppress(FileExistsError):  # another agent starts at the same time
            folder.mkdir(mode=0o755)
    if owner_fault(base.lstat(), os.geteuid()) is None:
        set_mode(base, BASE_MODE)


def _is_locked(folder: int) -> bool:
    """Try to lock the folder. Return True also if the file system has no locks."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        log.warning("cannot make sure that no other agent works here: %s", error)
    return True
