"""Who waits for devices, and who of them should ask again.

In: workloads that could not have what they asked for, and resources of which something changed. Out: the workloads for
which it makes a difference: what they were told is no longer so. A try that failed is not repeated because of what it
changed itself, nor because of the failed try of another: only a plugin that came, or time, can help it.
"""

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from ankaios.devices.core.workload_plan import Need

Obstacle = Callable[[str, tuple[Need, ...]], str | None]


class _Waiter(Struct, frozen=True):
    needs: tuple[Need, ...]
    reason: str
    failed: bool  # nothing was missing, but somebody who was asked refused or was silent


class WaitingRoom:
    """`obstacle` says what stands in the way of a workload now, None if it could try; it changes nothing."""

    def __init__(self, obstacle: Obstacle) -> None:
        self._obstacle = obstacle
        self._waiters: dict[str, _Waiter] = {}
        self._by_resource: dict[str, dict[str, None]] = {}

    def enter(self, owner: str, needs: tuple[Need, ...], reason: str, failed: bool) -> None:
        self.leave(owner)
        self._waiters[owner] = _Waiter(needs, reason, failed)
        for need in needs:
            self._by_resource.setdefault(need.resource, {})[owner] = None

    def leave(self, owner: str) -> None:
        if (waiter := self._waiters.pop(owner, None)) is None:
            return
        for resource in {need.resource for need in waiter.needs}:
            others = self._by_resource[resource]
            del others[owner]
            if not others:
                del self._by_resource[resource]

    def changed(self, resources: Iterable[str], came: Collection[str] = ()) -> list[str]:
        """Something changed of these resources; the plugins of `came` are there now. Those who should ask leave."""
        concerned = {owner: None for name in resources for owner in self._by_resource.get(name, ())}
        woken = [owner for owner in concerned if self._has_news(owner, came)]
        for owner in woken:
            self.leave(owner)
        return woken

    def _has_news(self, owner: str, came: Collection[str]) -> bool:
        waiter = self._waiters[owner]
        if waiter.failed:
            return any(need.resource in came for need in waiter.needs)
        return self._obstacle(owner, waiter.needs) != waiter.reason

    def failed(self) -> list[str]:
        """Those whom only another try can help; they leave."""
        failed = [owner for owner, waiter in self._waiters.items() if waiter.failed]
        for owner in failed:
            self.leave(owner)
        return failed
