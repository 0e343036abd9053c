"""Engines that have met, and a look at the frames they say."""

from ankaios.middleware.http2_engine.engine import Http2Engine
from ankaios.middleware.http2_engine.events import Event, Headers
from ankaios.middleware.http2_engine.frames import PREFACE, SETTINGS, FrameReader, frame
from ankaios.middleware.http2_engine.hpack_encoder import encode

REQUEST: Headers = [(":method", "POST"), (":scheme", "http"), (":path", "/x"), (":authority", "a"), ("te", "trailers")]
RESPONSE: Headers = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS: Headers = [("grpc-status", "0")]
NO_SETTINGS = frame(SETTINGS, 0, 0)

Frame = tuple[int, int, int, bytes]


def frames_in(data: bytes) -> list[Frame]:
    """What is said after the beginning."""
    reader = FrameReader(b"", 2**24, 2**24)
    reader._begun = True
    return list(reader.frames(data))


def said_by(engine: Http2Engine) -> list[Frame]:
    return frames_in(engine.take_outgoing())


def a_server(*, max_streams: int = 4, max_header_bytes: int = 16_384) -> Http2Engine:
    """A server whose client has introduced itself."""
    engine = Http2Engine(client_side=False, max_streams=max_streams, max_header_bytes=max_header_bytes)
    engine.begin()
    engine.receive(PREFACE + NO_SETTINGS)
    engine.take_outgoing()
    return engine


def a_client() -> Http2Engine:
    """A client whose server has introduced itself."""
    engine = Http2Engine(client_side=True)
    engine.begin()
    engine.receive(NO_SETTINGS)
    engine.take_outgoing()
    return engine


def a_calling_client() -> Http2Engine:
    """A client with a request on stream 1."""
    engine = a_client()
    engine.open_stream(REQUEST)
    engine.take_outgoing()
    return engine


def a_serving_server() -> Http2Engine:
    """A server with a request on stream 1."""
    engine = a_server()
    engine.receive(headers_frame(1, REQUEST))
    return engine


def headers_frame(stream_id: int, headers: Headers, flags: int = 4) -> bytes:
    return frame(1, flags, stream_id, encode(headers))


def names(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]
