"""The queue of messages to the server.

Input: states, load reports, requests of workloads, log lines. Output: messages, in order. The module owns the waiting
messages. While offline, only the newest state of each instance and the newest load report are kept, and log lines are
dropped. The senders limit the number of requests and log lines; the callback `left` reports when a message was taken.
"""

from collections.abc import Callable, Hashable

from msgspec import Struct

from ankaios.common.pb.grpc_api_pb2 import ToServer
from ankaios.common.workload import InstanceName

# If a server does not read, states are merged from this number on: only the newest state of each instance is kept.
MAX_QUEUED = 4096
_LOAD = "load"


class _Item(Struct, frozen=True):
    message: ToServer
    same_as: Hashable | None = None  # a newer item with the same value replaces this one
    is_transient: bool = False
    left: Callable[[], None] | None = None


class OutgoingQueue:
    def __init__(self) -> None:
        self._items: dict[Hashable, _Item] = {}  # in order; the key is a number, or `same_as` while merging
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
                _report_left(item)
        self._merge()

    def put_state(self, name: InstanceName, message: ToServer) -> None:
        self._put(_Item(message, same_as=name))

    def put_back(self, name: InstanceName, message: ToServer) -> None:
        """Queue again a state that may not have been received, unless a newer state of the instance is queued."""
        if name not in self._items:
            self._put(_Item(message, same_as=name))

    def put_load(self, message: ToServer) -> None:
        self._put(_Item(message, same_as=_LOAD))

    def put(self, message: ToServer, left: Callable[[], None] | None = None) -> None:
        self._put(_Item(message, left=left))

    def put_transient(self, message: ToServer, left: Callable[[], None] | None = None) -> None:
        """Queue a message that is valid only for the current connection, such as log lines."""
        item = _Item(message, is_transient=True, left=left)
        if self._online:
            self._put(item)
        else:
            _report_left(item)

    def take(self) -> ToServer | None:
        if not self._items:
            return None
        item = self._items.pop(next(iter(self._items)))
        if not self._items and self._online:
            self._merging = False
        _report_left(item)
        return item.message

    def _put(self, item: _Item) -> None:
        if len(self._items) >= MAX_QUEUED and not self._merging:
            self._merge()
        self._number += 1
        key = item.same_as if self._merging and item.same_as is not None else self._number
        self._items.pop(key, None)
        self._items[key] = item

    def _merge(self) -> None:
        self._merging = True
        old, self._items = self._items, {}
        for key, item in old.items():
            name = key if item.same_as is None else item.same_as
            self._items.pop(name, None)
            self._items[name] = item


def _report_left(item: _Item) -> None:
    if item.left is not None:
        item.left()
