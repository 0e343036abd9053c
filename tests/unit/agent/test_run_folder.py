import asyncio
import errno
import os
import stat
from pathlib import Path

import pytest

from ankaios.agent.run_folder import RunFolder
from ankaios.agent.settings import default_run_folder
from ankaios.common.errors import Rejected, StartupFailed
from ankaios.common.workload import InstanceName

NAME = InstanceName("web", "abc", "A")
NOBODY = 65534


def test_paths(tmp_path: Path) -> None:
    """[utest->swdd~agent-control-interface-pipes-path-naming~1]"""
    folder = RunFolder(tmp_path, "A")
    assert folder.control_interface(NAME) == tmp_path / "A_io/web.abc/control_interface"
    assert folder.files(NAME) == tmp_path / "A_io/web.abc/files"


def test_the_default_folder_is_writable_by_all_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "new/tmp"))
    base = default_run_folder()
    assert base == tmp_path / "new/tmp/ankaios"
    RunFolder(base, "A").prepare()
    assert stat.S_IMODE(base.stat().st_mode) == 0o1777
    RunFolder(base, "A").prepare()
    assert (base / "A_io").is_dir()
    monkeypatch.delenv("TMPDIR")
    assert default_run_folder() == Path("/tmp/ankaios")


def test_another_folder_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(StartupFailed, match="does not exist, create it first"):
        RunFolder(missing, "A").prepare()
    (tmp_path / "A_io").write_text("in the way")
    with pytest.raises(StartupFailed, match="A_io' is not a folder, remove it or choose another folder"):
        RunFolder(tmp_path, "A").prepare()


def test_only_the_folder_of_the_instance_is_removed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "A")
    folder.files(NAME).mkdir(parents=True)
    folder.remove_files(NAME)
    assert not folder.of(NAME).exists()
    folder.control_interface(NAME).mkdir(parents=True)
    folder.files(NAME).mkdir()
    folder.remove_files(NAME)
    assert folder.control_interface(NAME).exists()
    assert not folder.files(NAME).exists()
    folder.remove(NAME)
    folder.remove(NAME)
    assert not folder.of(NAME).exists()


@pytest.mark.parametrize("workload", ["/missing/", "..", "../web", "", "we b", "web/x"])
def test_a_name_outside_of_the_run_folder_is_rejected_and_removes_nothing(tmp_path: Path, workload: str) -> None:
    folder = RunFolder(tmp_path, "A")
    folder.prepare()
    for name in (InstanceName(workload, "", "A"), InstanceName("web", "/../../outside", "A")):
        with pytest.raises(Rejected, match="not a valid name of a workload instance"):
            folder.of(name)
        folder.remove(name)
        folder.remove_files(name)
    assert [path.name for path in tmp_path.iterdir()] == ["A_io"]


def test_a_link_in_place_of_the_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "A_io").symlink_to("elsewhere")
    with pytest.raises(StartupFailed, match="A_io' is a symbolic link, remove it or choose another folder"):
        RunFolder(tmp_path, "A").prepare()


def test_a_folder_of_another_user_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "A_io").mkdir()
    monkeypatch.setattr("ankaios.agent.run_folder.untrusted_part", lambda _: None)
    monkeypatch.setattr(os, "geteuid", lambda: (tmp_path / "A_io").stat().st_uid + 1)
    with pytest.raises(StartupFailed, match=r"A_io' belongs to another user .*, remove it or choose another folder"):
        RunFolder(tmp_path, "A").prepare()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of other users")
