"""Which headers are well-formed."""

import pytest

from ankaios.middleware.http2_engine.header_rules import (
    content_length,
    fault_of_request,
    fault_of_response,
    fault_of_trailers,
    is_interim,
)

Field = tuple[bytes, bytes]

REQUEST: list[Field] = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x"), (b":authority", b"a")]
RESPONSE: list[Field] = [(b":status", b"200")]


def test_what_grpc_sends_is_well_formed() -> None:
    rest = [(b"te", b"trailers"), (b"content-type", b"application/grpc"), (b"grpc-timeout", b"1S"), (b"x-bin", b"")]
    assert fault_of_request([*REQUEST, *rest]) is None
    assert fault_of_request(REQUEST[:3]) is None
    assert fault_of_response([*RESPONSE, (b"content-type", b"application/grpc")]) is None
    assert fault_of_trailers([(b"grpc-status", b"0"), (b"grpc-message", "größer".encode())]) is None
    assert fault_of_trailers([]) is None


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_request_says_what_it_wants(missing: int) -> None:
    headers = [*REQUEST[:missing], *REQUEST[missing + 1 :]]
    assert fault_of_request(headers) == f"{REQUEST[missing][0].decode()} is missing"


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        ([], ":method is missing"),
        ([(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"")], ":path is empty"),
        ([*REQUEST, (b":path", b"/y")], ":path is there twice"),
        ([*REQUEST, (b":status", b"200")], "b':status' is not a pseudo-header of this place"),
        ([*REQUEST, (b":odd", b"x")], "b':odd' is not a pseudo-header of this place"),
        ([*REQUEST[:3], (b":authority", b"a\0")], "the value of :authority has characters that are not allowed"),
        ([*REQUEST[:3], (b"x", b"y"), REQUEST[3]], "b':authority' is not a header name of this place"),
    ],
)
def test_pseudo_headers_of_a_request_that_are_wrong(headers: list[Field], fault: str) -> None:
    assert fault_of_request(headers) == fault


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        ([], ":status is missing"),
        ([(b"x", b"y"), (b":status", b"200")], ":status is missing"),
        ([(b":status", b"20")], ":status is not a number of three digits"),
        ([(b":status", b"2x0")], ":status is not a number of three digits"),
        ([(b":status", b"200"), (b":status", b"200")], ":status is there twice"),
        ([(b":status", b"200"), (b":path", b"/")], "b':path' is not a pseudo-header of this place"),
    ],
)
def test_pseudo_headers_of_a_response_that_are_wrong(headers: list[Field], fault: str) -> None:
    assert fault_of_response(headers) == fault


def test_trailers_have_no_pseudo_headers() -> None:
    assert fault_of_trailers([(b":status", b"200")]) == "b':status' is not a header name of this place"


@pytest.mark.parametrize(
    "name", [b"", b"Te", b"x y", b"x:y", b":", b"x\0", b"x\r", b"x\x7f", b"\xe4", b"x\t", b"X" * 10_000]
)
def test_names_that_are_wrong(name: bytes) -> None:
    fault = fault_of_trailers([(name, b"x")])
    assert fault is not None
    assert fault.endswith("is not a header name of this place")
    assert len(fault) < 100


@pytest.mark.parametrize("value", [b"\0", b"a\nb", b"a\rb", b" a", b"a ", b"\ta", b"a\t", b" "])
def test_values_that_are_wrong(value: bytes) -> None:
    assert fault_of_trailers([(b"x", value)]) == "the value of x has characters that are not allowed"


@pytest.mark.parametrize(
    "field",
    [
        (b"connection", b"close"),
        (b"keep-alive", b"x"),
        (b"proxy-connection", b"x"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"h2c"),
        (b"te", b"gzip"),
    ],
)
def test_headers_of_http_1_are_refused(field: Field) -> None:
    assert fault_of_request([*REQUEST, field]) == f"{field[0].decode()} is not a header of HTTP/2"
    assert fault_of_response([*RESPONSE, field]) == f"{field[0].decode()} is not a header of HTTP/2"


@pytest.mark.parametrize("values", [[b"x"], [b"-1"], [b"+1"], [b""], [b"1", b"2"], [b"9" * 19], ["١".encode()]])
def test_a_content_length_is_one_number(values: list[bytes]) -> None:
    headers = [*REQUEST, *((b"content-length", value) for value in values)]
    assert fault_of_request(headers) == "content-length is not one number"


def test_a_content_length_is_found() -> None:
    twice = [*REQUEST, (b"content-length", b"12"), (b"content-length", b"12")]
    assert fault_of_request(twice) is None
    assert content_length(twice) == 12
    assert content_length(REQUEST) is None


def test_interim_responses_are_told_apart() -> None:
    assert is_interim([(b":status", b"100")])
    assert not is_interim(RESPONSE)
