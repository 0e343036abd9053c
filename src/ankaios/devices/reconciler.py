"""Releases claims whose users are gone.

Input: the claims, and which workloads or pods exist. Output: releases. Slots are released when a workload ends; this
only finds what a crash left behind. If it is not known which users exist, nothing is released.

[impl->akri~reconciler-frees-unused-slots~1]
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.node_devices import NodeDevices
from ankaios.devices.core.slot_ledger import Claim, Slot
from ankaios.devices.core.stale_claims import StaleClaims
from ankaios.devices.pb import pod_resources_pb2 as pb
from ankaios.devices.slot_allocator import SlotAllocator
from ankaios.devices.unix_rpc import unix_channel
from ankaios.devices.workload_claims import WorkloadClaims
from ankaios.grpc.wire_format import CallFailed

INTERVAL_SECONDS = 10.0
UNUSED_SECONDS = 20.0
LIST_SECONDS = 10.0
LIST = "/v1.PodResourcesLister/List"
POD_RESOURCES = "pod-resources/kubelet.sock"

log = logging.getLogger(__name__)


async def every_round(review: Callable[[float], Awaitable[None]], interval: float = INTERVAL_SECONDS) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(interval)
        await review(clock())


class Reconciler:
    """Releases the claims of workloads that do not exist. `living` returns None as long as that is not known."""

    def __init__(
        self,
        node: NodeDevices,
        allocator: SlotAllocator,
        claims: WorkloadClaims,
        living: Callable[[], Collection[str] | None],
        unused_seconds: float = UNUSED_SECONDS,
    ) -> None:
        self._node = node
        self._allocator = allocator
        self._claims = claims
        self._living = living
        self._owners: StaleClaims[str] = StaleClaims(unused_seconds)
        self._slots: StaleClaims[tuple[Slot, Claim]] = StaleClaims(unused_seconds)

    async def review(self, now: float) -> None:
        living = self._living()
        if living is None:
            return
        for owner in self._owners.review(list(self._claims.records), living, now):
            log.warning("released the devices of '%s', which does not exist any more", owner)
            self._claims.release(owner)
        self._release_unrecorded(now)

    def _release_unrecorded(self, now: float) -> None:
        """Claims of this node without a record, which a lost message can leave behind."""
        claims = self._node.ledger.claims_on(self._node.node)
        owners = self._claims.records.keys() | self._claims.in_progress
        recorded = [item for item in claims.items() if item[1].owner in owners]
        for slot, claim in self._slots.review(claims.items(), recorded, now):
            log.warning("released the slot '%s', which has no user", slot)
            self._allocator.release({slot: claim})


class PodReconciler:
    """Releases the slots that no pod uses, according to the kubelet."""

    def __init__(
        self, node: NodeDevices, allocator: SlotAllocator, kubelet_dir: Path, unused_seconds: float = UNUSED_SECONDS
    ) -> None:
        self._node = node
        self._allocator = allocator
        self._socket = kubelet_dir / POD_RESOURCES
        self._slots: StaleClaims[tuple[str, str]] = StaleClaims(unused_seconds)

    async def review(self, now: float) -> None:
        try:
            in_use = await self._ids_in_use()
        except CallFailed as failure:
            log.info("cannot ask the kubelet which devices are in use: %s", failure.reason)
            return
        held = self._node.ledger.claims_on(self._node.node)
        claims = {id_of(slot, claim): (slot, claim) for slot, claim in held.items()}
        for key in self._slots.review(claims, in_use, now):
            slot, claim = claims[key]
            log.info("released the slot '%s', which no pod uses any more", slot)
            self._allocator.release({slot: claim})

    async def _ids_in_use(self) -> set[tuple[str, str]]:
        channel = unix_channel(self._socket)
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


def id_of(slot: Slot, claim: Claim) -> tuple[str, str]:
    """Resource and device id of the slot at the kubelet; ids have no prefix."""
    if claim.virtual_id is None:
        return DEFAULT_RESOURCE_PREFIX + slot.instance, str(slot)
    return DEFAULT_RESOURCE_PREFIX + slot.instance.rpartition("-")[0], claim.virtual_id
