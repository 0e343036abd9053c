"""Headers, statuses and texts of gRPC."""

import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.version import PROTOCOL_VERSION
from ankaios.grpc.wire_format import (
    CallFailed,
    ConnectionBroken,
    MessageBuffer,
    Status,
    decode_status_text,
    encode_status_text,
    failure_in,
    final_headers,
    length_prefixed,
    refusal_of,
    request_headers,
)

REQUEST = {":method": "POST", "content-type": "application/grpc", ":path": "/v1.Service/Method"}


def test_a_message_has_no_compression_and_its_length_in_front() -> None:
    assert length_prefixed(b"abc") == b"\0\0\0\0\3abc"


def test_a_request_contains_what_grpc_requires_and_the_metadata() -> None:
    headers = request_headers("/v1.S/M", secure=True, authority="host:1", metadata={"token": "x"}, time_limit=1.5)
    assert dict(headers) == {
        ":method": "POST",
        ":scheme": "https",
        ":path": "/v1.S/M",
        ":authority": "host:1",
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": f"ankaios/{PROTOCOL_VERSION}",
        "grpc-timeout": "1500m",
        "token": "x",
    }
    assert refusal_of(dict(headers)) is None


@pytest.mark.parametrize(("seconds", "value"), [(0.0001, "1m"), (1e9, "99999999m")])
def test_a_time_limit_is_sent_as_grpc_allows_it(seconds: float, value: str) -> None:
    assert ("grpc-timeout", value) in request_headers("/x", secure=False, authority="a", time_limit=seconds)


@pytest.mark.parametrize(
    ("change", "answer"),
    [({":method": "GET"}, [(":status", "405")]), ({"content-type": "text/html"}, [(":status", "415")])],
)
def test_a_request_that_is_not_grpc_is_rejected(change: dict[str, str], answer: list[tuple[str, str]]) -> None:
    assert refusal_of({**REQUEST, **change}) == answer
    assert refusal_of({**REQUEST, "content-type": "application/grpc+proto"}) is None
    assert refusal_of({}) == [(":status", "405")]


def test_a_call_that_fails_early_contains_its_status_in_the_headers() -> None:
    early = final_headers(Status.INVALID_ARGUMENT, "Empty", headers_sent=False)
    late = final_headers(Status.OK, "", headers_sent=True)
    assert early[0] == (":status", "200")
    assert early[-2:] == [("grpc-status", "3"), ("grpc-message", "Empty")]
    assert late == [("grpc-status", "0")]


def test_a_text_that_repeats_input_of_a_peer_does_not_exceed_the_header_limit() -> None:
    (_, status), (_, text) = final_headers(Status.INVALID_ARGUMENT, "\N{GRINNING FACE}" * 1_000_000, headers_sent=True)
    assert status == "3"
    assert 1000 < len(text) < 16_000


def failure(headers: dict[str, str]) -> tuple[int, str] | None:
    found = failure_in(headers)
    return (found.status, found.text) if found else None


def test_statuses_are_read_from_headers() -> None:
    assert failure({":status": "200"}) is None
    assert failure({"grpc-status": "0", "grpc-message": "x"}) is None
    assert failure({"grpc-status": "9", "grpc-message": "it%27s"}) == (Status.FAILED_PRECONDITION, "it's")
    assert failure({":status": "503"}) == (Status.UNKNOWN, "HTTP status 503")
    assert failure({"grpc-status": "99"}) == (Status.UNKNOWN, "gRPC status 99")
    assert failure({"grpc-status": "x"}) == (Status.UNKNOWN, "gRPC status x")
    assert str(CallFailed(Status.ABORTED, "")) == CallFailed(Status.ABORTED, "").reason == "ABORTED"
    assert str(CallFailed(Status.ABORTED, "why")) == "why (ABORTED)"
    assert str(ConnectionBroken("why")) == ConnectionBroken("why").reason == "why"


def test_texts_are_percent_encoded() -> None:
    assert encode_status_text("50 % 'ä'\n") == "50 %25 '%C3%A4'%0A"
    assert decode_status_text("%zz %C3") == "%zz \N{REPLACEMENT CHARACTER}"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_is_unchanged_after_encoding_in_headers(text: str) -> None:
    assert decode_status_text(encode_status_text(text)) == text
    assert encode_status_text(text).isascii()


@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(1, 50))
def test_messages_are_read_from_the_buffer_however_their_bytes_were_cut(payloads: list[bytes], step: int) -> None:
    buffer = MessageBuffer()
    sent = b"".join(length_prefixed(BytesValue(value=payload).SerializeToString()) for payload in payloads)
    taken = []
    for start in range(0, len(sent), step):
        buffer.add(sent[start : start + step])
        while (message := buffer.take(BytesValue, 310)) is not None:
            taken.append(message.value)
    assert taken == payloads
    assert len(buffer) == 0


def test_a_message_that_is_too_large_or_compressed_is_rejected_after_its_prefix() -> None:
    for prefix, status in ((b"\0\0\0\0\x0b", Status.RESOURCE_EXHAUSTED), (b"\1\0\0\0\1", Status.UNIMPLEMENTED)):
        buffer = MessageBuffer()
        buffer.add(prefix[:4])
        assert buffer.take(BytesValue, 10) is None
        buffer.add(prefix[4:])
        with pytest.raises(CallFailed) as failure:
            buffer.take(BytesValue, 10)
        assert failure.value.status == status


def test_a_message_that_cannot_be_decoded_is_rejected_by_its_name() -> None:
    buffer = MessageBuffer()
    buffer.add(length_prefixed(b"\xff"))
    with pytest.raises(CallFailed, match="cannot decode a BytesValue message"):
        buffer.take(BytesValue, 10)


def test_a_status_of_any_length_is_accepted() -> None:
    assert failure({"grpc-status": "9" * 10_000}) == (Status.UNKNOWN, f"gRPC status {'9' * 10_000}")
