"""Headers, statuses and texts of gRPC."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.middleware.grpc_call import (
    CallFailed,
    MessageBuffer,
    Status,
    decode_text,
    encode_text,
    final_headers,
    frame,
    method_of,
    status_of,
)
from ankaios.middleware.methods import METHODS, Method

GOOD = {":method": "POST", "content-type": "application/grpc", ":path": "/grpc_api.AgentConnection/ConnectAgent"}


def test_a_frame_has_no_compression_and_the_length_in_front() -> None:
    assert frame(b"abc") == b"\0\0\0\0\3abc"


@pytest.mark.parametrize("method", METHODS.values())
def test_the_path_names_the_method(method: Method) -> None:
    assert method_of({**GOOD, ":path": method.value, "content-type": "application/grpc+proto"}) is method


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({":method": "GET"}, [(":status", "405")]),
        ({"content-type": "text/html"}, [(":status", "415")]),
        (
            {":path": "/grpc_api.X/Y"},
            [
                (":status", "200"),
                ("content-type", "application/grpc"),
                ("grpc-status", "12"),
                ("grpc-message", "Method not found"),
            ],
        ),
    ],
)
def test_what_is_no_call_of_ours_is_refused(change: dict[str, str], answer: list[tuple[str, str]]) -> None:
    assert method_of({**GOOD, **change}) == answer
    assert method_of({}) == [(":status", "405")]


def test_a_call_that_fails_early_says_all_in_its_headers() -> None:
    early = final_headers(Status.INVALID_ARGUMENT, "Empty", headers_sent=False)
    late = final_headers(Status.OK, "", headers_sent=True)
    assert early[0] == (":status", "200")
    assert early[-2:] == [("grpc-status", "3"), ("grpc-message", "Empty")]
    assert late == [("grpc-status", "0")]


def test_a_text_that_repeats_what_a_peer_said_does_not_burst_the_headers() -> None:
    (_, status), (_, text) = final_headers(Status.INVALID_ARGUMENT, "\N{GRINNING FACE}" * 1_000_000, headers_sent=True)
    assert status == "3"
    assert 1000 < len(text) < 16_000


def failure(headers: dict[str, str]) -> tuple[int, str] | None:
    found = status_of(headers)
    return (found.status, found.text) if found else None


def test_statuses_are_read_from_headers() -> None:
    assert failure({":status": "200"}) is None
    assert failure({"grpc-status": "0", "grpc-message": "x"}) is None
    assert failure({"grpc-status": "9", "grpc-message": "it%27s"}) == (Status.FAILED_PRECONDITION, "it's")
    assert failure({":status": "503"}) == (Status.UNKNOWN, "HTTP status 503")
    assert failure({"grpc-status": "99"}) == (Status.UNKNOWN, "gRPC status 99")
    assert failure({"grpc-status": "x"}) == (Status.UNKNOWN, "gRPC status x")
    assert str(CallFailed(Status.ABORTED, "")) == "ABORTED"


def test_texts_are_percent_encoded() -> None:
    assert encode_text("50 % 'ä'\n") == "50 %25 '%C3%A4'%0A"
    assert decode_text("%zz %C3") == "%zz \N{REPLACEMENT CHARACTER}"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_survives_the_way_through_headers(text: str) -> None:
    assert decode_text(encode_text(text)) == text
    assert encode_text(text).isascii()


@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(1, 50))
def test_messages_come_out_of_the_buffer_however_their_bytes_were_cut(payloads: list[bytes], step: int) -> None:
    buffer = MessageBuffer(300)
    sent = b"".join(map(frame, payloads))
    taken = []
    for start in range(0, len(sent), step):
        buffer.add(sent[start : start + step])
        while (payload := buffer.take()) is not None:
            taken.append(bytes(payload))
    assert taken == payloads
    assert len(buffer) == 0


def test_a_message_that_is_too_large_or_compressed_is_refused_as_soon_as_that_is_known() -> None:
    for prefix, status in ((b"\0\0\0\0\x0b", Status.RESOURCE_EXHAUSTED), (b"\1\0\0\0\1", Status.UNIMPLEMENTED)):
        buffer = MessageBuffer(10)
        buffer.add(prefix[:4])
        assert buffer.take() is None
        buffer.add(prefix[4:])
        with pytest.raises(CallFailed) as failure:
            buffer.take()
        assert failure.value.status == status


def test_a_status_of_any_length_is_no_reason_to_fail() -> None:
    assert failure({"grpc-status": "9" * 10_000}) == (Status.UNKNOWN, f"gRPC status {'9' * 10_000}")
