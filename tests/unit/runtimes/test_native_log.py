"""Reading the stored output of a native workload."""

import asyncio
import os
from pathlib import Path
from time import tzset

import pytest

from ankaios.runtimes.native.log import LONGEST_RECORD, log_stamp, read_log, wanted_text
from ankaios.runtimes.native.log_writer import LONGEST_LINE, Log
from ankaios.runtimes.native.shim import READ_SIZE
from ankaios.runtimes.runtime_connector import LogOptions, RuntimeFailed, Unsupported

LINES = b"""\
2024-01-01T00:00:01.000000000Z stdout F one
2024-01-01T00:00:02.000000000Z stderr F two
2024-01-01T00:00:03.000000000Z stdout P thr
2024-01-01T00:00:03.000000000Z stdout F ee
2024-01-01T00:00:04.000000000Z stdout F four
"""


async def read(folder: Path, options: LogOptions = LogOptions()) -> bytes:  # noqa: B008
    return b"".join([piece async for piece in read_log(folder, options, lambda: True)])


async def test_lines_are_returned_as_they_were_printed(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(LINES)
    assert await read(tmp_path) == b"one\ntwo\nthree\nfour\n"


async def test_the_older_file_comes_first(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(LINES[:44])
    (tmp_path / "log").write_bytes(LINES[44:])
    assert await read(tmp_path) == b"one\ntwo\nthree\nfour\n"


async def test_no_log_is_no_output(tmp_path: Path) -> None:
    assert await read(tmp_path) == b""
    assert await read(tmp_path / "missing", LogOptions(follow=True)) == b""


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (LogOptions(tail=0), b""),
        (LogOptions(tail=1), b"four\n"),
        (LogOptions(tail=100), b"one\ntwo\nthree\nfour\n"),
        (LogOptions(tail=-1), b"one\ntwo\nthree\nfour\n"),
        (LogOptions(since="2024-01-01T00:00:02Z"), b"two\nthree\nfour\n"),
        (LogOptions(since="2024-01-01T01:00:02+01:00"), b"two\nthree\nfour\n"),
        (LogOptions(since="1704067202.5"), b"three\nfour\n"),
        (LogOptions(until="2024-01-01T00:00:02Z"), b"one\ntwo\n"),
        (LogOptions(since="2024-01-01T00:00:02Z", until="2024-01-01T00:00:03Z", tail=3), b"two\nthree\n"),
    ],
)
async def test_readers_get_the_requested_lines(tmp_path: Path, options: LogOptions, found: bytes) -> None:
    (tmp_path / "log").write_bytes(LINES)
    assert await read(tmp_path, options) == found


