"""What the conduct of a peer means for the connection."""

from ankaios.middleware.http2_engine.events import Chatter, DataReceived, GoawayReceived, StreamReset, WindowUpdated
from ankaios.middleware.peer_conduct import ChatterLimit, goaway_text, reset_text


def test_a_thousand_idle_frames_in_a_second_are_enough() -> None:
    limit = ChatterLimit()
    assert not limit.is_exceeded_by([Chatter(0)] * 900 + [DataReceived(1, b"")] * 100, 100.0)
    assert limit.is_exceeded_by([Chatter(0)], 100.9)
    assert not limit.is_exceeded_by([Chatter(0)], 101.5)


def test_what_carries_something_is_not_counted() -> None:
    limit = ChatterLimit()
    assert not limit.is_exceeded_by([DataReceived(1, b"x"), WindowUpdated(0)] * 2000, 100.0)


def test_endings_are_told_with_what_the_peer_says_of_them() -> None:
    assert goaway_text(GoawayReceived(0, 1, "")) == "the peer ended the connection (0)"
    assert goaway_text(GoawayReceived(11, 1, "calm down")) == "the peer ended the connection (11, calm down)"
    assert reset_text(StreamReset(1, 8, "", by_peer=True)) == "the peer reset the stream"
    assert reset_text(StreamReset(1, 1, "bad", by_peer=False)) == "HTTP/2 protocol error: bad"
