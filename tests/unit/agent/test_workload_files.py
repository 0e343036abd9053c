import base64
import errno
import os
from pathlib import Path

import pytest

from ankaios.agent.workload_files import DiskFull, FilesFailed, write_files
from ankaios.common.workload import File


def test_files_are_written_below_the_folder_under_their_mount_points(tmp_path: Path) -> None:
    binary = base64.b64encode(b"\0\1\2" * 30).decode()
    wrapped = "\n".join(f"  {binary[start : start + 20]}  " for start in range(0, len(binary), 20))
    made = write_files(
        tmp_path / "files",
        [
            File("/etc/web/web.conf", data="größe: 1\r\n"),
            File("//var/./lib//blob", binary_data=wrapped),
            File("/empty", binary_data=""),
        ],
    )
    assert made == {
        tmp_path / "files/etc/web/web.conf": "/etc/web/web.conf",
        tmp_path / "files/var/lib/blob": "//var/./lib//blob",
        tmp_path / "files/empty": "/empty",
    }
    assert (tmp_path / "files/etc/web/web.conf").read_bytes() == "größe: 1\r\n".encode()
    assert (tmp_path / "files/var/lib/blob").read_bytes() == b"\0\1\2" * 30
    assert (tmp_path / "files/empty").read_bytes() == b""


def test_an_existing_file_is_overwritten_in_place(tmp_path: Path) -> None:
    write_files(tmp_path, [File("/a", data="one, and long")])
    inode = (tmp_path / "a").stat().st_ino
    write_files(tmp_path, [File("/a", data="two")])
    assert (tmp_path / "a").read_text() == "two"
    assert (tmp_path / "a").stat().st_ino == inode


@pytest.mark.parametrize(
    ("mount_point", "reason"),
    [
        ("/etc/", "''/etc/' is a directory, expected a file'"),
        ("/.", "''/.' is a directory, expected a file'"),
        ("/etc/.", "''/etc/.' is a directory, expected a file'"),
        ("relative/", "''relative/' is a directory, expected a file'"),
        ("", "'path '' is relative, expected absolute path'"),
        ("etc/web", "'path 'etc/web' is relative, expected absolute path'"),
        ("/etc/../../passwd", "'path '/etc/../../passwd' contains invalid path components'"),
        ("/a\0b", "'path '/a\0b' contains invalid path components'"),
    ],
)
def test_a_mount_point_that_is_no_file_is_rejected(tmp_path: Path, mount_point: str, reason: str) -> None:
    with pytest.raises(FilesFailed) as failure:
        write_files(tmp_path / "files", [File("/good", data="x"), File(mount_point, data="x")])
    assert str(failure.value) == f"Failed to create workload file: 'invalid mount point '{mount_point}': {reason}'"
    assert not (tmp_path / "files").exists()


@pytest.mark.parametrize("text", ["abc", "a b c d", "====", "äöü"])
def test_invalid_base64_is_rejected(tmp_path: Path, text: str) -> None:
    with pytest.raises(FilesFailed, match="Failed to create workload file: 'invalid base64 data in '/x': '"):
        write_files(tmp_path / "files", [File("/x", binary_data=text)])


def test_a_file_below_a_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(FilesFailed, match="failed to create workload file directory structure for '/a/b'"):
        write_files(tmp_path / "files", [File("/a", data=""), File("/a/b", data="")])
    assert not (tmp_path / "files").exists()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "files/a").mkdir(parents=True)
    with pytest.raises(FilesFailed, match="write failed for '/a': 'Is a directory'"):
        write_files(tmp_path / "files", [File("/a", data="")])
    with pytest.raises(FilesFailed, match=r"for '/x+': 'File name too long'"):
        write_files(tmp_path / "files", [File("/" + "x" * (os.pathconf("/", "PC_NAME_MAX") + 1), data="")])


def test_a_full_disk_is_a_separate_error_because_a_retry_may_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(DiskFull, match="Failed to create workload file: 'write failed for '/a': 'No space left on dev"):
        write_files(tmp_path / "files", [File("/a", data="x")])
    assert not (tmp_path / "files").exists()


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_files_are_readable_in_the_container_and_on_the_host_only_by_the_agent(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_files(tmp_path / "files", [File("/etc/app.conf", data="secret")])
    finally:
        os.umask(before)
    modes = [(tmp_path / path).stat().st_mode & 0o7777 for path in ("files", "files/etc", "files/etc/app.conf")]
    assert modes == [0o700, 0o755, 0o644]


def test_links_to_files_of_the_host_are_not_followed(tmp_path: Path) -> None:
    """The user of a native workload may own the folder."""
    host_folder = tmp_path / "host_folder"
    (host_folder / "etc").mkdir(parents=True)
    (host_folder / "file").write_text("unchanged")
    folder = tmp_path / "files"
    write_files(folder, [File("/etc/one", data="1"), File("/two", data="2"), File("/three", data="3")])
    (folder / "two").unlink()
    (folder / "two").symlink_to(host_folder / "file")
    (folder / "three").unlink()
    os.link(host_folder / "file", folder / "three")
    write_files(folder, [File("/two", data="new"), File("/three", data="new")])
    assert [(folder / name).read_text() for name in ("two", "three")] == ["new", "new"]
    (folder / "etc").rename(tmp_path / "away")
    (folder / "etc").symlink_to(host_folder / "etc")
    with pytest.raises(FilesFailed, match="directory structure for '/etc/one': 'Not a directory'"):
        write_files(folder, [File("/etc/one", data="1")])
    folder.symlink_to(host_folder)
    with pytest.raises(FilesFailed, match="directory structure for '/file'"):
        write_files(folder, [File("/file", data="1")])
    assert (host_folder / "file").read_text() == "unchanged"
    assert list((host_folder / "etc").iterdir()) == []


def test_a_pipe_in_place_of_a_file_does_not_block_the_agent(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    os.mkfifo(tmp_path / "files/a")
    write_files(tmp_path / "files", [File("/a", data="text")])
    assert (tmp_path / "files/a").read_text() == "text"


@pytest.mark.parametrize(
    ("mount_point", "why"),
    [
        ("/a" * 1500, "path has 1500 levels, expected at most 255"),
        ("/" + "/".join(["x" * 200] * 21), "directory structure for .*: 'File name too long'"),
    ],
    ids=["too deep", "too long"],
)
def test_a_mount_point_too_deep_or_too_long_is_rejected(tmp_path: Path, mount_point: str, why: str) -> None:
    with pytest.raises(FilesFailed, match=why):
        write_files(tmp_path / "files", [File(mount_point, data="x")])
    assert not (tmp_path / "files").exists()
