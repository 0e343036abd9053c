"""Created mount points are removed with their last user; other files are kept."""

import fcntl
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ankaios.runtimes.native.mounts import FILE, FOLDER, MountPoints, remove_mount_point, without_mounts


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("text")
    return tmp_path / "source"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    (tmp_path / "host").mkdir()
    return tmp_path / "host"


def a_file(source: Path, target: Path) -> tuple[str, str, bool]:
    return str(source / "file"), str(target), True


def a_folder(source: Path, target: Path) -> tuple[str, str, bool]:
    return str(source), str(target), False


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_created_mount_point_is_removed_with_its_created_parents(source: Path, host: Path) -> None:
    points = MountPoints([a_file(source, host / "deep/er/file"), a_folder(source, host / "deep/folder")])
    assert points.fault is None
    assert (host / "deep/er/file").is_file()
    assert (host / "deep/folder").is_dir()
    points.remove()
    assert left_in(host) == []


def test_the_umask_of_the_agent_has_no_effect(source: Path, host: Path) -> None:
    before = os.umask(0o077)
    try:
        points = MountPoints([a_file(source, host / "deep/file")])
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)
    assert (host / "deep").stat().st_mode & 0o777 == 0o755
    points.remove()
    assert left_in(host) == []


def test_existing_files_are_kept(source: Path, host: Path) -> None:
    (host / "empty").touch()
    (host / "folder").mkdir()
    points = MountPoints([a_file(source, host / "empty"), a_folder(source, host / "folder")])
    points.remove()
    assert left_in(host) == ["empty", "folder"]


def test_a_file_with_content_is_not_removed(source: Path, host: Path) -> None:
    points = MountPoints([a_file(source, host / "one/file"), a_folder(source, host / "two/folder")])
    (host / "one/file").write_text("precious")
    (host / "two/folder/file").write_text("precious")
    points.remove()
    assert left_in(host) == ["one", "one/file", "two", "two/folder", "two/folder/file"]


def test_a_file_with_a_changed_mode_is_not_removed(source: Path, host: Path) -> None:
    points = MountPoints([a_file(source, host / "file")])
    (host / "file").chmod(0o644)
    points.remove()
    assert left_in(host) == ["file"]


@pytest.mark.parametrize("target", ["deep/file", "deep/folder"])
@pytest.mark.parametrize("first_goes", [True, False])
def test_the_last_user_removes_a_mount_point_that_another_one_created(
    source: Path, host: Path, target: str, first_goes: bool
) -> None:
    mount = a_file if target.endswith("file") else a_folder
    first = MountPoints([mount(source, host / target)])
    second = MountPoints([mount(source, host / target)])
    inode = (host / target).stat().st_ino
    early, late = (first, second) if first_goes else (second, first)
    early.remove()
    assert (host / target).stat().st_ino == inode
    late.remove()
    assert left_in(host) == []


def test_mount_points_of_a_killed_keeper_are_removed_with_the_next_user(source: Path, host: Path) -> None:
    keeper = os.fork()
    if keeper == 0:
        MountPoints([a_file(source, host / "deep/file")])
        os._exit(0)
    os.waitpid(keeper, 0)
    assert left_in(host) == ["deep", "deep/file"]
    MountPoints([a_file(source, host / "deep/file")]).remove()
    assert left_in(host) == []


def test_a_mount_point_that_contains_another_one_is_kept(source: Path, host: Path) -> None:
    outer = MountPoints([a_folder(source, host / "outer")])
    inner = MountPoints([a_file(source, host / "outer/inner")])
    outer.remove()
    assert left_in(host) == ["outer", "outer/inner"]
    inner.remove()
    assert left_in(host) == []


def test_a_mount_point_of_another_workload_is_not_removed(source: Path, host: Path) -> None:
    inner = MountPoints([a_file(source, host / "outer/inner")])
    outer = MountPoints([a_folder(source, host / "outer")])
    inner.remove()
    assert left_in(host) == ["outer"]
    outer.remove()
    assert left_in(host) == []


def test_a_link_is_followed_once(source: Path, host: Path) -> None:
    """`/var/run` is a link to `/run`."""
    (host / "real").mkdir()
    (host / "link").symlink_to("real")
    points = MountPoints([a_file(source, host / "link/deep/file")])
    assert points.paths == [str(host / "real/deep/file")]
    points.remove()
    assert left_in(host) == ["link", "real"]


