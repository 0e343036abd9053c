"""Prepares, locks and removes the folders of native workloads.

Input: the folder of a workload. Output: changed files, or `RuntimeFailed`. The module owns the lock of a folder, which
keepers take as well while they start a process.
"""

import asyncio
import fcntl
import logging
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from ankaios.common.trusted_path import set_mode
from ankaios.runtimes.native.ending import KILL_TIME
from ankaios.runtimes.native.processes import NativeFolder
from ankaios.runtimes.runtime_connector import RuntimeFailed

LOCK_LIMIT = 5.0  # a start takes milliseconds until the process is recorded
LOCK_PAUSE = 0.005

_log = logging.getLogger(__name__)


@asynccontextmanager
async def start_lock(folder: NativeFolder) -> AsyncGenerator[None, None]:
    """Lock the folder, so that no other start can run. A keeper that blocks during a start is killed."""
    try:
        descriptor = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as fault:
        raise RuntimeFailed(f"cannot open '{folder.path}': {fault.strerror}") from fault
    try:
        if not await _locked(descriptor, LOCK_LIMIT):
            starter = folder.starter()
            if starter is not None and starter.alive:
                _log.warning("process %d has not finished the start of '%s', killing it", starter.pid, folder.path)
                os.kill(starter.pid, signal.SIGKILL)
            if not await _locked(descriptor, KILL_TIME):
                raise RuntimeFailed(f"cannot end the start of '{folder.path.name}' that is under way")
        yield
    finally:
        os.close(descriptor)


async def _locked(descriptor: int, limit: float) -> bool:
    """Lock the folder. On a file system without locks, continue without one."""
    for _ in range(max(int(limit / LOCK_PAUSE), 1)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(LOCK_PAUSE)
        except OSError:
            return True
        else:
            return True
    return False


def clear_folder(folder: Path, token: str, *, keeps_log: bool) -> None:
    """Remove the files of an earlier run. The new token stops an earlier start that is still delayed."""
    names = ["exit", "oom", "process", "keeper", "note", "mount_points", "cgroups"]
    try:
        for name in [*names, *([] if keeps_log else ["log", "log.1"])]:
            (folder / name).unlink(missing_ok=True)
        (folder / "start").write_text(token)
    except OSError as fault:
        raise RuntimeFailed(f"cannot prepare '{folder}': {fault.strerror}") from fault


def make_private_folder(folder: Path) -> None:
    """Create the folder with mode 0700: the run folder can be accessible to all users, but this one must not be."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    set_mode(folder, 0o700)


def remove_folder(folder: Path) -> None:
    import shutil  # loaded late, so that the agent starts faster

    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as fault:
        raise RuntimeFailed(f"cannot remove '{folder}': {fault.strerror}") from fault
