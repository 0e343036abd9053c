"""Conversations with the library h2 in both roles: what one side says arrives at the other, wherever it is cut.

Frames cross each other on their way, as nothing arrives before an exchange. So a stream may be reset by one side while
the other goes on; then only the beginning of what was said arrives.
"""

from collections import defaultdict
from typing import Any, Protocol

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.settings import SettingCodes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ankaios.middleware.http2_engine import events as ours
from ankaios.middleware.http2_engine.engine import MAX_STREAMS, Http2Engine
from ankaios.middleware.http2_engine.events import Headers
from tests.unit.middleware.http2_engine.support import REQUEST, RESPONSE, TRAILERS

Said = list[Any]  # header lists and bytes, then "end"


class Side(Protocol):
    """One end of a conversation; notes what it has said and heard on each stream."""

    said: dict[int, Said]
    heard: dict[int, Said]
    reset: set[int]
    unread: dict[int, int]

    def open(self, headers: Headers, end: bool) -> int: ...
    def headers(self, stream_id: int, headers: Headers, end: bool) -> None: ...
    def window(self, stream_id: int) -> int: ...
    def data(self, stream_id: int, data: bytes, end: bool) -> None: ...
    def cut(self, stream_id: int) -> None: ...
    def read(self) -> None: ...
    def outgoing(self) -> bytes: ...
    def receive(self, data: bytes) -> None: ...


class Notes:
    def __init__(self) -> None:
        self.said: dict[int, Said] = defaultdict(list)
        self.heard: dict[int, Said] = defaultdict(list)
        self.reset: set[int] = set()
        self.unread: dict[int, int] = defaultdict(int)

    def note_data(self, stream_id: int, data: bytes) -> None:
        self.unread[stream_id] += len(data)
        if data:
            self.heard[stream_id].append(data)


class OurSide(Notes):
    def __init__(self, client_side: bool) -> None:
        super().__init__()
        self.engine = Http2Engine(client_side=client_side)
        self.engine.begin()

    def open(self, headers: Headers, end: bool) -> int:
        return self.engine.open_stream(headers, end=end)

    def headers(self, stream_id: int, headers: Headers, end: bool) -> None:
        self.engine.send_headers(stream_id, headers, end=end)

    def window(self, stream_id: int) -> int:
        return self.engine.sendable(stream_id)

    def data(self, stream_id: int, data: bytes, end: bool) -> None:
        self.engine.send_data(stream_id, data, end=end)

    def cut(self, stream_id: int) -> None:
        self.engine.reset(stream_id)

    def read(self) -> None:
        for stream_id, size in self.unread.items():
            self.engine.acknowledge(stream_id, size)
        self.unread.clear()

    def outgoing(self) -> bytes:
        return self.engine.take_outgoing()

    def receive(self, data: bytes) -> None:
        for event in self.engine.receive(data):
            match event:
                case ours.RequestReceived() | ours.HeadersReceived() | ours.TrailersReceived():
                    self.heard[event.stream_id].append(event.headers)
                case ours.DataReceived():
                    self.note_data(event.stream_id, event.data)
                case ours.StreamEnded():
                    self.heard[event.stream_id].append("end")
                case ours.StreamReset():
                    assert event.by_peer, event
                    self.reset.add(event.stream_id)


class TheirSide(Notes):
    def __init__(self, client_side: bool) -> None:
        super().__init__()
        self.engine = H2Connection(H2Configuration(client_side=client_side, header_encoding="ascii"))
        self.engine.initiate_connection()

    def open(self, headers: Headers, end: bool) -> int:
        stream_id: int = self.engine.get_next_available_stream_id()
        self.engine.send_headers(stream_id, headers, end_stream=end)
        return stream_id

    def headers(self, stream_id: int, headers: Headers, end: bool) -> None:
        self.engine.send_headers(stream_id, headers, end_stream=end)

    def window(self, stream_id: int) -> int:
        window: int = self.engine.local_flow_control_window(stream_id)
        return min(window, self.engine.max_outbound_frame_size)

    def data(self, stream_id: int, data: bytes, end: bool) -> None:
        padding = len(data) if 0 < len(data) < 100 and self.window(stream_id) > 2 * len(data) + 1 else None
        self.engine.send_data(stream_id, data, end_stream=end, pad_length=padding)

    def cut(self, stream_id: int) -> None:
        self.engine.reset_stream(stream_id, ErrorCodes.CANCEL)

    def resize(self, window: int) -> None:
        self.engine.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window, SettingCodes.HEADER_TABLE_SIZE: 100})

    def read(self) -> None:
        for stream_id, size in self.unread.items():
            self.engine.acknowledge_received_data(size, stream_id)
        self.unread.clear()

    def outgoing(self) -> bytes:
        data: bytes = self.engine.data_to_send()
        return data

    def receive(self, data: bytes) -> None:
        for event in self.engine.receive_data(data):
            match event:
                case RequestReceived() | ResponseReceived() | TrailersReceived():
                    self.heard[event.stream_id].append([tuple(field) for field in event.headers])
                case DataReceived():
                    self.note_data(event.stream_id, event.data)
                case StreamEnded():
                    self.heard[event.stream_id].append("end")
                case StreamReset():
                    self.reset.add(event.stream_id)
                    assert event.error_code == ErrorCodes.CANCEL


