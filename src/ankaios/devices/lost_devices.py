"""What happens to workloads whose device is gone for good, as their configuration says.

In: devices that vanished, and claims that the server took away. Out: workloads that are to be restarted. Owned: which
workloads are stopped until their device is back, and the claims that are to be won back.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from msgspec import Struct, field

from ankaios.common.supervision import Supervisor
from ankaios.devices.core.configuration import OnDeviceLost
from ankaios.devices.core.node_devices import NodeDevices, Touched
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict
from ankaios.devices.holdings import Holdings
from ankaios.devices.server_slots import ServerAway
from ankaios.devices.slot_office import SlotOffice

PAUSE_SECONDS = 1.0

log = logging.getLogger(__name__)


class _Stopped(Struct):
    instances: set[str] = field(default_factory=set)
    let_go: bool = False  # the release that belongs to the stop has happened


class LostDevices:
    def __init__(
        self, node: NodeDevices, office: SlotOffice, holdings: Holdings, restart: Callable[[str], None]
    ) -> None:
        self._node = node
        self._office = office
        self._holdings = holdings
        self._restart = restart
        self._stopped: dict[str, _Stopped] = {}
        # No more than there are slots of this node, so it needs no other bound.
        self._taken_away: asyncio.Queue[tuple[Slot, Claim]] = asyncio.Queue()

    async def run(self) -> None:
        """Own the attempts to get slots back."""
        async with Supervisor() as tasks:
            while True:
                slot, claim = await self._taken_away.get()
                tasks.keep_running(f"the claim of slot {slot}", partial(self._claim_again, slot, claim))

    def note(self, touched: Touched) -> None:
        for instance in touched.vanished:
            for slot, claim in self._node.ledger.claims(instance.name).items():
                if claim.node == self._node.node:
                    self._lose(slot, claim, f"device '{instance.name}' is gone")
        for slot, claim in touched.taken_away.items():
            if self._holdings.holds(claim.owner, slot):
                self._taken_away.put_nowait((slot, claim))

    async def _claim_again(self, slot: Slot, claim: Claim) -> None:
        """The server forgot us, as after a long absence. Maybe nobody else has the slot yet.

        Only a server that is there can refuse, and only for a device that is there it is asked. The workload may let
        go at any time; then nothing is claimed for it.
        """
        while self._holdings.holds(claim.owner, slot):
            try:
                await self._office.claim([SlotChange(slot, claim)])
                self._give_back_if_too_late(slot, claim)
                return
            except ServerAway:
                pass
            except SlotConflict as refusal:
                if not self._is_away(slot.instance):
                    self._holdings.lose(claim.owner, slot)
                    self._lose(slot, claim, str(refusal))
                    return
            await asyncio.sleep(PAUSE_SECONDS)

    def _is_away(self, instance: str) -> bool:
        """For a while: it may return, and the server may yet say who uses it."""
        return instance in self._node.ledger and not self._node.ledger.is_online(instance)

    def _give_back_if_too_late(self, slot: Slot, claim: Claim) -> None:
        """Whoever acquires anew looks after all claims in its name."""
        if claim.owner not in self._holdings.under_way and not self._holdings.holds(claim.owner, slot):
            self._office.give_back({slot: claim})

    def _lose(self, slot: Slot, claim: Claim, why: str) -> None:
        if claim.owner not in self._holdings.records:
            return
        configuration = self._node.configurations.get(slot.instance.rpartition("-")[0])
        policy = configuration.on_lost if configuration else OnDeviceLost.KEEP
        log.warning("'%s' loses slot '%s' (%s): %s", claim.owner, slot, policy.value, why)
        if policy is OnDeviceLost.STOP:
            self._stopped.setdefault(claim.owner, _Stopped()).instances.add(slot.instance)
        if policy is not OnDeviceLost.KEEP:
            self._restart(claim.owner)

    def stopped_because(self, owner: str) -> str | None:
        """A workload that was stopped waits for the very devices it had."""
        stopped = self._stopped.get(owner)
        if stopped is None:
            return None
        missing = sorted(name for name in stopped.instances if not self._node.ledger.is_online(name))
        if missing:
            return f"was stopped, waits for device {', '.join(missing)} to return"
        del self._stopped[owner]
        return None

    def released(self, owner: str) -> None:
        """The first release is part of the stop; with another one the workload itself is gone."""
        stopped = self._stopped.get(owner)
        if stopped is not None and stopped.let_go:
            del self._stopped[owner]
        elif stopped is not None:
            stopped.let_go = True
