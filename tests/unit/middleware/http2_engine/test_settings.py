"""Settings of both sides."""

import pytest
from hyperframe.frame import SettingsFrame

from ankaios.middleware.http2_engine.errors import FLOW_CONTROL_ERROR, PROTOCOL_ERROR, ProtocolError
from ankaios.middleware.http2_engine.settings import (
    ENABLE_PUSH,
    INITIAL_WINDOW_SIZE,
    LARGEST_SENT_FRAME,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    PeerSettings,
    encode_settings,
)


def test_settings_are_six_bytes_each() -> None:
    settings = {INITIAL_WINDOW_SIZE: 2**31 - 1, MAX_HEADER_LIST_SIZE: 7}
    assert encode_settings(settings) == SettingsFrame(0, settings).serialize_body()


def test_before_the_peer_says_anything_the_values_of_the_rfc_count() -> None:
    peer = PeerSettings(is_client=True)
    assert (peer.initial_window, peer.max_frame) == (65535, 16384)


def test_the_last_of_several_values_counts_and_unknown_settings_do_not_matter() -> None:
    peer = PeerSettings(is_client=False)
    peer.read(encode_settings({INITIAL_WINDOW_SIZE: 1, MAX_FRAME_SIZE: 20_000, MAX_CONCURRENT_STREAMS: 0, 0x77: 9}))
    peer.read(encode_settings({INITIAL_WINDOW_SIZE: 2}) + encode_settings({INITIAL_WINDOW_SIZE: 3}))
    assert (peer.initial_window, peer.max_frame, peer.max_streams) == (3, 20_000, 0)


def test_larger_frames_than_we_would_send_are_not_noted() -> None:
    peer = PeerSettings(is_client=True)
    peer.read(encode_settings({MAX_FRAME_SIZE: 2**24 - 1}))
    assert peer.max_frame == LARGEST_SENT_FRAME


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        (INITIAL_WINDOW_SIZE, 2**31, FLOW_CONTROL_ERROR),
        (MAX_FRAME_SIZE, 16383, PROTOCOL_ERROR),
        (MAX_FRAME_SIZE, 2**24, PROTOCOL_ERROR),
        (ENABLE_PUSH, 2, PROTOCOL_ERROR),
    ],
)
def test_values_that_cannot_be_are_refused(key: int, value: int, code: int) -> None:
    with pytest.raises(ProtocolError) as failure:
        PeerSettings(is_client=True).read(encode_settings({key: value}))
    assert failure.value.code == code


@pytest.mark.parametrize(
    ("key", "value"), [(INITIAL_WINDOW_SIZE, 2**31 - 1), (INITIAL_WINDOW_SIZE, 0), (MAX_FRAME_SIZE, 2**24 - 1)]
)
def test_the_largest_and_smallest_values_are_taken(key: int, value: int) -> None:
    PeerSettings(is_client=True).read(encode_settings({key: value}))


def test_only_a_client_allows_pushes() -> None:
    PeerSettings(is_client=True).read(encode_settings({ENABLE_PUSH: 1}))
    PeerSettings(is_client=False).read(encode_settings({ENABLE_PUSH: 0}))
    with pytest.raises(ProtocolError):
        PeerSettings(is_client=False).read(encode_settings({ENABLE_PUSH: 1}))
