"""Files about the devices of workloads: claim records that outlive the agent, and the devices files of containers.

Input: claim records and grants. Output: the records after a restart, and grants extended by the devices file. A record
is written before its workload starts and removed when the workload releases its devices. A file always
has the old or the new content, even if the process is killed. A file that is incomplete after a power failure is
detected by its checksum.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ankaios.common.device_grant import DeviceGrant, DeviceMount
from ankaios.common.errors import Unavailable
from ankaios.common.file_replacement import remove_drafts, replace_file
from ankaios.devices.checked_file import read_checked, write_checked
from ankaios.devices.core.grants import DEVICES_FILE_VARIABLE, Allocated, devices_file_text
from ankaios.devices.core.node_devices import HeldSlot

SUFFIX = ".json"

log = logging.getLogger(__name__)


class Allocation(Struct, frozen=True):
    """Devices of one resource in one container. `grant`: what a foreign plugin gave for them.

    `where`: the selector that they were chosen by.
    """

    resource: str
    container: str | None
    ids: tuple[str, ...]
    grant: DeviceGrant = field(default_factory=DeviceGrant)
    where: tuple[tuple[str, str], ...] = ()


class ClaimRecord(Struct, frozen=True):
    """All devices of one workload. `lost`: at least one of its slots is claimed by another workload now."""

    owner: str
    allocations: tuple[Allocation, ...]
    slots: tuple[HeldSlot, ...] = ()
    lost: bool = False

    @property
    def containers(self) -> tuple[str | None, ...]:
        return tuple(dict.fromkeys(allocation.container for allocation in self.allocations))


class ClaimStore:
    """Keeps claim records in `claims`, by default a folder below `folder`, and devices files in the folder `files`."""

    def __init__(self, folder: Path, claims: Path | None = None) -> None:
        self._claims = claims or folder / "claims"
        self._files = folder / "files"

    def load(self) -> Iterator[ClaimRecord]:
        """All records, the newest first: if two records contain the same slot, the newer one is right.

        A file that cannot be read is skipped; it is removed only if its content is invalid, because a disk may recover.
        """
        for folder, mode in ((self._claims, 0o700), (self._files, 0o711)):
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
            remove_drafts(folder)
        for path in sorted(self._claims.glob(f"*{SUFFIX}"), key=_modified, reverse=True):
            try:
                yield read_checked(path, ClaimRecord)
            except OSError as error:
                log.warning("the claims in '%s' cannot be read now: %s", path, error)
            except ValueError as error:
                log.warning("the claims in '%s' are not valid and are dropped: %r", path, error)
                with suppress(OSError):
                    path.unlink(missing_ok=True)

    def save(self, record: ClaimRecord) -> None:
        path = self._claims_path(record.owner)
        try:
            write_checked(path, record)
        except OSError as error:
            raise Unavailable(f"cannot keep the claims of '{record.owner}' in '{path}': {error}") from error

    def write_devices_file(
        self, owner: str, number: int, grant: DeviceGrant, allocated: Sequence[Allocated]
    ) -> DeviceGrant:
        """Write the devices file of a container and add it to the grant.

        It has the same path inside and outside of the container, so that it is right for native processes too.
        """
        path = self._devices_path(owner, number)
        envs = {**grant.envs, DEVICES_FILE_VARIABLE: str(path)}
        mounts = (*grant.mounts, DeviceMount(str(path), str(path), read_only=True))
        complete = replace(grant, envs=envs, mounts=mounts)
        text = devices_file_text(owner, complete, allocated)
        try:
            if not _has_content(path, text):
                replace_file(path, text.encode(), 0o444)
        except OSError as error:
            raise Unavailable(f"cannot write the devices file '{path}': {error}") from error
        return complete

    def remove(self, owner: str, containers: int) -> None:
        """Remove all files of the workload.

        A record that stays holds its devices after a restart until the reconciler finds that the workload is gone.
        """
        for path in (self._claims_path(owner), *(self._devices_path(owner, number) for number in range(containers))):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                log.warning("cannot remove '%s' of '%s': %s", path, owner, error)

    def _claims_path(self, owner: str) -> Path:
        return self._claims / f"{blake2b(owner.encode(), digest_size=16).hexdigest()}{SUFFIX}"

    def _devices_path(self, owner: str, number: int) -> Path:
        return self._files / f"{blake2b(owner.encode(), digest_size=8).hexdigest()}-{number}{SUFFIX}"


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _has_content(path: Path, text: str) -> bool:
    with suppress(OSError, ValueError):
        return path.read_text() == text
    return False
