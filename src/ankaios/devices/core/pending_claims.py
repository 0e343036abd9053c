"""Which workloads wait for devices, and which of them should claim again.

Input: claims that were denied or failed, and resources that changed. Output: the workloads for which the change makes a
difference, because the reason they reported no longer holds. A claim that failed is not repeated because of what it
changed itself, nor because of another failed claim: only a plugin that registers, or time, can help it.
"""

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from ankaios.devices.core.claim_plan import ResourceNeed

Obstacle = Callable[[str, tuple[ResourceNeed, ...]], str | None]


class _Pending(Struct, frozen=True):
    needs: tuple[ResourceNeed, ...]
    reason: str
    failed: bool  # nothing is missing, but a plugin or the server refused or did not answer


class PendingClaims:
    """`obstacle` returns why a workload cannot have its devices now, None if it can; it changes nothing."""

    def __init__(self, obstacle: Obstacle) -> None:
        self._obstacle = obstacle
        self._pending: dict[str, _Pending] = {}
        self._by_resource: dict[str, dict[str, None]] = {}

    def add(self, owner: str, needs: tuple[ResourceNeed, ...], reason: str, failed: bool) -> None:
        self.remove(owner)
        self._pending[owner] = _Pending(needs, reason, failed)
        for need in needs:
            self._by_resource.setdefault(need.resource, {})[owner] = None

    def remove(self, owner: str) -> None:
        if (pending := self._pending.pop(owner, None)) is None:
            return
        for resource in {need.resource for need in pending.needs}:
            others = self._by_resource[resource]
            del others[owner]
            if not others:
                del self._by_resource[resource]

    def changed(self, resources: Iterable[str], registered: Collection[str] = ()) -> list[str]:
        """Remove and return the workloads that should claim again. Plugins of `registered` have just registered."""
        concerned = {owner: None for name in resources for owner in self._by_resource.get(name, ())}
        ready = [owner for owner in concerned if self._should_retry(owner, registered)]
        for owner in ready:
            self.remove(owner)
        return ready

    def _should_retry(self, owner: str, registered: Collection[str]) -> bool:
        pending = self._pending[owner]
        if pending.failed:
            return any(need.resource in registered for need in pending.needs)
        return self._obstacle(owner, pending.needs) != pending.reason

    def take_failed(self) -> list[str]:
        """Remove and return the workloads whose claims failed."""
        failed = [owner for owner, pending in self._pending.items() if pending.failed]
        for owner in failed:
            self.remove(owner)
        return failed
