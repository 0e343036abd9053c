"""Which claims nobody uses any more.

In: the claims of a node, which of them are in use, and the time. Out: those that were unused for long enough. Owned:
since when each is unused. Being seen in use once sets the time back.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class StaleClaims(Generic[K]):
    """[impl->akri~reconciler-frees-unused-slots~1]"""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._unused_since: dict[K, float] = {}

    def review(self, claims: Iterable[K], in_use: Iterable[K], now: float) -> list[K]:
        unused = dict.fromkeys(claims)
        for claim in in_use:
            unused.pop(claim, None)
        self._unused_since = {claim: self._unused_since.get(claim, now) for claim in unused}
        return [claim for claim, since in self._unused_since.items() if now - since >= self._delay]
