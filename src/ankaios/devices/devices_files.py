"""The files in which workloads can read all about their devices: one for each container that has some.

In: what a container receives. Out: the same with the file in it. A file appears whole or not at all, and only what is
new is written.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from msgspec.structs import replace

from ankaios.common.device_grant import DeviceGrant, DeviceMount
from ankaios.common.errors import Unavailable
from ankaios.devices.core.grants import DEVICES_FILE_VARIABLE, Allocated, devices_file_text
from ankaios.devices.whole_file import remove_drafts, write_whole

log = logging.getLogger(__name__)


class DevicesFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        self._folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        remove_drafts(self._folder)

    def write(self, owner: str, number: int, grant: DeviceGrant, allocated: Sequence[Allocated]) -> DeviceGrant:
        """The file has the same path inside and outside, so that it is right for plain processes too."""
        path = self._path(owner, number)
        envs = {**grant.envs, DEVICES_FILE_VARIABLE: str(path)}
        mounts = (*grant.mounts, DeviceMount(str(path), str(path), read_only=True))
        complete = replace(grant, envs=envs, mounts=mounts)
        try:
            _put(path, devices_file_text(owner, complete, allocated))
        except OSError as error:
            raise Unavailable(f"cannot write the devices file '{path}': {error}") from error
        return complete

    def remove(self, owner: str, count: int) -> None:
        """A file that stays behind harms nobody: the next workload of that name replaces it."""
        for number in range(count):
            path = self._path(owner, number)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                log.warning("cannot remove the devices file '%s': %s", path, error)

    def _path(self, owner: str, number: int) -> Path:
        return self._folder / f"{blake2b(owner.encode(), digest_size=8).hexdigest()}-{number}.json"


def _put(path: Path, text: str) -> None:
    with suppress(OSError, ValueError):
        if path.read_text() == text:
            return
    write_whole(path, text, 0o444)
