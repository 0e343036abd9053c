"""Several outputs are merged line by line."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import cast

import pytest

from ankaios.runtimes.podman.merged_logs import MAX_LINE, LogSource, merged_logs
from ankaios.runtimes.runtime_connector import RuntimeFailed


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for piece in given:
        await asyncio.sleep(0)
        yield piece


async def read(*sources: LogSource) -> list[bytes]:
    return [piece async for piece in merged_logs(list(sources))]


async def test_a_source_with_an_internal_error_ends_and_the_others_continue(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"one\n"
        raise ValueError("a bug")

    async with asyncio.timeout(10):
        found = await read(LogSource("a", broken()), LogSource("b", pieces(b"x\n")))
    lines = sorted(b"".join(found).splitlines())
    assert lines == [b"a: Internal error: ValueError: a bug", b"a: one", b"b: x"]
    assert "internal error in the logs of a: ValueError: a bug" in caplog.text


async def test_logs_without_sources_end_immediately() -> None:
    assert await read() == []


async def test_one_source_is_returned_unchanged() -> None:
    assert b"".join(await read(LogSource("a", pieces(b"on", b"e\ntw", b"o\r\n", b"rest")))) == b"one\ntwo\r\nrest"


async def test_lines_of_several_sources_are_marked_and_never_split() -> None:
    found = await read(LogSource("a", pieces(b"on", b"e\ntwo\n")), LogSource("b", pieces(b"x", b"y\n", b"z")))
    lines = b"".join(found).split(b"\n")
    assert sorted(lines) == [b"a: one", b"a: two", b"b: xy", b"b: z"] or sorted(lines) == [
        b"",
        b"a: one",
        b"a: two",
        b"b: xy",
        b"b: z",
    ]


async def test_a_very_long_line_is_passed_on() -> None:
    found = await read(LogSource("a", pieces(b"x" * (MAX_LINE + 1), b"y\n")))
    assert len(found[0]) == MAX_LINE + 1


async def test_a_failing_source_reports_the_error_and_the_others_continue() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"one\n"
        raise RuntimeFailed("cannot go on")

    found = b"".join(await read(LogSource("a", broken()), LogSource("b", pieces(b"two\n"))))
    assert sorted(found.splitlines()) == [b"a: cannot go on", b"a: one", b"b: two"]


async def test_closing_closes_the_sources_even_if_the_reader_was_slow() -> None:
    closed: list[str] = []

    async def endless(name: str) -> AsyncIterator[bytes]:
        try:
            while True:
                await asyncio.sleep(0)
                yield b"line\n"
        finally:
            closed.append(name)

    merged = cast(AsyncGenerator[bytes, None], merged_logs([LogSource(n, endless(n)) for n in ("a", "b")]))
    await anext(merged)
    for _ in range(100):
        await asyncio.sleep(0)
    await merged.aclose()
    assert sorted(closed) == ["a", "b"]
