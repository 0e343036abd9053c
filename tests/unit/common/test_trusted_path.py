"""Paths that another user of the machine could replace."""

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from ankaios.common.trusted_path import part_fault, untrusted_part

NOBODY = 65534


def a_part(mode: int, uid: int = 0, gid: int = 0) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "owner", "why"),
    [
        (stat.S_IFDIR | 0o755, 0, None),
        (stat.S_IFDIR | 0o700, 1000, None),
        (stat.S_IFDIR | 0o1777, 0, None),
        (stat.S_IFDIR | 0o1777, 1000, None),
        (stat.S_IFLNK | 0o777, 0, None),
        (stat.S_IFLNK | 0o777, 1000, None),
        (stat.S_IFDIR | 0o755, 1001, "belongs to another user (id 1001)"),
        (stat.S_IFDIR | 0o1777, 1001, "belongs to another user (id 1001)"),
        (stat.S_IFLNK | 0o777, 1001, "belongs to another user (id 1001)"),
        (stat.S_IFDIR | 0o777, 0, "has mode 0777, so every user could replace"),
        (stat.S_IFDIR | 0o775, 1000, "has mode 0775, so the group with id 50 could replace"),
    ],
)
def test_only_root_and_the_own_user_may_change_the_content_of_a_folder(mode: int, owner: int, why: str | None) -> None:
    fault = part_fault("/a/b", a_part(mode, owner, 50), uid=1000)
    assert (fault is None) == (why is None)
    if fault and why:
        assert str(fault).startswith(f"'/a/b' {why}")
        assert "folder" in fault.advice


@pytest.mark.parametrize(
    ("group", "members", "is_private"),
    [("me", [], True), ("me", ["me"], True), ("me", ["me", "eve"], False), ("staff", [], False), (None, [], False)],
)
def test_a_group_whose_only_member_is_the_owner_may_write(
    group: str | None, members: list[str], is_private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(gid: int) -> SimpleNamespace:
        assert gid == 50
        if group is None:
            raise KeyError(gid)
        return SimpleNamespace(gr_name=group, gr_mem=members)

    monkeypatch.setattr("pwd.getpwuid", lambda uid: SimpleNamespace(pw_name="me"))
    monkeypatch.setattr("grp.getgrgid", find)
    fault = part_fault("/a/b", a_part(stat.S_IFDIR | 0o775, 1000, 50), uid=1000)
    assert (fault is None) == is_private
    assert part_fault("/a/b", a_part(stat.S_IFDIR | 0o777, 1000, 50), uid=1000) is not None


def test_a_path_of_the_own_user_is_trusted_and_missing_parts_are_not_checked(tmp_path: Path) -> None:
    assert untrusted_part(tmp_path / "not/yet/there") is None


def test_the_first_untrusted_part_is_named(tmp_path: Path) -> None:
    (tmp_path / "open/inner").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    fault = untrusted_part(tmp_path / "open/inner")
    assert fault is not None
    assert fault.path == str(tmp_path / "open")
    assert f"run 'chmod go-w {tmp_path}/open'" in fault.advice
    (tmp_path / "open").chmod(0o1777)
    assert untrusted_part(tmp_path / "open/inner") is None


def test_the_target_of_a_link_is_checked_as_well(tmp_path: Path) -> None:
    (tmp_path / "open/inner").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "absolute").symlink_to(tmp_path / "open/inner")
    (tmp_path / "relative").symlink_to("./absolute/../inner")
    for name in ("absolute", "relative"):
        fault = untrusted_part(tmp_path / name)
        assert fault is not None
        assert fault.path == str(tmp_path / "open")


def test_links_with_a_cycle_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    fault = untrusted_part(tmp_path / "one")
    assert fault is not None
    assert "too many symbolic links" in str(fault)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of other users")
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_files_of_another_user_in_a_writable_folder_are_not_trusted(tmp_path: Path, kind: str) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    theirs = tmp_path / "tmp/ankaios"
    if kind == "link":
        theirs.symlink_to(tmp_path)
    else:
        theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY, follow_symlinks=False)
    fault = untrusted_part(theirs)
    assert fault is not None
    assert fault.path == str(theirs)
    assert f"belongs to another user (id {NOBODY})" in fault.why
