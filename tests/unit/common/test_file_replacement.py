"""A file is replaced as a whole, or not at all."""

import os
import stat
from pathlib import Path

import pytest

from ankaios.common.file_replacement import remove_drafts, replace_file


def test_a_file_is_replaced_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    path.write_bytes(b"old and longer")
    replace_file(path, b"new", 0o444)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert os.listdir(tmp_path) == ["claims.json"]


def test_a_failed_write_keeps_the_old_content_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "claims.json"
    path.write_bytes(b"old")

    def full(_descriptor: int, _data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new", 0o600)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["claims.json"]


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"other")
    (tmp_path / "claims.new").symlink_to(other)
    replace_file(tmp_path / "claims.json", b"new", 0o600)
    assert other.read_bytes() == b"other"


def test_temporary_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / "claims.new").touch(mode=0o400)
    (tmp_path / "claims.json").touch()
    remove_drafts(tmp_path)
    assert os.listdir(tmp_path) == ["claims.json"]
