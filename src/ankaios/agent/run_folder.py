"""Where an agent keeps what lives as long as its workloads: FIFOs and files, one folder for each instance.

    <run folder>/<agent>_io/<workload>.<id>/control_interface/{input,output}
    <run folder>/<agent>_io/<workload>.<id>/files/<mount point>

It is never removed as a whole: workloads outlive the agent and keep using it. Owned here: the lock on it, and the modes
of the folders above (docs/adr/0021): nobody but root and the user of the agent can exchange one of them, or read what
is in the folder of an instance.
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

LOOK_AGAIN = 0.2
BASE_MODE = 0o1777
OWN_MODE = 0o711  # a workload of another user may have to pass through it to what it may use
INSTANCE_MODE, PASSABLE_MODE = 0o700, 0o711
_CONTEXT = "Run folder creation failed. Cannot continue without run folder"

log = logging.getLogger(__name__)


class RunFolder:
    """[impl->swdd~agent-control-interface-pipes-path-naming~1]"""

    def __init__(self, base: Path, agent: str) -> None:
        self.path = base / f"{agent}_io"
        self._lock: int | None = None
        self._removal = DeferredRemoval(
            self.path / "removed"
        )  # no workload has this folder, theirs have a dot in the name

    def prepare(self, base: Path) -> None:
        """Only the default folder is made on demand: a mistyped one must not silently fill the disk elsewhere."""
        try:
            if base == default_run_folder():
                _make_base(base)
            elif not base.is_dir():
                raise StartupFailed(_CONTEXT, f"the run folder '{base}' does not exist, create it first")
            _check_trust(base)
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
        """Wait until no other agent of this name works here: two would start the same containers, and delete them.

        Answers whether there was one. What an earlier one had no time to remove is removed now.
        """
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        was_alone = _is_locked(self._lock)
        if not was_alone:
            log.warning("another agent works in '%s', waiting until it has ended", self.path)
            while not _is_locked(self._lock):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(LOOK_AGAIN)
        self._removal.empty()
        return not was_alone

    def unlock(self) -> None:
        """The end of the process does so as well, however it comes."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def of(self, name: InstanceName) -> Path:
        """Raises `Rejected` for a name that might lead elsewhere, whoever made it up."""
        if InstanceName.parse(str(name)) != name:
            raise Rejected(f"'{name}' is no name of a workload instance")
        return self.path / f"{name.workload}.{name.id}"

    def make(self, name: InstanceName) -> Path:
        """The folder of the instance, for the agent alone; raises OSError if it cannot be made or used.

        Others may at most pass through it, which a native workload of another user needs where nothing can be mounted.
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
        """It is out of the way afterwards; what takes long to remove is removed by and by."""
        try:
            self._discard(self.of(name))
        except (Rejected, OSError) as error:
            log.warning("cannot remove the folder of '%s': %s", name, error)

    def remove_control_interface(self, name: InstanceName) -> None:
        """With everything that the workload put there; raises OSError if it cannot even be moved out of the way."""
        self._discard(self.control_interface(name))

    def remove_files(self, name: InstanceName) -> None:
        try:
            self._discard(self.files(name))
            with suppress(OSError):
                self.of(name).rmdir()  # only if nothing else is in it
        except (Rejected, OSError) as error:
            log.warning("cannot remove the files of '%s': %s", name, error)

    def _discard(self, folder: Path) -> None:
        if not remove_tree(folder):
            self._removal.take(folder)


def _check_trust(base: Path) -> None:
    """What others can exchange would lead the agent, which may be root, to any file of the host."""
    if fault := untrusted_part(base):
        raise StartupFailed(_CONTEXT, f"{fault} with --run-folder")


def _make_base(base: Path) -> None:
    """For every user, and none may touch what belongs to another. One that was made with other rights gets these."""
    _check_trust(base.parent)
    for folder in reversed([folder for folder in (base, *base.parents) if not folder.exists()]):
        with suppress(FileExistsError):  # another agent starts at the same time
            folder.mkdir(mode=0o755)
    if owner_fault(base.lstat(), os.geteuid()) is None:
        set_mode(base, BASE_MODE)


def _is_locked(folder: int) -> bool:
    """By us, or by nobody because the file system has no locks."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        log.warning("cannot make sure that no other agent works here: %s", error)
    return True
