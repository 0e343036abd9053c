"""The checkpoint file of a kubelet: which device ids it has given to which containers.

Input: the text of the file. Output: the ids in use, with the slots that our own answers named. The kubelet writes the
file when it allocates and when a plugin sends a list; it contains init containers, and is complete right after a
restart, when the list of pods is not.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from ankaios.common.errors import Rejected
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.grants import ANNOTATION_PREFIX
from ankaios.devices.core.slot_ledger import Slot
from ankaios.devices.pb import device_plugin_pb2 as pb

DeviceKey = tuple[str, str]
"""The resource and the id of a device, as the kubelet identifies it."""


def read_checkpoint(text: bytes) -> dict[DeviceKey, Slot | None]:
    """The ids in use of our resources, with the slot of each if it is known. Raises ValueError for another content."""
    try:
        entries = msgspec.json.decode(text)["Data"]["PodDeviceEntries"] or ()
        return {key: slot for entry in entries for key, slot in _devices_of(entry)}
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no checkpoint of a kubelet: {error!r}") from error


def _devices_of(entry: Mapping[str, Any]) -> Iterator[tuple[DeviceKey, Slot | None]]:
    resource = entry["ResourceName"]
    if not resource.startswith(DEFAULT_RESOURCE_PREFIX):
        return
    slots = _slots_by_virtual_id(entry.get("AllocResp") or "")
    listed = entry["DeviceIDs"]  # by NUMA node; older kubelets wrote a plain list
    for ids in listed.values() if isinstance(listed, dict) else [listed]:
        for id_ in ids:
            yield (resource, id_), slots.get(id_) or _slot(id_)


def _slots_by_virtual_id(response: str) -> dict[str, Slot]:
    """The annotations of an answer have the texts `C:<virtual id>:<slot>`."""
    try:
        annotations = pb.ContainerAllocateResponse.FromString(b64decode(response)).annotations
    except (NotBase64, DecodeError, ValueError):
        return {}
    found: dict[str, Slot] = {}
    for key, text in annotations.items():
        parts = text.split(":")
        if key.startswith(ANNOTATION_PREFIX) and len(parts) == 3 and (slot := _slot(parts[2])) is not None:
            found[parts[1]] = slot
    return found


def _slot(text: str) -> Slot | None:
    try:
        return Slot.parse(text)
    except Rejected:
        return None
