import stat
from pathlib import Path

import pytest

from ankaios.agent.run_folder import RunFolder, default_run_folder
from ankaios.common.errors import StartupFailed
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
    assert stat.S_IMODE(base.stat().st_mode) == 0o777
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
