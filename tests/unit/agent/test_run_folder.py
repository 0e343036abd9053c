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


def test_paths(tmp_path: Path) -> None:
    """[utest->swdd~agent-control-interface-pipes-path-naming~1]"""
    folder = RunFolder(tmp_path, "A")
    assert folder.control_interface(NAME) == tmp_path / "A_io/web.abc/control_interface"
    assert folder.files(NAME) == tmp_path / "A_io/web.abc/files"


def test_the_default_folder_is_made_for_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "new/tmp"))
    base = default_run_folder()
    assert base == tmp_path / "new/tmp/ankaios"
    RunFolder(base, "A").prepare(base)
    assert stat.S_IMODE(base.stat().st_mode) == 0o1777
    RunFolder(base, "A").prepare(base)
    assert (base / "A_io").is_dir()
    monkeypatch.delenv("TMPDIR")
    assert default_run_folder() == Path("/tmp/ankaios")


def test_another_folder_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(StartupFailed, match="does not exist, create it first"):
        RunFolder(missing, "A").prepare(missing)
    (tmp_path / "A_io").write_text("in the way")
    with pytest.raises(StartupFailed, match="cannot create"):
        RunFolder(tmp_path, "A").prepare(tmp_path)


def test_only_what_belongs_to_the_instance_is_removed(tmp_path: Path) -> None:
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
def test_a_name_that_leads_elsewhere_is_refused_and_removes_nothing(tmp_path: Path, workload: str) -> None:
    folder = RunFolder(tmp_path, "A")
    folder.prepare(tmp_path)
    for name in (InstanceName(workload, "", "A"), InstanceName("web", "/../../victim", "A")):
        with pytest.raises(Rejected, match="no name of a workload instance"):
            folder.of(name)
        folder.remove(name)
        folder.remove_files(name)
    assert [path.name for path in tmp_path.iterdir()] == ["A_io"]


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "A_io").symlink_to("elsewhere")
    with pytest.raises(StartupFailed, match="A_io' is a symbolic link, remove it or choose another folder"):
        RunFolder(tmp_path, "A").prepare(tmp_path)


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "A_io").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: (tmp_path / "A_io").stat().st_uid + 1)
    with pytest.raises(StartupFailed, match=r"A_io' belongs to another user .*, remove it or choose another folder"):
        RunFolder(tmp_path, "A").prepare(tmp_path)


def test_what_takes_long_to_remove_is_out_of_the_way_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.agent.run_folder.remove_tree", lambda _: False)
    folder = RunFolder(tmp_path, "A")
    folder.files(NAME).mkdir(parents=True)
    folder.remove(NAME)
    assert not folder.of(NAME).exists()


async def test_two_agents_of_one_name_do_not_work_at_the_same_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ankaios.agent.run_folder.LOOK_AGAIN", 0.0)
    first, second, other = RunFolder(tmp_path, "A"), RunFolder(tmp_path, "A"), RunFolder(tmp_path, "B")
    for folder in (first, second, other):
        folder.prepare(tmp_path)
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


async def test_what_an_earlier_agent_had_no_time_to_remove_goes_once_this_one_is_alone(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path, "A"), RunFolder(tmp_path, "A")
    first.prepare(tmp_path)
    await first.lock()
    old = tmp_path / "A_io/removed/old"
    old.mkdir(parents=True)
    second.prepare(tmp_path)
    waiting = asyncio.create_task(second.lock())
    await asyncio.sleep(0)
    assert old.exists()
    first.unlock()
    async with asyncio.timeout(60):
        assert await waiting
        while old.parent.exists():  # noqa: ASYNC110 - a thread does it
            await asyncio.sleep(0.001)
    second.unlock()


async def test_a_file_system_without_locks_is_used_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(_folder: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    folder = RunFolder(tmp_path, "A")
    folder.prepare(tmp_path)
    await folder.lock()
    folder.unlock()
    assert "No locks available" in caplog.text
