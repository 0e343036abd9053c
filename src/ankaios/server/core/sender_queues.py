"""One queue for each sender: the sender that has used the least time of the server is served next. Without I/O.

Input: messages with their sender, and the time that each message took. Output: the next message. Owns the messages that
wait.

A sender is an agent, a command connection, or one workload behind an agent. A sender that sends much waits for its own
messages only: a request of another one is served after the message that is being handled.
"""

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

MOST_OF_SENDER, MOST_OF_PEER = 64, 256
_MOST_REMEMBERED = 1024


class Sender(NamedTuple):
    """`peer` is a connection; `workload` is empty for messages of the peer itself."""

    peer: str
    workload: str = ""


def _always(_: Sender, __: object) -> bool:
    return True


class SenderQueues(Generic[T]):
    def __init__(self, most_of_sender: int = MOST_OF_SENDER, most_of_peer: int = MOST_OF_PEER) -> None:
        self._most_of_sender, self._most_of_peer = most_of_sender, most_of_peer
        self._queues: dict[Sender, deque[T]] = {}
        self._of_peer: dict[str, dict[Sender, None]] = {}
        self._used: dict[Hashable, float] = {}
        self._order: list[tuple[float, int, Sender]] = []  # a heap; entries of dropped queues stay in it
        self._number = self._count = 0
        self._least = 0.0
        self._set_aside: dict[Sender, None] = {}  # senders whose next message could not be taken

    def __len__(self) -> int:
        return self._count

    def has_room(self, sender: Sender) -> bool:
        senders = self._of_peer.get(sender.peer, ())
        return (
            len(self._queues.get(sender, ())) < self._most_of_sender
            and sum(len(self._queues[it]) for it in senders) < self._most_of_peer
        )

    def add(self, sender: Sender, item: T) -> None:
        queue = self._queues.get(sender)
        if queue is None:
            queue = self._queues[sender] = deque()
            self._of_peer.setdefault(sender.peer, {})[sender] = None
            self._enter(sender)
        queue.append(item)
        self._count += 1

    def take(self, may_take: Callable[[Sender, T], bool] = _always) -> tuple[Sender, T] | None:
        """Return the next message and its sender; None if there is none that may be taken.

        A sender whose next message may not be taken is set aside until `reconsider` is called, so that its messages
        stay in order.
        """
        while self._order:
            used, _, sender = heapq.heappop(self._order)
            if sender not in self._queues or used != self._used[sender]:
                continue
            if not may_take(sender, self._queues[sender][0]):
                self._set_aside[sender] = None
                continue
            self._least = max(self._least, used)
            return sender, self._next_of(sender)
        return None

    def _next_of(self, sender: Sender) -> T:
        queue = self._queues[sender]
        item = queue.popleft()
        self._count -= 1
        if queue:
            self._enter(sender)
        else:
            self._remove(sender)
        return item

    def reconsider(self) -> None:
        """Messages that could not be taken may be taken now."""
        for sender in self._set_aside:
            if sender in self._queues:
                self._enter(sender)
        self._set_aside.clear()

    def charge(self, sender: Sender, seconds: float, *, is_last: bool = False) -> None:
        """A message of the sender took so long. `is_last`: nothing more will come from it."""
        if is_last and sender not in self._queues:
            self._used.pop(sender, None)
        else:
            self._used[sender] = self._used.get(sender, self._least) + seconds
            if sender in self._queues:
                self._enter(sender)
        if len(self._used) > _MOST_REMEMBERED + len(self._queues):
            self._forget_old()

    def drop(self, peer: str, *, keep: Sender | None = None) -> None:
        """Drop the messages of a peer that has gone, except those of one sender."""
        for sender in tuple(self._of_peer.get(peer, ())):
            if sender != keep:
                self._count -= len(self._queues[sender])
                self._remove(sender)
                self._used.pop(sender, None)

    def _enter(self, sender: Sender) -> None:
        """A sender that was quiet does not save up time: it begins with the least that others have used."""
        used = self._used[sender] = max(self._used.get(sender, 0.0), self._least)
        self._number += 1
        heapq.heappush(self._order, (used, self._number, sender))

    def _remove(self, sender: Sender) -> None:
        del self._queues[sender]
        senders = self._of_peer[sender.peer]
        del senders[sender]
        if not senders:
            del self._of_peer[sender.peer]

    def _forget_old(self) -> None:
        """Keep those that have used more than the others; if these are too many as well, those that are waiting."""
        kept = {sender: used for sender, used in self._used.items() if sender in self._queues or used > self._least}
        if len(kept) > _MOST_REMEMBERED + len(self._queues):
            kept = {sender: used for sender, used in kept.items() if sender in self._queues}
        self._used = kept
