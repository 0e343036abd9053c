"""The state file of an agent: written after each change, read at the start.

Input: assigned workloads, the device configurations, and changed states of other agents' workloads. Output: the state
before a restart, or none. Owns `<state dir>/<agent>.state` and its content. The file always has the complete old or new
content, also after a power failure. Problems with the file or the folder are logged as a warning; the agent then works
as without a state folder.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from ankaios.agent.core.offline_state import OfflineState, decode_offline_state, encode_offline_state, foreign_states
from ankaios.common.errors import Rejected
from ankaios.common.execution_state import ExecutionState
from ankaios.common.file_replacement import replace_file, sync_folder
from ankaios.common.pb.grpc_api_pb2 import DeviceUpdate
from ankaios.common.trusted_path import owner_fault
from ankaios.common.workload import DeletedWorkload, InstanceName, WorkloadSpec

FOLDER_MODE, FILE_MODE = 0o700, 0o600
MAX_SIZE = 64 * 1024 * 1024
COLLECTING = 0.1  # seconds in which several changes are combined into one write
RETRY_PAUSE = 10.0

log = logging.getLogger(__name__)


class OfflineStore:
    def __init__(self, folder: Path, agent: str) -> None:
        self.path = folder / f"{agent}.state"
        self._folder = folder
        self._agent = agent
        self._workloads: dict[str, WorkloadSpec] = {}
        self._devices = b""
        self._written: bytes | None = None
        self._changed = asyncio.Event()
        self._warned = ""

    def load(self) -> OfflineState | None:
        """Return None if there is no usable file."""
        try:
            prepare_state_folder(self._folder)
            data = _read_own_file(self.path)
            state = decode_offline_state(data, self._agent)
        except FileNotFoundError:
            return None
        except (OSError, Rejected) as error:
            log.warning("the state file '%s' is ignored: %s", self.path, _reason(error))
            return None
        self._written = data
        self._workloads, self._devices = {spec.name: spec for spec in state.workloads}, state.devices
        return state

    def assign(self, workloads: Iterable[WorkloadSpec]) -> None:
        """Store the complete list of the server."""
        self._workloads = {spec.name: spec for spec in workloads}
        self._changed.set()

    def update(self, added: Iterable[WorkloadSpec], deleted: Iterable[DeletedWorkload]) -> None:
        for gone in deleted:
            self._workloads.pop(gone.instance_name.workload, None)
        self._workloads |= {spec.name: spec for spec in added}
        self._changed.set()

    def put_devices(self, update: DeviceUpdate) -> None:
        """Store the device configurations of a complete update."""
        configurations = DeviceUpdate(complete=True, configurations=update.configurations)
        self._devices = configurations.SerializeToString(deterministic=True)
        self._changed.set()

    def states_changed(self, workloads: Iterable[str]) -> None:
        """Store the states of other agents' workloads if an own workload depends on one of these."""
        needed = {name for spec in self._workloads.values() for name in spec.dependencies}
        if not needed.isdisjoint(workloads):
            self._changed.set()

    async def run(self, states_of: Callable[[Iterable[str]], Mapping[InstanceName, ExecutionState]]) -> None:
        """Write each change soon. `states_of` returns the known states of these workloads."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(COLLECTING)
            self._changed.clear()
            state = OfflineState(self._agent, tuple(self._workloads.values()), devices=self._devices)
            state = replace(state, states=foreign_states(states_of(state.dependencies), self._agent))
            if not await self._write(encode_offline_state(state)):
                await asyncio.sleep(RETRY_PAUSE)
                self._changed.set()

    async def _write(self, data: bytes) -> bool:
        if data == self._written:
            return True
        try:
            await asyncio.to_thread(self._write_now, data)
        except (OSError, Rejected) as error:
            if (reason := _reason(error)) != self._warned:
                log.warning("the state file '%s' cannot be written: %s", self.path, reason)
                self._warned = reason
            return False
        self._written, self._warned = data, ""
        return True

    def _write_now(self, data: bytes) -> None:
        """Write the file. Runs in a thread, so that a slow disk does not delay workloads."""
        prepare_state_folder(self._folder)
        replace_file(self.path, data, FILE_MODE)
        sync_folder(self._folder)


def prepare_state_folder(folder: Path) -> None:
    """Create the folder if needed. Raises OSError or `Rejected` if it cannot be used.

    A parent folder of another user is no risk: a replacement by that user has a different owner and is rejected.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=FOLDER_MODE)
    if fault := owner_fault(folder.lstat(), os.geteuid()):
        raise Rejected(f"the folder {fault}")


def _read_own_file(path: Path) -> bytes:
    """Raises OSError or `Rejected` for a file that another user could have written."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Rejected("it is not a regular file")
        if found.st_uid not in (0, os.geteuid()):
            raise Rejected(f"it belongs to another user (id {found.st_uid})")
        if found.st_mode & 0o022:
            raise Rejected(f"it has mode {stat.S_IMODE(found.st_mode):04o}, so others could have changed it")
        if found.st_size > MAX_SIZE:
            raise Rejected(f"it has more than {MAX_SIZE} bytes")
        return file.read(MAX_SIZE)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
