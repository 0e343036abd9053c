"""Both ends of FIFOs, with another end that opens, closes, fills and ignores them."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ankaios.agent.fifo import FifoReader, FifoWriter, NoFifo, fits_at_once, is_fifo_at, make_fifo, open_fifo


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.agent.fifo.PACE_LIMIT", 0.002)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_fifo(tmp_path / "fifo")
    return tmp_path / "fifo"


@pytest.fixture
async def writer(path: Path) -> AsyncIterator[FifoWriter]:
    end = FifoWriter(path)
    yield end
    end.close()


@pytest.fixture
async def reader(path: Path) -> AsyncIterator[FifoReader]:
    end = FifoReader(path)
    yield end
    end.close()


def peer(path: Path, mode: int) -> int:
    return os.open(path, mode | os.O_NONBLOCK)


def test_an_existing_fifo_is_used_again_and_anything_else_is_replaced(path: Path) -> None:
    inode = path.stat().st_ino
    make_fifo(path)
    assert path.stat().st_ino == inode
    path.unlink()
    path.write_text("a trap")
    make_fifo(path)
    assert path.is_fifo()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_the_agent_never_opens_another_file(tmp_path: Path) -> None:
    target = tmp_path / "secret"
    target.write_text("secret")
    (tmp_path / "link").symlink_to(target)
    for path in (target, tmp_path / "link"):
        with pytest.raises(NoFifo, match="is not a FIFO"):
            open_fifo(path, os.O_WRONLY)


def test_a_file_that_is_no_fifo_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, opening a watchdog starts it."""
    opened: list[int] = []
    really_open = os.open

    def note(path: Path, flags: int) -> int:
        opened.append(flags)
        return really_open(path, flags)

    monkeypatch.setattr(os, "open", note)
    with pytest.raises(NoFifo):
        open_fifo(Path("/dev/null"), os.O_WRONLY)
    assert [flags & os.O_PATH for flags in opened] == [os.O_PATH]


def test_a_fifo_with_a_hard_link_is_not_used_again(path: Path, tmp_path: Path) -> None:
    """It may belong to another workload."""
    os.link(path, tmp_path / "other")
    make_fifo(tmp_path / "other")
    assert not path.samefile(tmp_path / "other")


def test_a_replaced_fifo_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    made = make_fifo(path)
    assert make_fifo(path) == made
    assert is_fifo_at(path, made)
    path.rename(tmp_path / "moved")
    assert not is_fifo_at(path, made)
    path.symlink_to("moved")
    assert not is_fifo_at(path, made)


async def test_the_end_of_each_writer_is_detected(path: Path, reader: FifoReader) -> None:
    for text in (b"one", b"two"):
        end = peer(path, os.O_WRONLY)  # fails if there is no reader
        os.write(end, text)
        assert await reader.read() == text
        os.close(end)
        assert await reader.read() == b""
    os.close(peer(path, os.O_WRONLY))
    assert await reader.read() == b""


async def test_without_a_writer_reading_just_waits(path: Path, reader: FifoReader) -> None:
    waiting = asyncio.create_task(reader.read())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    end = peer(path, os.O_WRONLY)
    await asyncio.sleep(0.02)
    assert not waiting.done()
    os.write(end, b"x")
    assert await waiting == b"x"
    os.close(end)


async def test_waiting_for_a_writer_uses_no_cpu(path: Path, reader: FifoReader) -> None:
    """After the end of a writer the kernel reports the end repeatedly until the FIFO is opened again."""
    os.close(peer(path, os.O_WRONLY))
    await reader.read()
    waiting = asyncio.create_task(reader.read())
    before = os.times()
    await asyncio.sleep(0.2)
    after = os.times()
    assert after.user + after.system - before.user - before.system < 0.1
    waiting.cancel()


async def test_data_for_an_earlier_agent_is_discarded(path: Path) -> None:
    keeper = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    os.write(keeper, b"the end of a request to a killed agent")
    reader = FifoReader(path)
    os.write(keeper, b"hello")
    assert await reader.read() == b"hello"
    reader.close()
    os.close(keeper)


async def test_a_frame_reaches_the_reader(path: Path, writer: FifoWriter) -> None:
    end = peer(path, os.O_RDONLY)
    assert await writer.write(b"frame")
    assert os.read(end, 100) == b"frame"
    os.close(end)


async def test_a_write_waits_briefly_for_a_reader(path: Path, writer: FifoWriter) -> None:
    writing = asyncio.create_task(writer.write(b"frame"))
    await asyncio.sleep(0.15)
    end = peer(path, os.O_RDONLY)
    assert await writing
    assert os.read(end, 100) == b"frame"
    os.close(end)


