"""Counts messages, bytes and connections of the server by the kind of peer: `agent` or `client`.

Input: each message as it is sent or received, and the open calls. Owns the counters.
"""

from collections.abc import Callable, Iterable

from ankaios.common.metrics import Counter, Gauge, Labels
from ankaios.grpc.server_call import ServerCall

AGENT, CLIENT = "agent", "client"
PEERS = (AGENT, CLIENT)


class ServerTraffic:
    def __init__(self, calls: Callable[[str], Iterable[ServerCall]]) -> None:
        """`calls` returns the open calls of a kind of peer."""
        self._calls = calls
        self.connections = Gauge("ankaios_server_connections", "Open connections of agents and clients.", "peer")
        self.received_messages = Counter("ankaios_server_received_messages", "Messages of agents and clients.", "peer")
        self.received_bytes = Counter("ankaios_server_received_bytes", "Bytes of agents and clients.", "peer")
        self.sent_messages = Counter("ankaios_server_sent_messages", "Messages to agents and clients.", "peer")
        self.sent_bytes = Counter("ankaios_server_sent_bytes", "Bytes to agents and clients.", "peer")
        self.queued_messages = Gauge(
            "ankaios_server_send_queue_messages", "Messages that peers have not read yet.", "peer"
        )
        self.queued_bytes = Gauge("ankaios_server_send_queue_bytes", "Bytes that peers have not read yet.", "peer")
        self.connections.read = lambda: self._sums(lambda call: 1)
        self.queued_messages.read = lambda: self._sums(lambda call: call.queued_count)
        self.queued_bytes.read = lambda: self._sums(lambda call: call.queued_bytes)

    def received(self, peer: str, size: int) -> None:
        self.received_messages.add(peer)
        self.received_bytes.add(peer, amount=size)

    def sent(self, peer: str, size: int) -> None:
        self.sent_messages.add(peer)
        self.sent_bytes.add(peer, amount=size)

    def _sums(self, value: Callable[[ServerCall], int]) -> dict[Labels, float]:
        return {(peer,): sum(map(value, self._calls(peer))) for peer in PEERS}
