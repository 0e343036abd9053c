import socket
import stat
import tempfile
from pathlib import Path

import pytest

from ankaios.common.errors import Unavailable
from ankaios.devices.plugin_folder import bind_plugin_socket, open_plugin_folder, short_folder
from tests.support.short_paths import short_path  # noqa: F401


def test_only_the_owner_may_register(short_path: Path) -> None:  # noqa: F811
    with open_plugin_folder(short_path / "plugins"):
        assert stat.S_IMODE((short_path / "plugins" / "kubelet.sock").stat().st_mode) == 0o600
        assert stat.S_IMODE((short_path / "plugins").stat().st_mode) == 0o700


def test_files_that_other_threads_write_meanwhile_keep_their_modes(
    short_path: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The umask belongs to all threads, so it is not changed; no client can connect before the mode is set."""
    monkeypatch.setattr("os.umask", lambda mask: pytest.fail("the umask was changed"))
    with bind_plugin_socket(short_path / "a.sock") as sock:
        assert stat.S_IMODE((short_path / "a.sock").stat().st_mode) == 0o600
        assert not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)


def test_an_earlier_socket_is_replaced(short_path: Path) -> None:  # noqa: F811
    open_plugin_folder(short_path).close()
    open_plugin_folder(short_path).close()


def test_a_folder_too_deep_for_sockets_is_replaced(short_path: Path) -> None:  # noqa: F811
    assert short_folder(Path("/run/x")) == Path("/run/x")
    deep = Path("/tmp") / ("d" * 90)
    short = short_folder(deep)
    assert short != deep
    assert short == short_folder(deep)
    with pytest.raises(Unavailable, match="longer than 107"):
        bind_plugin_socket(deep / "kubelet.sock")


def test_a_deep_folder_for_temporary_files_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", f"/tmp/{'t' * 60}")
    assert short_folder(Path("/tmp") / ("d" * 90)).parent == Path("/tmp")


def test_a_folder_of_another_user_is_not_used(short_path: Path) -> None:  # noqa: F811
    (short_path / "theirs").mkdir()
    (short_path / "plugins").symlink_to(short_path / "theirs")
    with pytest.raises(Unavailable, match=r"cannot use the plugin folder .* Not a directory"):
        open_plugin_folder(short_path / "plugins")
    (short_path / "open").mkdir()
    (short_path / "open").chmod(0o777)
    with pytest.raises(Unavailable, match="every user could replace everything in it"):
        open_plugin_folder(short_path / "open/plugins")
    assert not (short_path / "open/plugins").exists()


def test_a_folder_that_cannot_be_used_is_reported(short_path: Path) -> None:  # noqa: F811
    (short_path / "file").touch()
    with pytest.raises(Unavailable, match="cannot use the plugin folder"):
        open_plugin_folder(short_path / "file" / "plugins")
    with pytest.raises(Unavailable, match="cannot listen"):
        bind_plugin_socket(short_path / "missing" / "kubelet.sock")


def test_a_folder_without_a_listening_socket_is_removed(short_path: Path) -> None:  # noqa: F811
    folder = short_path / ("x" * 100)
    with pytest.raises(Unavailable, match="longer than 107"):
        open_plugin_folder(folder)
    assert not folder.exists()
