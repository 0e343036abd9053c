"""A net under the releases: frees what is held for workloads that are gone.

In: who holds what, and who is alive. Out: releases. Slots are given back at once when a workload ends; this only
catches what a crash left behind. If it cannot be known who is alive, nothing is freed.

[impl->akri~reconciler-frees-unused-slots~1]
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.slot_ledger import Claim, Slot
from ankaios.devices.core.stale_claims import StaleClaims
from ankaios.devices.holdings import Holdings
from ankaios.devices.pb import pod_resources_pb2 as pb
from ankaios.devices.slot_office import SlotOffice
from ankaios.devices.unix_rpc import unix_channel
from ankaios.grpc.wire_format import CallFailed

INTERVAL_SECONDS = 10.0
UNUSED_SECONDS = 20.0
LIST_SECONDS = 10.0
LIST = "/v1.PodResourcesLister/List"

log = logging.getLogger(__name__)


async def every_round(review: Callable[[float], Awaitable[None]], interval: float = INTERVAL_SECONDS) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(interval)
        await review(clock())


class Reconciler:
    """Frees what workloads of this agent left behind. `living` answers None as long as it is not known."""

    def __init__(
        self,
        holdings: Holdings,
        office: SlotOffice,
        living: Callable[[], Collection[str] | None],
        unused_seconds: float = UNUSED_SECONDS,
    ) -> None:
        self._holdings = holdings
        self._office = office
        self._living = living
        self._owners: StaleClaims[str] = StaleClaims(unused_seconds)
        self._slots: StaleClaims[tuple[Slot, Claim]] = StaleClaims(unused_seconds)

    async def review(self, now: float) -> None:
        living = self._living()
        if living is None:
            return
        for owner in self._owners.review(list(self._holdings.records), living, now):
            log.warning("freed the devices of '%s', which does not exist any more", owner)
            self._holdings.release(owner)
        self._free_unknown(now)

    def _free_unknown(self, now: float) -> None:
        """Claims in the name of this node that no workload knows of, as a lost message leaves them."""
        node = self._office.node
        claims = node.ledger.claims_on(node.node)
        owners = self._holdings.records.keys() | self._holdings.under_way
        known = [item for item in claims.items() if item[1].owner in owners]
        for slot, claim in self._slots.review(claims.items(), known, now):
            log.warning("freed the slot '%s', which nobody uses", slot)
            self._office.give_back({slot: claim})


class PodReconciler:
    """The same under a kubelet: it says which device ids pods use."""

    def __init__(self, office: SlotOffice, socket: Path, unused_seconds: float = UNUSED_SECONDS) -> None:
        self._office = office
        self._socket = socket
        self._slots: StaleClaims[tuple[str, str]] = StaleClaims(unused_seconds)

    async def review(self, now: float) -> None:
        try:
            in_use = await self._ids_in_use()
        except CallFailed as failure:
            log.info("cannot ask the kubelet which devices are in use: %s", failure.reason)
            return
        node = self._office.node
        claims = {id_of(slot, claim): (slot, claim) for slot, claim in node.ledger.claims_on(node.node).items()}
        for key in self._slots.review(claims, in_use, now):
            slot, claim = claims[key]
            log.info("freed the slot '%s', which no pod uses any more", slot)
            self._office.give_back({slot: claim})

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
    """Resource and device id under which a kubelet knows the slot: ids have no prefix."""
    if claim.virtual_id is None:
        return DEFAULT_RESOURCE_PREFIX + slot.instance, str(slot)
    return DEFAULT_RESOURCE_PREFIX + slot.instance.rpartition("-")[0], claim.virtual_id
