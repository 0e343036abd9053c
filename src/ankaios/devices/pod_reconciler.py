"""Keeps the claims of a node in agreement with the pods of its kubelet.

Input: the list of pods of the kubelet and its checkpoint file. Output: releases of slots that no pod uses, and claims
of slots that a pod uses without a claim. After a restart of the kubelet its list of pods is incomplete for some time,
and it never contains init containers that have to end; the checkpoint contains both. So a slot is released only if
neither of them has it.

[impl->akri~reconciler-frees-unused-slots~1]
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from ankaios.common.errors import Unavailable
from ankaios.devices.core.inventory import claimed_through
from ankaios.devices.core.kubelet_checkpoint import DeviceKey, read_checkpoint
from ankaios.devices.core.node_devices import NodeDevices
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from ankaios.devices.core.stale_claims import StaleClaims
from ankaios.devices.pb import pod_resources_pb2 as pb
from ankaios.devices.pod_claims import PodClaims
from ankaios.devices.reconciler import UNUSED_SECONDS
from ankaios.devices.slot_allocator import SlotAllocator
from ankaios.devices.unix_rpc import unix_channel
from ankaios.grpc.wire_format import CallFailed

LIST_SECONDS = 10.0
LIST = "/v1.PodResourcesLister/List"
POD_RESOURCES = "pod-resources/kubelet.sock"
CHECKPOINT = "device-plugins/kubelet_internal_checkpoint"

log = logging.getLogger(__name__)


class PodReconciler:
    """`send_list` sends the list of a resource, upon which the kubelet writes its checkpoint."""

    def __init__(
        self,
        node: NodeDevices,
        allocator: SlotAllocator,
        claims: PodClaims,
        kubelet_dir: Path,
        send_list: Callable[[str], None],
        unused_seconds: float = UNUSED_SECONDS,
    ) -> None:
        self._node = node
        self._allocator = allocator
        self._claims = claims
        self._folder = kubelet_dir
        self._send_list = send_list
        self._unused: StaleClaims[DeviceKey] = StaleClaims(unused_seconds)
        self._only_in_checkpoint: StaleClaims[DeviceKey] = StaleClaims(unused_seconds)

    async def review(self, now: float) -> None:
        """One round; if it cannot be found out what is in use, nothing is changed."""
        try:
            listed = await self._listed()
            written = self._checkpoint()
        except CallFailed as failure:
            log.info("cannot ask the kubelet which devices are in use: %s", failure.reason)
            return
        except (OSError, ValueError) as error:
            log.warning("cannot read which devices are in use: %s", error)
            return
        in_use = {**written, **{key: written.get(key) for key in listed}}
        await self._claim_missing(in_use)
        claims = {claimed_through(slot, claim): (slot, claim) for slot, claim in self._claims.claims().items()}
        allocated = self._claims.take_allocated()
        fresh = [key for key, (slot, _) in claims.items() if slot in allocated]
        for key in self._unused.review(claims, [*in_use, *fresh], now):
            slot, claim = claims[key]
            log.info("released the slot '%s', which no pod uses any more", slot)
            self._allocator.release({slot: claim})
        doubtful = self._only_in_checkpoint.review(claims.keys() & written.keys(), listed, now)
        for resource in {resource for resource, _ in doubtful}:
            self._send_list(resource)
        await self._save()

    async def _claim_missing(self, in_use: Mapping[DeviceKey, Slot | None]) -> None:
        """Claim the slots that pods use according to the kubelet, and that have no claim here."""
        known = {claimed_through(slot, claim) for slot, claim in self._claims.claims().items()}
        for key, slot in in_use.items():
            resource, id_ = key
            if key in known or (target := self._node.target(resource)) is None:
                continue
            virtual_id = id_ if target.by_configuration else None
            slot = slot or (None if target.by_configuration else Slot.parse(id_))
            if slot is None:
                log.warning("a pod uses '%s' of %s, but it is not known which slot that is", id_, resource)
                continue
            try:
                await self._allocator.claim([SlotChange(slot, Claim(self._node.node, virtual_id))])
                log.warning("claimed the slot '%s', which a pod uses according to the kubelet", slot)
            except Unavailable as fault:
                log.info("a pod uses the slot '%s', which cannot be claimed now: %s", slot, fault)

    async def _save(self) -> None:
        try:
            await self._claims.save()
        except Unavailable as fault:
            log.warning("%s", fault)

    def _checkpoint(self) -> dict[DeviceKey, Slot | None]:
        """A kubelet without devices has no such file."""
        try:
            text = (self._folder / CHECKPOINT).read_bytes()
        except FileNotFoundError:
            return {}
        return read_checkpoint(text)

    async def _listed(self) -> set[DeviceKey]:
        channel = unix_channel(self._folder / POD_RESOURCES)
        try:
            request = pb.ListPodResourcesRequest()
            response = await channel.unary(LIST, request, pb.ListPodResourcesResponse, time_limit=LIST_SECONDS)
        finally:
            channel.close()
        return {
            (devices.resource_name, id_)
            for pod in response.pod_resources
            for container in pod.containers
            for devices in container.devices
            for id_ in devices.device_ids
        }
