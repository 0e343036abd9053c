"""The claims that a kubelet made for its pods, on disk, and the configurations of the last session.

Input: the ledger of the node. Output: a file with all claims of the kubelet, and the claims after a restart. The file
is written before the kubelet gets its answer, so that a device is not given to a second pod after a restart. The last
configurations are kept because a kubelet needs the devices of its node while the server is not connected.
"""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from google.protobuf.message import DecodeError

from ankaios.common.errors import Unavailable
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.checked_file import restore_checked, write_checked
from ankaios.devices.core.node_devices import HeldSlot, NodeDevices
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotConflict

FOLDER = "pods"

log = logging.getLogger(__name__)


class PodClaims:
    """Claims of a kubelet have no owner, because it does not name the pod."""

    def __init__(self, node: NodeDevices, folder: Path) -> None:
        self._node = node
        self._claims = folder / FOLDER / "claims.json"
        self._configurations = folder / FOLDER / "configurations.json"
        self._held: dict[Slot, HeldSlot] = {}
        self._allocated: set[Slot] = set()
        self._writing = asyncio.Lock()

    # --- claims ---

    def restore(self) -> None:
        """Take over the claims from before a restart. Whether they are still in use is found out later."""
        self._claims.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in restore_checked(self._claims, list[HeldSlot], "the claims of pods") or ():
            try:
                self._node.restore(one)
                self._held[one.slot] = one
            except SlotConflict as conflict:
                log.warning("a claim of a pod is not restored: %s", conflict)

    async def save(self) -> None:
        """Write all claims of the kubelet. Raises `Unavailable`; then the file has the earlier content."""
        async with self._writing:
            held = self._current()
            if held == self._held:
                return
            try:
                await asyncio.to_thread(write_checked, self._claims, list(held.values()))
            except OSError as error:
                raise Unavailable(f"cannot keep the claims of pods in '{self._claims}': {error}") from error
            self._held = held

    def _current(self) -> dict[Slot, HeldSlot]:
        """A device that is gone is described as it was."""
        claims = sorted(self.claims().items())
        return {slot: self._node.held_slot(slot, claim) or self._held[slot] for slot, claim in claims}

    def claims(self) -> dict[Slot, Claim]:
        """Claims of the kubelet on devices that are known or were when they were claimed."""
        found = self._node.ledger.claims_on(self._node.node).items()
        return {
            slot: claim
            for slot, claim in found
            if not claim.owner and (slot in self._held or self._node.instance(slot.instance) is not None)
        }

    def note_allocated(self, slots: Iterable[Slot]) -> None:
        """The kubelet allocates these slots now, also if they have a claim of a pod that ended."""
        self._allocated.update(slots)

    def take_allocated(self) -> set[Slot]:
        """The slots that were allocated since the last call. The kubelet may not have written them yet."""
        taken, self._allocated = self._allocated, set()
        return taken

    # --- configurations ---

    def remember(self, update: grpc.DeviceUpdate) -> None:
        """Keep the configurations of this session. They may contain secrets."""
        try:
            self._configurations.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_checked(self._configurations, update.SerializeToString(deterministic=True))
        except OSError as error:
            log.warning("the device configurations cannot be kept for a restart: %s", error)

    def remembered(self) -> grpc.DeviceUpdate | None:
        """The configurations of the last session."""
        encoded = restore_checked(self._configurations, bytes, "the device configurations")
        try:
            return None if encoded is None else grpc.DeviceUpdate.FromString(encoded)
        except DecodeError as error:
            log.warning("the device configurations in '%s' cannot be read: %r", self._configurations, error)
            return None
