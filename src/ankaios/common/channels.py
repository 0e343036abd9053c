"""Bounded asynchronous channels between the parts of one process.

[impl->swdd~from-server-channel~1]
[impl->swdd~to-server-channel~1]
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from ankaios.common.messages import ToServerMessage

T = TypeVar("T")


class ChannelClosed(Exception):
    """The channel has no more senders or no more receivers."""


class Channel(Generic[T]):
    """Many producers, one consumer, first in first out.

    `send` waits while the channel is full; `try_send` returns False instead, for producers that must not wait. After
    `close` the consumer still receives the items that were sent before. A second consumer may receive for some time,
    also while the first one waits for an item.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[T] = deque()
        self._consumers: list[asyncio.Future[None]] = []
        self._producers: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def closed(self) -> bool:
        return self._closed

    def try_send(self, item: T) -> bool:
        if self._closed:
            raise ChannelClosed
        if len(self._items) >= self._capacity:
            return False
        self._items.append(item)
        self._wake_consumer()
        return True

    async def send(self, item: T) -> None:
        while not self.try_send(item):
            turn = asyncio.get_running_loop().create_future()
            self._producers.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # This producer was woken for free capacity that it does not use: wake the next one.
                if turn.done() and not turn.cancelled():
                    self._wake_producer()
                raise

    async def receive(self) -> T:
        while not self._items:
            await self._wait_for_item()
        item = self._items.popleft()
        self._wake_producer()
        return item

    async def _wait_for_item(self) -> None:
        if self._closed:
            raise ChannelClosed
        turn = asyncio.get_running_loop().create_future()
        self._consumers.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._consumers.remove(turn)
            self._wake_consumer()  # the next one receives what this one was woken for
            raise
        self._consumers.remove(turn)

    def _wake_consumer(self) -> None:
        """Wake the one that has begun last."""
        if self._consumers:
            _wake(self._consumers[-1])

    def close(self) -> None:
        self._closed = True
        for consumer in self._consumers:
            _wake(consumer)
        while self._producers:
            _wake(self._producers.popleft())

    async def __aiter__(self) -> AsyncIterator[T]:
        while True:
            try:
                item = await self.receive()
            except ChannelClosed:
                return
            yield item

    def _wake_producer(self) -> None:
        while self._producers:
            turn = self._producers.popleft()
            if not turn.done():
                turn.set_result(None)
                return


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


ToServerChannel = Channel[ToServerMessage]