class Conversation:
    """Knows which side may say what next on which stream."""

    def __init__(self, we_call: bool, cuts: list[int]) -> None:
        us, them = OurSide(we_call), TheirSide(not we_call)
        self.us, self.them = us, them
        self.caller: Side = us if we_call else them
        self.called: Side = them if we_call else us
        self._cuts, self._turn = cuts, 0
        self._ended: set[tuple[Side, int]] = set()
        self._answered: set[int] = set()
        self.exchange()

    def exchange(self) -> None:
        for _ in range(3):  # what is said, the answers to it, and the answers to these
            to_called, to_caller = self.caller.outgoing(), self.called.outgoing()
            self._deliver(to_called, self.called)
            self._deliver(to_caller, self.caller)

    def _deliver(self, data: bytes, to: Side) -> None:
        at = 0
        while at < len(data):
            size = self._cuts[self._turn % len(self._cuts)]
            self._turn += 1
            to.receive(data[at : at + size])
            at += size

    def open(self, headers: Headers, end: bool) -> None:
        if len(self.caller.said) == MAX_STREAMS:
            return
        stream_id = self.caller.open(headers, end)
        self._note(self.caller, stream_id, headers, end)

    def speak(self, called: bool, pick: int, said: Headers | bytes, end: bool) -> None:
        side = self.called if called else self.caller
        streams = self._open_streams(side)
        if not streams:
            return
        stream_id = streams[pick % len(streams)]
        if called and stream_id not in self._answered:
            self._answered.add(stream_id)
            side.headers(stream_id, RESPONSE, end)
            self._note(side, stream_id, RESPONSE, end)
        elif isinstance(said, bytes):
            window = side.window(stream_id)
            if window >= 0:  # h2 does not take even an empty frame when its window has become negative
                side.data(stream_id, said[:window], end)
                self._note(side, stream_id, said[:window], end)
        else:
            side.headers(stream_id, said, True)
            self._note(side, stream_id, said, True)

    def cut(self, called: bool, pick: int) -> None:
        side = self.called if called else self.caller
        streams = self._open_streams(side)
        if streams:
            stream_id = streams[pick % len(streams)]
            side.cut(stream_id)
            side.reset.add(stream_id)

    def _open_streams(self, side: Side) -> list[int]:
        known = self.caller.said if side is self.caller else side.heard
        return [it for it in known if it not in side.reset and (side, it) not in self._ended]

    def _note(self, side: Side, stream_id: int, said: Headers | bytes, end: bool) -> None:
        if said:
            side.said[stream_id].append(said)
        if end:
            side.said[stream_id].append("end")
            self._ended.add((side, stream_id))

    def check(self) -> None:
        self.exchange()
        for speaker, listener in ((self.caller, self.called), (self.called, self.caller)):
            for stream_id, said in speaker.said.items():
                heard = listener.heard[stream_id]
                if stream_id in listener.reset:
                    assert _flat(said)[: len(_flat(heard))] == _flat(heard)
                else:
                    assert _flat(said) == _flat(heard)


def _flat(said: Said) -> Said:
    """Data may arrive in other pieces than it was sent in."""
    flat: Said = []
    for it in said:
        flat += list(it) if isinstance(it, bytes) else [it]
    return flat


values = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)
more_headers = st.lists(st.tuples(st.sampled_from(["x", "grpc-status", "y-bin", "user-agent"]), values), max_size=4)
requests = more_headers.map(lambda more: [*REQUEST, *more])
trailers = more_headers.map(lambda more: [*TRAILERS, *more])
data = st.binary(max_size=40) | st.integers(0, 40_000).map(lambda size: b"d" * size)
picks = st.integers(0, 20)
steps = st.one_of(
    st.tuples(st.just("open"), requests, st.booleans()),
    st.tuples(st.just("speak"), st.booleans(), picks, data, st.booleans()),
    st.tuples(st.just("speak"), st.booleans(), picks, data, st.just(False)),
    st.tuples(st.just("speak"), st.booleans(), picks, trailers, st.just(True)),
    st.tuples(st.just("cut"), st.booleans(), picks),
    st.tuples(st.just("exchange")),
    st.tuples(st.just("read")),
    st.tuples(st.just("resize"), st.integers(0, 200_000)),
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    st.booleans(), st.lists(st.integers(1, 5_000), min_size=1, max_size=10), st.lists(steps, min_size=25, max_size=80)
)
def test_what_is_said_arrives(we_call: bool, cuts: list[int], script: list[tuple[Any, ...]]) -> None:
    conversation = Conversation(we_call, cuts)
    for name, *arguments in script:
        if name == "read":
            conversation.us.read()
            conversation.them.read()
        elif name == "resize":
            conversation.them.resize(*arguments)
        else:
            getattr(conversation, name)(*arguments)
    conversation.check()


def test_megabytes_flow_in_both_directions_through_full_windows() -> None:
    for we_call in (True, False):
        conversation = Conversation(we_call, [65_536])
        conversation.open(REQUEST, False)
        conversation.exchange()
        conversation.speak(True, 0, b"", False)
        for _ in range(250):
            conversation.speak(False, 0, b"x" * 16_000, False)
            conversation.speak(True, 0, b"y" * 16_000, False)
            conversation.exchange()
            conversation.us.read()
            conversation.them.read()
        assert sum(len(it) for it in conversation.caller.said[1] if isinstance(it, bytes)) > 3_000_000
        assert sum(len(it) for it in conversation.called.said[1] if isinstance(it, bytes)) > 3_000_000
        conversation.check()
