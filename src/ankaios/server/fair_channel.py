"""The channel from the middleware to the server, with one queue for each sender.

Input: messages of agents, workloads, and command connections. Output: one message at a time, see `SenderQueues`. Owns
the queues and the senders that wait because their queue is full.

Requests of a disconnected peer are dropped, because their answers cannot be delivered. Reports of an agent itself are
still handled before its disconnect.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ankaios.common.channels import Channel, ChannelClosed
from ankaios.common.messages import REQUEST_ID_SEPARATOR, AgentGone, ClientGone, FromAgent, FromClient, ToServerMessage
from ankaios.server.core.sender_queues import Sender, SenderQueues


class FairChannel(Channel[ToServerMessage]):
    """The capacity of the base class is not used: each queue has its own."""

    def __init__(self) -> None:
        super().__init__(0)
        self._queues: SenderQueues[ToServerMessage] = SenderQueues()
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._held: set[Sender] = set()
        self._may_receive: Callable[[ToServerMessage], bool] | None = None  # None: all messages

    def __len__(self) -> int:
        return len(self._queues)

    def try_send(self, item: ToServerMessage) -> bool:
        if self.closed:
            raise ChannelClosed
        sender = sender_of(item)
        match item:
            case AgentGone(agent):
                self._queues.drop(agent, keep=sender)
            case ClientGone(connection):
                self._queues.drop(connection)
            case _ if not self._queues.has_room(sender):
                return False
        self._queues.add(sender, item)
        self._wake_consumer()
        return True

    async def send(self, item: ToServerMessage) -> None:
        peer = sender_of(item).peer
        while not self.try_send(item):
            turn = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(peer, []).append(turn)
            await turn

    async def receive(self) -> ToServerMessage:
        while (taken := self._queues.take(self._may_take)) is None:
            await self._wait_for_item()
        sender, item = taken
        for turn in self._waiting.pop(sender.peer, ()):
            if not turn.done():
                turn.set_result(None)
        return item

    def _may_take(self, sender: Sender, item: ToServerMessage) -> bool:
        return sender not in self._held and (self._may_receive is None or self._may_receive(item))

    @contextmanager
    def only(self, may_receive: Callable[[ToServerMessage], bool], held: Sender | None) -> Iterator[None]:
        """Meanwhile only these messages are received; a message before them of the same sender holds them back."""
        self._may_receive = lambda item: may_receive(item) and sender_of(item) != held
        try:
            yield
        finally:
            self._may_receive = None
            self._reconsider()

    def hold(self, sender: Sender) -> None:
        """Receive no messages of this sender until it is released."""
        self._held.add(sender)

    def release(self, sender: Sender) -> None:
        self._held.discard(sender)
        self._reconsider()

    def _reconsider(self) -> None:
        self._queues.reconsider()
        self._wake_consumer()

    def charge(self, message: ToServerMessage, seconds: float) -> None:
        """The message took so long."""
        # The names of command connections are not used again.
        self._queues.charge(sender_of(message), seconds, is_last=isinstance(message, ClientGone))

    def close(self) -> None:
        super().close()
        for turns in self._waiting.values():
            for turn in turns:
                if not turn.done():
                    turn.set_result(None)
        self._waiting.clear()


def sender_of(message: ToServerMessage) -> Sender:
    match message:
        case FromAgent(agent, content) if content.HasField("request"):
            # The middleware has put the agent before the id: `<agent>@<workload>@<id>`.
            parts = content.request.requestId.split(REQUEST_ID_SEPARATOR, 2)
            return Sender(agent, parts[1] if len(parts) == 3 else "")
        case FromAgent(agent, _) | AgentGone(agent):
            return Sender(agent)
        case FromClient(connection, _, _) | ClientGone(connection):
            return Sender(connection)
