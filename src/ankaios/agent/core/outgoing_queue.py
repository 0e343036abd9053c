"""The queue of messages to the server.

Input: states, load reports, requests of workloads, log lines. Output: messages, in order. The module owns the waiting
messages. While offline, only the newest state of each instance and the newest load report are kept, and log lines are
dropped. The senders limit the number of requests and log lines.
"""

from collections.abc import Callable, Hashable

from msgspec import Struct

from ankaios.common.pb.grpc_api_pb2 import ToServer

# If a server does not read, states are merged from this number on: only the newest state of each instance is kept.
MAX_QUEUED = 4096


class OutgoingMessage(Struct, frozen=True):
    """`subject`: while merging, a newer message with the same one replaces this message, such as an instance name.

    `is_transient`: valid only for the current connection, such as log lines. `left` is called when the message was
    taken or dropped.
    """

    message: ToServer
    subject: Hashable | None = None
    is_transient: bool = False
    left: Callable[[], None] | None = None

    def report_left(self) -> None:
        if self.left is not None:
            self.left()


class OutgoingQueue:
    def __init__(self) -> None:
        self._items: dict[Hashable, OutgoingMessage] = {}  # in order; the key is a number, or the subject while merging
        self._number = 0
        self._online = False
        self._merging = True

    def __len__(self) -> int:
        return len(self._items)

    def go_online(self) -> None:
        self._online = True
        self._merging = False

    def go_offline(self) -> None:
        self._online = False
        for key, item in list(self._items.items()):
            if item.is_transient:
                del self._items[key]
                item.report_left()
        self._merge()

    def put_back(self, item: OutgoingMessage) -> None:
        """Queue again a message that may not have been received, unless a newer one about the subject is queued."""
        if item.subject not in self._items:
            self.put(item)

    def put(self, item: OutgoingMessage) -> None:
        if item.is_transient and not self._online:
            item.report_left()
            return
        if len(self._items) >= MAX_QUEUED and not self._merging:
            self._merge()
        self._number += 1
        key = item.subject if self._merging and item.subject is not None else self._number
        self._items.pop(key, None)
        self._items[key] = item

    def take(self) -> ToServer | None:
        if not self._items:
            return None
        item = self._items.pop(next(iter(self._items)))
        if not self._items and self._online:
            self._merging = False
        item.report_left()
        return item.message

    def _merge(self) -> None:
        self._merging = True
        old, self._items = self._items, {}
        for key, item in old.items():
            name = key if item.subject is None else item.subject
            self._items.pop(name, None)
            self._items[name] = item