async def test_a_write_without_reader_fails(writer: FifoWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """[utest->swdd~agent-handles-control-interface-input-pipe-not-read~1]"""
    monkeypatch.setattr("ankaios.agent.fifo.REOPEN_PAUSE", 0.001)
    assert not await writer.write(b"frame")


async def test_a_stalled_reader_gets_no_more_frames_and_delays_only_one_write(
    path: Path, writer: FifoWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[utest->swdd~agent-handles-control-interface-input-pipe-not-read~1]"""
    monkeypatch.setattr("ankaios.agent.fifo.WRITE_LIMIT", 0.02)
    end = peer(path, os.O_RDONLY)
    frame = bytes(range(250)) * 10
    sent = 0
    while await writer.write(frame):
        sent += 1
    assert sent > 10
    monkeypatch.setattr("ankaios.agent.fifo.WRITE_LIMIT", 100.0)
    async with asyncio.timeout(1):
        assert not await writer.write(frame)
    got = b"".join(iter(lambda: _read(end), b""))
    assert got == frame * sent  # no frame is truncated
    async with asyncio.timeout(1):
        assert await writer.write(frame)
    writer.expect_reader()
    os.close(end)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 20)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize("size", [5_000, 60_000, 300_000, 1_000_000])
async def test_a_frame_that_a_pipe_can_hold_is_written_in_one_go(path: Path, writer: FifoWriter, size: int) -> None:
    end = peer(path, os.O_RDONLY)
    assert await writer.write(b"a" * 3)
    assert os.read(end, 10) == b"aaa"
    assert await writer.write(b"x" * size)
    assert os.read(end, 2_000_000) == b"x" * size
    os.close(end)


async def test_a_frame_larger_than_a_pipe_is_continued_without_other_frames_between(
    path: Path, writer: FifoWriter
) -> None:
    end = peer(path, os.O_RDONLY)
    huge = os.urandom(3_000_000)
    assert await writer.write(huge)
    next_one = asyncio.create_task(writer.write(b"next"))
    got = b""
    async with asyncio.timeout(10):
        while len(got) < len(huge) + 4:
            got += _read(end)
            await asyncio.sleep(0)
    assert await next_one
    assert got == huge + b"next"
    os.close(end)


async def test_frames_of_any_size_to_a_slow_reader_are_never_truncated(
    path: Path, writer: FifoWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ankaios.agent.fifo.WRITE_LIMIT", 0.01)
    end = peer(path, os.O_RDONLY)
    sent, got = [], b""
    for number in range(300):
        frame = bytes([number % 256]) * (1 + (number * 7919) % 20_000)
        if await writer.write(frame):
            sent.append(frame)
        if number % 3 == 0:
            got += _read(end)[: 1 << 20]
    while piece := _read(end):
        got += piece
    assert got == b"".join(sent)
    assert len(sent) > 50
    os.close(end)


async def test_a_frame_waits_until_the_previous_one_is_read(
    path: Path, writer: FifoWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ankaios.agent.fifo.PACE_LIMIT", 60.0)
    end = peer(path, os.O_RDONLY)
    assert await writer.write(b"one")
    second = asyncio.create_task(writer.write(b"two"))
    await asyncio.sleep(0.02)
    assert os.read(end, 100) == b"one"
    assert await second
    assert os.read(end, 100) == b"two"
    os.close(end)


async def test_data_that_a_closed_reader_left_is_not_delivered_to_the_next(path: Path, writer: FifoWriter) -> None:
    first = peer(path, os.O_RDONLY)
    assert await writer.write(b"for the first one only")
    os.read(first, 5)
    os.close(first)
    await asyncio.sleep(0.02)
    second = peer(path, os.O_RDONLY)
    assert _read(second) == b""
    assert await writer.write(b"hello")
    assert os.read(second, 100) == b"hello"
    os.close(second)


async def test_the_rest_of_a_huge_frame_is_discarded_with_its_reader(path: Path, writer: FifoWriter) -> None:
    first = peer(path, os.O_RDONLY)
    assert await writer.write(b"x" * 3_000_000)
    os.close(first)
    await asyncio.sleep(0.02)
    second = peer(path, os.O_RDONLY)
    assert await writer.write(b"hello")
    assert os.read(second, 100) == b"hello"
    os.close(second)


@pytest.mark.parametrize(
    ("size", "unread", "capacity", "fits"),
    [
        (65536, 0, 65536, True),
        (65537, 0, 65536, False),
        (4096, 4096, 65536, True),
        (32768, 16384, 65536, False),
        (8192, 16384, 65536, True),
        (1, 65536, 65536, False),
    ],
)
def test_capacity_of_a_single_write(size: int, unread: int, capacity: int, fits: bool) -> None:
    assert fits_at_once(size, unread, capacity) is fits
