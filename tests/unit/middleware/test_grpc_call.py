"""Headers, statuses and texts of gRPC."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.middleware.grpc_call import (
    CallFailed,
    Status,
    decode_text,
    encode_text,
    final_headers,
    frame,
    method_of,
    status_of,
)
from ankaios.middleware.methods import Method

GOOD = {":method": "POST", "content-type": "application/grpc", ":path": "/grpc_api.AgentConnection/ConnectAgent"}


def test_a_frame_has_no_compression_and_the_length_in_front() -> None:
    assert frame(b"abc") == b"\0\0\0\0\3abc"


@pytest.mark.parametrize("method", list(Method))
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


def failure(headers: dict[str, str]) -> tuple[Status, str] | None:
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