async def turns_while_reading(folder: Path, options: LogOptions) -> int:
    """Return how often another task could run meanwhile."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await read(folder, options)
    counting.cancel()
    return turns


@pytest.mark.parametrize(
    "options",
    [LogOptions(), LogOptions(tail=10, until="2024-02-01T00:00:00Z"), LogOptions(since="2025-01-01T00:00:00Z")],
)
async def test_other_tasks_run_while_a_long_log_is_read(tmp_path: Path, options: LogOptions) -> None:
    (tmp_path / "log").write_bytes(LINES * 2000)
    assert await turns_while_reading(tmp_path, options) >= 20


async def test_the_last_lines_are_found_without_reading_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ankaios.runtimes.native.log.LONGEST_RECORD", 45)
    for name in ("log.1", "log"):
        (tmp_path / name).write_bytes(LINES * 2000)
    assert await turns_while_reading(tmp_path, LogOptions(tail=10)) < 10


@pytest.mark.parametrize("longest", [45, 46, 50])  # the longest line has 45 bytes
async def test_the_last_lines_can_be_in_both_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    monkeypatch.setattr("ankaios.runtimes.native.log.LONGEST_RECORD", longest)
    for name in ("log.1", "log"):
        (tmp_path / name).write_bytes(LINES)
    texts = [b"one\n", b"two\n", b"thr", b"ee\n", b"four\n"] * 2
    for tail in range(12):
        assert await read(tmp_path, LogOptions(tail=tail)) == b"".join(texts[max(10 - tail, 0) :])


def test_no_line_of_a_log_is_longer_than_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = Log(size=1_000_000)
    for _ in range(5):
        log.add(0, b"x" * (LONGEST_LINE - 1))
        log.add(0, b"x" * (READ_SIZE - 1) + b"\n")
    assert max(map(len, (tmp_path / "log").read_bytes().splitlines(keepends=True))) < LONGEST_RECORD


@pytest.mark.parametrize(
    "time",
    [
        "yesterday",
        "",
        "²",
        "9" * 5000,
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+00:00:01",
    ],
    ids=lambda time: time[:30],
)
async def test_an_invalid_time_is_reported(tmp_path: Path, time: str) -> None:
    for options in (LogOptions(since=time), LogOptions(until=time)):
        with pytest.raises(Unsupported, match=r"cannot read the time '.{0,100}': expected RFC 3339, as in"):
            await read(tmp_path, options)


async def test_a_local_time_outside_the_range_of_utc_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for zone, time in (("UTC-3", "0001-01-01T00:00:00"), ("UTC+3", "9999-12-31T23:59:59")):
        monkeypatch.setenv("TZ", zone)
        tzset()
        with pytest.raises(Unsupported, match="cannot read the time"):
            await read(tmp_path, LogOptions(until=time))
    monkeypatch.undo()
    tzset()


async def test_an_unreadable_log_is_reported(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(RuntimeFailed, match=f"cannot read the log in '{tmp_path}': Is a directory"):
        await read(tmp_path, LogOptions())


def test_early_years_have_four_digits_so_that_stamps_compare_as_text() -> None:
    assert log_stamp("0999-01-01T00:00:00Z") == b"0999-01-01T00:00:00.000000000Z"


def test_a_local_time_is_read_as_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert log_stamp("2024-01-01T00:00:00Z") == b"2024-01-01T00:00:00.000000000Z"
    assert log_stamp("2024-01-01T00:00:00").endswith(b"Z")


@pytest.mark.parametrize("line", [b"", b"\n", b"garbage\n", b"2024 stdout\n"])
def test_invalid_lines_of_a_log_are_skipped(line: bytes) -> None:
    assert wanted_text(line, None, None) is None


async def test_following_continues_over_rotations_and_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ankaios.runtimes.native.log.FOLLOW_PAUSE", 0.0)
    log = Log(size=400)
    written: list[bytes] = []
    over = False

    async def write() -> None:
        nonlocal over
        for number in range(200):
            line = b"line %d\n" % number
            log.add(number % 2, line)
            written.append(line)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        over = True

    writer = asyncio.create_task(write())
    found = b"".join([piece async for piece in read_log(tmp_path, LogOptions(follow=True), lambda: over)])
    await writer
    assert found == b"".join(written)
    assert sum((tmp_path / name).stat().st_size for name in ("log", "log.1")) <= 400


async def test_a_log_rotated_while_it_is_opened_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(LINES)
    os.link(tmp_path / "log", tmp_path / "log.1")
    assert await read(tmp_path) == b"one\ntwo\nthree\nfour\n"


async def test_an_incomplete_line_waits_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.runtimes.native.log.FOLLOW_PAUSE", 0.0)
    (tmp_path / "log").write_bytes(LINES[:30])
    reads = 0

    def ended() -> bool:
        nonlocal reads
        reads += 1
        if reads == 2:
            with (tmp_path / "log").open("ab") as file:
                file.write(LINES[30:44])
        return reads > 2

    pieces = [piece async for piece in read_log(tmp_path, LogOptions(follow=True), ended)]
    assert pieces == [b"one\n"]