@pytest.mark.parametrize("theirs", ["tmp", "tmp/ankaios"])
def test_a_run_folder_that_another_user_can_replace_is_rejected(
    tmp_path: Path, theirs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That user could later replace folders in it and send requests in the name of any workload."""
    base = tmp_path / "tmp/ankaios"
    base.mkdir(parents=True)
    base.chmod(0o1777)
    os.chown(tmp_path / theirs, NOBODY, NOBODY)
    advice = "remove it or choose a folder of root or of this user with --run-folder"
    for temporary in ("/nowhere", str(tmp_path / "tmp")):  # a configured folder, and the default folder
        monkeypatch.setenv("TMPDIR", temporary)
        with pytest.raises(StartupFailed) as failure:
            RunFolder(base, "A").prepare()
        assert f"'{tmp_path / theirs}' belongs to another user (id {NOBODY})" in failure.value.reason
        assert advice in failure.value.reason
        assert not (base / "A_io").exists()


def test_a_run_folder_in_which_all_users_may_rename_is_rejected(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(StartupFailed, match=rf"run 'chmod go-w {tmp_path}' or choose another folder with --run-folder"):
        RunFolder(tmp_path, "A").prepare()


def test_the_default_folder_of_an_older_agent_gets_the_sticky_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    base = default_run_folder()
    base.mkdir()
    base.chmod(0o777)
    RunFolder(base, "A").prepare()
    assert mode_of(base) == 0o1777


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_folder_of_an_instance_is_private_with_any_umask(tmp_path: Path, mask: int) -> None:
    folder = RunFolder(tmp_path, "A")
    before = os.umask(mask)
    try:
        folder.prepare()
        folder.make(NAME)
    finally:
        os.umask(before)
    assert (mode_of(folder.path), mode_of(folder.of(NAME))) == (0o711, 0o700)
    folder.of(NAME).chmod(0o755)  # the mode that older agents set
    folder.path.chmod(0o777)
    folder.prepare()
    folder.make(NAME)
    assert (mode_of(folder.path), mode_of(folder.of(NAME))) == (0o711, 0o700)


def test_a_traversable_folder_stays_traversable_after_a_restart_of_the_agent(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "A")
    folder.prepare()
    folder.make(NAME).chmod(0o711)
    folder.make(NAME)
    assert mode_of(folder.of(NAME)) == 0o711


def test_a_file_in_place_of_the_folder_of_an_instance_is_not_used(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "A")
    folder.prepare()
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    folder.of(NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="is a symbolic link"):
        folder.make(NAME)
    assert mode_of(tmp_path / "elsewhere") == 0o755
    folder.of(NAME).unlink()
    folder.of(NAME).touch()
    with pytest.raises(OSError, match="is not a folder"):
        folder.make(NAME)


def test_a_large_folder_is_moved_to_the_trash_immediately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.agent.run_folder.remove_tree", lambda _: False)
    folder = RunFolder(tmp_path, "A")
    folder.files(NAME).mkdir(parents=True)
    folder.remove(NAME)
    assert not folder.of(NAME).exists()


async def test_two_agents_of_one_name_do_not_run_at_the_same_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ankaios.agent.run_folder.LOCK_POLL", 0.0)
    first, second, other = RunFolder(tmp_path, "A"), RunFolder(tmp_path, "A"), RunFolder(tmp_path, "B")
    for folder in (first, second, other):
        folder.prepare()
    assert not await first.lock()
    assert not await other.lock()
    waiting = asyncio.create_task(second.lock())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert caplog.messages == [f"another agent works in '{tmp_path / 'A_io'}', waiting until it has ended"]
    first.unlock()
    async with asyncio.timeout(5):
        assert await waiting
    second.unlock()
    second.unlock()
    other.unlock()


async def test_folders_that_an_earlier_agent_did_not_remove_are_removed_after_its_end(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path, "A"), RunFolder(tmp_path, "A")
    first.prepare()
    await first.lock()
    old = tmp_path / "A_io/removed/old"
    old.mkdir(parents=True)
    second.prepare()
    waiting = asyncio.create_task(second.lock())
    await asyncio.sleep(0)
    assert old.exists()
    first.unlock()
    async with asyncio.timeout(60):
        assert await waiting
        while old.parent.exists():  # noqa: ASYNC110 - a thread does it
            await asyncio.sleep(0.001)
    second.unlock()


async def test_a_file_system_without_locks_is_supported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(_folder: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    folder = RunFolder(tmp_path, "A")
    folder.prepare()
    await folder.lock()
    folder.unlock()
    assert "No locks available" in caplog.text
