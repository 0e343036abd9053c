"""Keeps what each workload was given over a restart of the agent: one file for each workload.

In: records of allocations. Out: the same after a restart. A file is written before the workload starts and removed
after it let go, so its cost follows the change. One that cannot be read is left out and said; it is removed only if
what stands in it is wrong, since a disk may recover.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from ankaios.common.device_grant import DeviceGrant, DeviceMount, DeviceNode
from ankaios.common.errors import Unavailable
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.slot_ledger import Claim, Slot
from ankaios.devices.whole_file import remove_drafts, write_whole

SUFFIX = ".json"

log = logging.getLogger(__name__)


class Allocation(Struct, frozen=True):
    """Devices of one resource in one container, and what their plugin gave for them."""

    resource: str
    container: str | None
    ids: tuple[str, ...]
    grant: DeviceGrant = field(default_factory=DeviceGrant)


class HeldSlot(Struct, frozen=True):
    slot: Slot
    claim: Claim
    instance: Instance
    capacity: int


class Record(Struct, frozen=True):
    """All that one workload holds. `lost`: of what it was given, some slot went to somebody else."""

    owner: str
    allocations: tuple[Allocation, ...]
    slots: tuple[HeldSlot, ...] = ()
    lost: bool = False

    @property
    def containers(self) -> tuple[str | None, ...]:
        return tuple(dict.fromkeys(allocation.container for allocation in self.allocations))


class ClaimStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self) -> Iterator[Record]:
        """The newest first: if two records name the same thing, the newer one is right."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_drafts(self._folder)
        for path in sorted(self._folder.glob(f"*{SUFFIX}"), key=_written, reverse=True):
            try:
                yield record_from_json(path.read_text())
            except OSError as error:
                log.warning("the claims in '%s' cannot be read now: %s", path, error)
            except (ValueError, KeyError, TypeError) as error:
                log.warning("the claims in '%s' cannot be read and are dropped: %r", path, error)
                with suppress(OSError):
                    path.unlink(missing_ok=True)

    def save(self, record: Record) -> None:
        """After a crash there is the whole record, or the one before."""
        path = self._path(record.owner)
        try:
            write_whole(path, record_to_json(record), 0o600)
        except OSError as error:
            raise Unavailable(f"cannot keep the claims of '{record.owner}' in '{path}': {error}") from error

    def remove(self, owner: str) -> None:
        """If it stays, its devices are held after a restart until somebody notices that the workload is gone."""
        try:
            self._path(owner).unlink(missing_ok=True)
        except OSError as error:
            log.warning("cannot remove the claims of '%s': %s", owner, error)

    def _path(self, owner: str) -> Path:
        return self._folder / f"{blake2b(owner.encode(), digest_size=16).hexdigest()}{SUFFIX}"


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def record_to_json(record: Record) -> str:
    content = json.dumps(asdict(record), default=_plain)
    return json.dumps({"checksum": _checksum(content), "record": json.loads(content)})


def _plain(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else asdict(value)


def record_from_json(text: str) -> Record:
    """Raises one of ValueError, KeyError and TypeError for what was not written by us."""
    document = json.loads(text)
    content = document["record"]
    if document["checksum"] != _checksum(json.dumps(content)):
        raise ValueError("the checksum is wrong")
    return Record(
        content["owner"],
        tuple(map(_allocation, content["allocations"])),
        tuple(
            HeldSlot(Slot(**it["slot"]), Claim(**it["claim"]), _instance(it["instance"]), it["capacity"])
            for it in content["slots"]
        ),
        content.get("lost", False),
    )


def _checksum(content: str) -> str:
    return blake2b(content.encode(), digest_size=8).hexdigest()


def _allocation(form: dict[str, Any]) -> Allocation:
    return Allocation(form["resource"], form["container"], tuple(form["ids"]), _grant(form["grant"]))


def _grant(form: dict[str, Any]) -> DeviceGrant:
    mounts = tuple(DeviceMount(**it) for it in form["mounts"])
    devices = tuple(DeviceNode(**it) for it in form["devices"])
    return DeviceGrant(
        form["envs"], mounts, devices, form["annotations"], tuple(form["cdi_devices"]), form["container"]
    )


def _instance(form: dict[str, Any]) -> Instance:
    device = form["device"]
    return Instance(
        form["name"],
        form["configuration"],
        form["shared"],
        DiscoveredDevice(
            device["id"],
            device["properties"],
            tuple(DeviceMount(**it) for it in device["mounts"]),
            tuple(DeviceNode(**it) for it in device["device_specs"]),
        ),
    )
