"""Releases claims whose users are gone.

Input: the claims, and which workloads exist. Output: releases. Slots are released when a workload ends; this
only finds what a crash left behind. If it is not known which users exist, nothing is released.

[impl->akri~reconciler-frees-unused-slots~1]
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable

from ankaios.devices.core.node_devices import NodeDevices
from ankaios.devices.core.slot_ledger import Claim, Slot
from ankaios.devices.core.stale_claims import StaleClaims
from ankaios.devices.slot_allocator import SlotAllocator
from ankaios.devices.workload_claims import WorkloadClaims

RESTORED_SECONDS = 0.5
INTERVAL_SECONDS = 10.0
UNUSED_SECONDS = 20.0

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
        self._restored = list(claims.records)

    async def run(self) -> None:
        while not self.release_restored():  # noqa: ASYNC110 - the agent owns what it waits for
            await asyncio.sleep(RESTORED_SECONDS)
        await every_round(self.review)

    def release_restored(self) -> bool:
        """Release claims from before a restart without a delay, as soon as it is known which workloads exist.

        An agent that is killed while it deletes a workload leaves such a claim, and other workloads may wait for it.
        Returns False if it has to be called again.
        """
        living = self._living() if self._restored else ()
        if living is None:
            return False
        gone = [owner for owner in self._restored if owner not in living and owner in self._claims.records]
        self._restored = []
        self._release(gone)
        return True

    async def review(self, now: float) -> None:
        living = self._living()
        if living is None:
            return
        self._release(self._owners.review(list(self._claims.records), living, now))
        self._release_unrecorded(now)

    def _release(self, owners: Iterable[str]) -> None:
        for owner in owners:
            log.warning("released the devices of '%s', which does not exist any more", owner)
            self._claims.release(owner)

    def _release_unrecorded(self, now: float) -> None:
        """Claims of this node without a record, which a lost message can leave behind."""
        claims = self._node.ledger.claims_on(self._node.node)
        owners = self._claims.records.keys() | self._claims.in_progress
        recorded = [item for item in claims.items() if item[1].owner in owners]
        for slot, claim in self._slots.review(claims.items(), recorded, now):
            log.warning("released the slot '%s', which has no user", slot)
            self._allocator.release({slot: claim})