def test_a_link_that_is_created_meanwhile_is_not_followed(
    source: Path, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a user who owns a parent folder could make root create files anywhere."""
    (host / "outside").mkdir()
    (host / "link").symlink_to("outside")
    monkeypatch.setattr("os.path.realpath", str)  # checked before the link existed
    points = MountPoints([a_file(source, host / "link/deep/file")])
    assert isinstance(points.fault, NotADirectoryError)
    points.remove()
    assert left_in(host) == ["link", "outside"]
    made = MountPoints([a_file(source, host / "outside/file")])
    os.close(made._locks.pop())
    remove_mount_point(str(host / "link/file"))
    assert left_in(host) == ["link", "outside", "outside/file"]


def test_the_root_of_the_file_system_is_no_mount_point(source: Path) -> None:
    points = MountPoints([a_folder(source, Path("/"))])
    assert str(points.fault) == "[Errno 22] cannot mount onto '/'"


def test_a_mount_point_may_be_deeper_than_the_limit_of_recursion(source: Path, host: Path) -> None:
    """The limit is low, because the time for many folders grows with the square of their number."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(context=0)) + 200)
    try:
        points = MountPoints([a_file(source, host / ("a/" * 300) / "file")])
        assert points.fault is None
        points.remove()
    finally:
        sys.setrecursionlimit(limit)
    assert left_in(host) == []


def test_a_mount_point_that_cannot_be_created_is_reported_and_leaves_no_files(source: Path, host: Path) -> None:
    (host / "file").touch()
    points = MountPoints([a_file(source, host / "one/two"), a_file(source, host / "file/below")])
    assert isinstance(points.fault, NotADirectoryError)
    points.remove()
    assert left_in(host) == ["file"]


def test_a_mount_point_that_can_never_be_created_is_an_error(source: Path) -> None:
    points = MountPoints([a_file(source, Path("/proc/ankaios/file"))])
    assert isinstance(points.fault, FileNotFoundError)
    points.remove()


def test_removing_a_missing_mount_point_changes_nothing(source: Path, host: Path) -> None:
    points = MountPoints([a_file(source, host / "deep/file")])
    points.remove()
    points.remove()
    remove_mount_point(str(host / "deep/file"))
    for path in (str(host / "some/thing/else"), "/", ""):
        remove_mount_point(path)
    assert left_in(host) == []


def test_without_locks_no_mount_point_is_removed(source: Path, host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", no_locks)
    points = MountPoints([a_file(source, host / "file")])
    assert points.fault is None
    points.remove()
    assert left_in(host) == ["file"]


class CallDuringLock:
    """Calls a function once, directly after a lock was requested."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, does: Callable[[], object]) -> None:
        self._ask: Callable[[int, int], None] = fcntl.flock
        self._does: Callable[[], object] | None = does
        monkeypatch.setattr("fcntl.flock", self)

    def __call__(self, descriptor: int, operation: int) -> None:
        does, self._does = self._does, None
        try:
            self._ask(descriptor, operation)
        finally:
            if does is not None:
                does()


def test_a_mount_point_that_is_removed_meanwhile_is_created_again(
    source: Path, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = MountPoints([a_file(source, host / "deep/file")])
    first_leaves = (host / "deep/file").unlink
    CallDuringLock(monkeypatch, first_leaves)
    second = MountPoints([a_file(source, host / "deep/file")])
    assert second.fault is None
    first.remove()
    assert (host / "deep/file").exists()
    second.remove()
    assert left_in(host) == []


def test_a_mount_point_that_another_workload_created_again_is_not_removed(
    source: Path, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[MountPoints] = []

    def remove_and_create_again() -> None:
        (host / "file").unlink()
        others.append(MountPoints([a_file(source, host / "file")]))

    points = MountPoints([a_file(source, host / "file")])
    CallDuringLock(monkeypatch, remove_and_create_again)
    points.remove()
    assert left_in(host) == ["file"]
    others[0].remove()
    assert left_in(host) == []


def test_a_folder_that_another_process_tries_to_remove_is_removed(
    source: Path, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process may have tried just before the mount point in it was removed."""
    points = MountPoints([a_file(source, host / "deep/file")])
    their = os.open(host / "deep", os.O_RDONLY)
    fcntl.flock(their, fcntl.LOCK_EX)
    monkeypatch.setattr("time.sleep", lambda _: fcntl.flock(their, fcntl.LOCK_UN))
    points.remove()
    os.close(their)
    assert left_in(host) == []


@pytest.mark.parametrize(
    ("places", "mounts", "words"),
    [
        ({}, [("/a/camera", "/dev/camera", False), ("/a/file", "/a/file", True)], "missing: /dev/camera"),
        ({}, [("/a/file", "/a/file", True)], "nothing is read-only"),
        ({"F": "/a/files"}, [("/a/files/etc/x", "/etc/x", True)], "paths are in $F"),
        (
            {"C": "/a/ci", "F": "/a/f"},
            [("/a/ci", "/run/ci", False), ("/a/f/x", "/x", True), ("/b", "/dev/b", False)],
            "paths are in $C, $F; missing: /dev/b",
        ),
    ],
)
def test_without_mounts_the_warning_names_variables_and_missing_targets(
    places: dict[str, str],
    mounts: list[tuple[str, str, bool]],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = {"env_without_mounts": places, "mounts": mounts}
    fault = OSError(1, "unshare: Operation not permitted")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert without_mounts(order, fault) == f"Agent is not root: {words}"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert without_mounts(order, fault) == f"Agent cannot mount (unshare: Operation not permitted): {words}"


def test_no_other_user_can_open_a_mount_point() -> None:
    """A lock of another user would prevent its removal, or let it be removed while in use."""
    assert (FILE | FOLDER) & 0o044 == 0
