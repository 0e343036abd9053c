"""Ownership for the user of a native workload, with any content that the user has created before."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ankaios.runtimes.native.ownership import change_owners

NOBODY, OTHER = 65534, 4711
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of files")


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """The folder of an instance as the agent creates it."""
    folder = tmp_path / "web.1"
    folder.mkdir(mode=0o700)
    (folder / "control_interface").mkdir(mode=0o755)
    for name in ("input", "output"):
        os.mkfifo(folder / "control_interface" / name, 0o700)
    (folder / "files").mkdir(mode=0o700)
    (folder / "files/app.conf").write_text("text")
    return folder


def an_order(instance: Path, user: int | None = NOBODY) -> dict[str, Any]:
    return {
        "user": None if user is None else (user, user, [user]),
        "control_interface": str(instance / "control_interface"),
        "files": str(instance / "files"),
    }


def owners(instance: Path) -> dict[str, int]:
    return {str(path.relative_to(instance)): path.lstat().st_uid for path in (instance, *instance.rglob("*"))}


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_with_mounts_the_user_gets_the_control_interface_and_nothing_else(instance: Path) -> None:
    change_owners(an_order(instance), is_mounted=True)
    theirs = [name for name, uid in owners(instance).items() if uid == NOBODY]
    assert sorted(theirs) == ["control_interface", "control_interface/input", "control_interface/output"]
    assert mode_of(instance) == 0o700
    change_owners(an_order(instance), is_mounted=True)  # as with each start


def test_without_mounts_the_path_is_traversable_and_the_files_are_private(instance: Path) -> None:
    change_owners(an_order(instance), is_mounted=False)
    modes = {name: mode_of(instance / name) for name in (".", "control_interface", "files")}
    assert modes == {".": 0o711, "control_interface": 0o700, "files": 0o700}
    found = owners(instance)
    assert [found[name] for name in (".", "control_interface", "files")] == [0, NOBODY, NOBODY]


def test_the_same_user_needs_no_change(instance: Path) -> None:
    change_owners(an_order(instance, user=None), is_mounted=False)
    change_owners(an_order(instance, user=0), is_mounted=False)
    assert set(owners(instance).values()) == {0}
    assert mode_of(instance) == 0o700


@pytest.mark.parametrize("name", ["input", "output"])
@pytest.mark.parametrize("trap", ["link", "hard link", "file", "second name"])
def test_the_owner_of_other_files_is_not_changed(instance: Path, tmp_path: Path, name: str, trap: str) -> None:
    outside = tmp_path / "shadow"
    outside.write_text("secret")
    os.mkfifo(tmp_path / "pipe")
    path = instance / "control_interface" / name
    path.unlink()
    match trap:
        case "link":
            path.symlink_to(outside)
        case "hard link":
            os.link(outside, path)
        case "file":
            path.write_text("")
        case "second name":
            os.link(tmp_path / "pipe", path)
    with pytest.raises(OSError, match=f"'{name}' of the control interface is not the FIFO that the agent made"):
        change_owners(an_order(instance), is_mounted=True)
    assert {outside.stat().st_uid, (tmp_path / "pipe").stat().st_uid, path.lstat().st_uid} == {0}


def test_the_owner_of_a_fifo_of_a_third_user_is_not_changed(instance: Path) -> None:
    os.chown(instance / "control_interface/input", OTHER, OTHER)
    with pytest.raises(OSError, match=f"'input' of the control interface belongs to another user .id {OTHER}"):
        change_owners(an_order(instance), is_mounted=True)


@pytest.mark.parametrize("name", ["control_interface", "files"])
def test_a_link_in_place_of_a_folder_is_not_followed(instance: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "etc"
    outside.mkdir(mode=0o755)
    (instance / name).rename(tmp_path / "moved")
    (instance / name).symlink_to(outside)
    with pytest.raises(OSError, match="Not a directory"):
        change_owners(an_order(instance), is_mounted=False)
    assert (outside.stat().st_uid, mode_of(outside)) == (0, 0o755)


def test_a_fifo_that_the_workload_removed_is_ignored(instance: Path) -> None:
    (instance / "control_interface/input").unlink()
    change_owners(an_order(instance), is_mounted=True)
