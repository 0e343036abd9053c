"""Entries that are added to and removed from folders are reported."""

import asyncio
import struct
from pathlib import Path

import pytest

from ankaios.runtimes.podman.inotify import IN_CREATE, IN_Q_OVERFLOW, Inotify, _events


class Changes:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self._came = asyncio.Event()
        self.inotify = Inotify(self)

    def watch(self, folder: Path) -> None:
        self.inotify.add(str(folder))

    def __call__(self, folder: str, name: str) -> None:
        self.seen.append((folder, name))
        self._came.set()

    async def until(self, *wanted: tuple[str, str]) -> None:
        async with asyncio.timeout(60):
            while not set(wanted) <= set(self.seen):
                self._came.clear()
                await self._came.wait()


async def test_added_removed_and_replaced_entries_are_reported(tmp_path: Path) -> None:
    changes = Changes()
    changes.watch(tmp_path)
    changes.watch(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "b.new").touch()
    (tmp_path / "b.new").rename(tmp_path / "b")
    (tmp_path / "a").rmdir()
    await changes.until((str(tmp_path), "a"), (str(tmp_path), "b"))
    assert changes.seen.count((str(tmp_path), "a")) == 2
    changes.inotify.close()
    changes.inotify.close()


async def test_a_written_file_is_reported_and_a_read_file_is_not(tmp_path: Path) -> None:
    changes = Changes()
    written, only_read = tmp_path / "written", tmp_path / "read"
    for file in (only_read, written):
        file.write_text("old")
        changes.inotify.add_file(str(file))
    only_read.read_text()
    with only_read.open("a"):
        pass
    written.write_text("new")
    await changes.until((str(tmp_path), "written"))
    assert (str(tmp_path), "read") not in changes.seen
    changes.inotify.close()


async def test_an_unwatched_folder_reports_nothing(tmp_path: Path) -> None:
    changes = Changes()
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
        changes.watch(folder)
    changes.inotify.remove(str(first))
    changes.inotify.remove(str(first))
    (first / "a").touch()
    (second / "b").touch()
    await changes.until((str(second), "b"))
    assert (str(first), "a") not in changes.seen
    changes.inotify.close()


async def test_a_folder_that_is_removed_and_made_again_can_be_watched_again(tmp_path: Path) -> None:
    changes = Changes()
    folder = tmp_path / "folder"
    folder.mkdir()
    changes.watch(tmp_path)
    changes.watch(folder)
    folder.rmdir()
    await changes.until((str(tmp_path), "folder"))
    await asyncio.sleep(0.01)
    folder.mkdir()
    changes.watch(folder)
    (folder / "a").touch()
    await changes.until((str(folder), "a"))
    changes.inotify.close()


async def test_a_folder_that_does_not_exist_cannot_be_watched(tmp_path: Path) -> None:
    changes = Changes()
    with pytest.raises(FileNotFoundError):
        changes.watch(tmp_path / "missing")
    changes.inotify.close()


async def test_dropped_events_are_reported_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = Changes()
    changes.inotify._handle(-1, IN_Q_OVERFLOW, "")
    assert changes.seen == [("", "")]
    changes.inotify.close()


def test_events_are_parsed_from_the_bytes_read() -> None:
    head = struct.Struct("iIII")
    data = head.pack(1, IN_CREATE, 0, 16) + b"name".ljust(16, b"\0") + head.pack(2, IN_CREATE, 0, 0)
    assert _events(data) == [(1, IN_CREATE, "name"), (2, IN_CREATE, "")]
