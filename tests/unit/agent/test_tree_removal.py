"""Folders with hostile content of a workload."""

import os
import threading
from pathlib import Path

import pytest

from ankaios.agent.tree_removal import DeferredRemoval, remove_tree

LONG_ENOUGH = 60.0


def nest(folder: Path, depth: int) -> None:
    """Creates nested folders step by step: the path becomes longer than system calls accept."""
    folder.mkdir()
    here = os.open(folder, os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("deeper", dir_fd=here)
        deeper = os.open("deeper", os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)


def wait_for_removal() -> None:
    for thread in threading.enumerate():
        if thread.name == "removal of old folders":
            thread.join(LONG_ENOUGH)


def test_folders_of_any_depth_are_removed(tmp_path: Path) -> None:
    nest(tmp_path / "x", 3000)
    assert remove_tree(tmp_path / "x", LONG_ENOUGH)
    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (tmp_path / "x/inner").mkdir(parents=True)
    (tmp_path / "x/link").symlink_to(outside)
    (tmp_path / "x/inner/link").symlink_to(outside)
    (tmp_path / "y").symlink_to(outside)
    assert remove_tree(tmp_path / "x", LONG_ENOUGH)
    assert remove_tree(tmp_path / "y", LONG_ENOUGH)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "kept").exists()


def test_missing_paths_are_ignored_and_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert remove_tree(tmp_path / "missing")
    assert remove_tree(tmp_path / "file")
    assert not remove_tree(Path("/proc/self/status"))


def test_an_entry_that_cannot_be_removed_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x/inner").mkdir(parents=True)
    for name in ("locked", "a", "inner/locked", "inner/b"):
        (tmp_path / "x" / name).write_text("x")
    unlink = os.unlink

    def fails_for_one(path: str, *, dir_fd: int | None = None) -> None:
        if path == "locked":
            raise PermissionError
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", fails_for_one)
    assert not remove_tree(tmp_path / "x", LONG_ENOUGH)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["x/inner/locked", "x/locked"]


def test_time_is_limited(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/file").write_text("x")
    assert not remove_tree(tmp_path / "x", -1.0)
    assert (tmp_path / "x/file").exists()


def test_the_trash_is_removed_with_its_content(tmp_path: Path) -> None:
    trash = DeferredRemoval(tmp_path / "trash")
    for number in range(20):
        nest(tmp_path / "x", number)
        trash.take(tmp_path / "x")
        assert not (tmp_path / "x").exists()
    wait_for_removal()
    assert list(tmp_path.iterdir()) == []


def test_the_trash_of_an_earlier_agent_is_removed(tmp_path: Path) -> None:
    (tmp_path / "trash/old/inner").mkdir(parents=True)
    DeferredRemoval(tmp_path / "trash").empty()
    wait_for_removal()
    assert list(tmp_path.iterdir()) == []
    DeferredRemoval(tmp_path / "trash").empty()
    assert list(tmp_path.iterdir()) == []


def test_the_removal_continues_after_an_internal_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> bool:
        raise ValueError("a bug")

    trash = DeferredRemoval(tmp_path / "trash")
    (tmp_path / "trash/old").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr("ankaios.agent.tree_removal.remove_tree", broken)
        trash.empty()
        wait_for_removal()
    assert "internal error in the removal of old folders: ValueError: a bug" in caplog.text
    trash.empty()
    wait_for_removal()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_removed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ankaios.agent.tree_removal.remove_tree", lambda *_: False)
    (tmp_path / "trash/old").mkdir(parents=True)
    DeferredRemoval(tmp_path / "trash").empty()
    wait_for_removal()
    assert f"cannot remove all of '{tmp_path}/trash/old', remove it by hand" in caplog.text
