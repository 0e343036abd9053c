"""Claims that have no user.

Input: the claims of a node, which of them are in use, and the time. Output: the claims that were unused for the whole
delay. Owns the time since which each claim is unused; a claim that is in use once starts anew.
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
