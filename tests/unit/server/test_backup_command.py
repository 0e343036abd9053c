from pathlib import Path

import pytest

from ankaios.server import settings
from ankaios.server.__main__ import main
from ankaios.storage.sqlite.sqlite_store import SqliteStore


@pytest.fixture(autouse=True)
def no_outside_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ANKSERVER_STORAGE", raising=False)
    monkeypatch.setattr(settings, "DEFAULT_CONFIG_FILE", tmp_path / "default.conf")


async def test_the_state_is_copied_while_it_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = SqliteStore(tmp_path / "state.db")
    await store.load()
    target = tmp_path / "backup.db"
    assert main(["backup", str(target), "--storage", f"sqlite:{tmp_path}/state.db"]) == 0
    assert capsys.readouterr().out == f"Stored revision 0 of '{tmp_path}/state.db' in '{target}'.\n"
    await store.close()
    copy = SqliteStore(target)
    assert (await copy.load()).report is None
    await copy.close()


def test_the_storage_is_found_in_the_config_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "server.conf"
    config.write_text(f"version = 'v1'\nstorage = 'sqlite:{tmp_path}/missing.db'")
    assert main(["backup", str(tmp_path / "backup.db"), "-x", str(config)]) == 1
    assert f"cannot back up '{tmp_path}/missing.db': there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("memory:", "nothing is stored: name the storage of the server with --storage or --server-config"),
        ("etcd://h:1,g:2/p", "etcdctl --endpoints h:1,g:2 snapshot save"),
        ("nonsense", "invalid storage URL 'nonsense'"),
    ],
)
def test_a_failed_copy_is_explained(url: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backup", "file", "--storage", url]) == 1
    assert reason in capsys.readouterr().err
