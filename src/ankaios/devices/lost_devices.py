"""Handles workloads that lose a device, according to the policy of its configuration.

Input: devices that vanished or changed, and claims that the server revoked. Output: workloads to restart. Owns which
workloads are stopped until their devices return, also across a restart of the agent, and the attempts to claim revoked
slots again.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from ankaios.common.supervision import Supervisor
from ankaios.devices.checked_file import restore_checked, write_checked
from ankaios.devices.core.configuration import OnDeviceLost
from ankaios.devices.core.inventory import Instance, configuration_of
from ankaios.devices.core.node_devices import DeviceChanges, NodeDevices
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict
from ankaios.devices.slot_allocator import ServerUnreachable, SlotAllocator
from ankaios.devices.workload_claims import WorkloadClaims

PAUSE_SECONDS = 1.0

log = logging.getLogger(__name__)


class _Stopped(Struct):
    instances: set[str] = field(default_factory=set)
    released: bool = False  # the release that is part of the stop has happened


class LostDevices:
    def __init__(
        self,
        node: NodeDevices,
        allocator: SlotAllocator,
        claims: WorkloadClaims,
        restart: Callable[[str], None],
        file: Path,
    ) -> None:
        """`file` has the stopped workloads for the next agent."""
        self._node = node
        self._allocator = allocator
        self._claims = claims
        self._restart = restart
        self._file = file
        self._stopped: dict[str, _Stopped] = {}
        # Bounded by the number of slots of this node.
        self._revoked: asyncio.Queue[tuple[Slot, Claim]] = asyncio.Queue()

    def restore(self) -> None:
        """Take over the stopped workloads from before a restart."""
        self._stopped = restore_checked(self._file, dict[str, _Stopped], "the stopped workloads") or {}

    def _save(self) -> None:
        try:
            write_checked(self._file, self._stopped)
        except OSError as error:
            log.warning("cannot keep the stopped workloads in '%s': %s", self._file, error)

    async def run(self) -> None:
        """Own the tasks that claim revoked slots again."""
        async with Supervisor() as tasks:
            while True:
                slot, claim = await self._revoked.get()
                tasks.keep_running(f"the claim of slot {slot}", partial(self._claim_again, slot, claim))

    def changed(self, changes: DeviceChanges) -> None:
        for instance in changes.vanished:
            for slot, claim in self._node.ledger.claims(instance.name).items():
                if claim.node == self._node.node:
                    removed = changes.removed.get(instance.configuration)
                    gone = f"device '{instance.name}' is gone"
                    configuration = removed or self._node.configurations.get(instance.configuration)
                    self._lose(slot, claim, gone, configuration.on_lost if configuration else OnDeviceLost.KEEP)
        for instance in changes.altered:
            self._changed(instance)
        for slot, claim in changes.revoked.items():
            if self._claims.holds(claim.owner, slot):
                self._revoked.put_nowait((slot, claim))

    def _changed(self, instance: Instance) -> None:
        configuration = self._node.configurations.get(instance.configuration)
        if configuration is None or not configuration.restarts_on_change:
            return
        claims = self._node.ledger.claims(instance.name).values()
        for owner in {claim.owner for claim in claims if claim.node == self._node.node}:
            if owner in self._claims.records:
                log.info("'%s' is restarted: device '%s' has changed", owner, instance.name)
                self._restart(owner)

    async def _claim_again(self, slot: Slot, claim: Claim) -> None:
        """The server does not have the claim, for example after a long disconnection. The slot may still be free.

        The slot is lost only if a connected server refuses it for a device that is online. The workload may release its
        devices at any time; then the slot is not claimed for it.
        """
        while self._claims.holds(claim.owner, slot):
            try:
                await self._allocator.claim([SlotChange(slot, claim)])
                self._release_if_unused(slot, claim)
                return
            except ServerUnreachable:
                pass
            except SlotConflict as refusal:
                if not self._is_offline(slot.instance):
                    self._claims.lose(claim.owner, slot)
                    self._lose(slot, claim, str(refusal), self._policy_of_conflict(slot.instance))
                    return
            await asyncio.sleep(PAUSE_SECONDS)

    def _is_offline(self, instance: str) -> bool:
        """The device may return, or the server may still send its slots."""
        return instance in self._node.ledger and not self._node.ledger.is_online(instance)

    def _release_if_unused(self, slot: Slot, claim: Claim) -> None:
        """A workload that is claiming devices again takes over all claims in its name."""
        if claim.owner not in self._claims.in_progress and not self._claims.holds(claim.owner, slot):
            self._allocator.release({slot: claim})

    def _policy_of_conflict(self, instance: str) -> OnDeviceLost:
        """Another workload has the slot, so this one cannot keep it."""
        configuration = self._node.configurations.get(configuration_of(instance))
        is_stopped = configuration is not None and configuration.on_lost is OnDeviceLost.STOP
        return OnDeviceLost.STOP if is_stopped else OnDeviceLost.RESTART

    def _lose(self, slot: Slot, claim: Claim, reason: str, policy: OnDeviceLost) -> None:
        if claim.owner not in self._claims.records:
            return
        log.warning("'%s' loses slot '%s' (%s): %s", claim.owner, slot, policy.value, reason)
        if policy is OnDeviceLost.STOP:
            self._stopped.setdefault(claim.owner, _Stopped()).instances.add(slot.instance)
            self._save()
        if policy is not OnDeviceLost.KEEP:
            self._restart(claim.owner)

    def stop_reason(self, owner: str) -> str | None:
        """A stopped workload waits for the same devices it had."""
        stopped = self._stopped.get(owner)
        if stopped is None:
            return None
        missing = sorted(name for name in stopped.instances if not self._node.ledger.is_online(name))
        if missing:
            return f"was stopped, waits for device {', '.join(missing)} to return"
        del self._stopped[owner]
        self._save()
        return None

    def released(self, owner: str) -> None:
        """The first release is part of the stop; the second one means that the workload was deleted."""
        stopped = self._stopped.get(owner)
        if stopped is not None and stopped.released:
            del self._stopped[owner]
            self._save()
        elif stopped is not None:
            stopped.released = True
            self._save()
