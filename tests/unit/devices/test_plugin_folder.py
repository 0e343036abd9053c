import asyncio
import os
import stat
from pathlib import Path

import pytest

from ankaios.common.errors import Unavailable
from ankaios.devices.folder_watch import FolderGone, FolderWatch
from ankaios.devices.plugin_folder import bind, open_plugin_folder, short_folder
from tests.integration.devices.short_paths import short_path  # noqa: F401


def test_only_the_owner_may_register(short_path: Path) -> None:  # noqa: F811
    with open_plugin_folder(short_path / "plugins"):
        assert stat.S_IMODE((short_path / "plugins" / "kubelet.sock").stat().st_mode) == 0o600
        assert stat.S_IMODE((short_path / "plugins").stat().st_mode) == 0o700


def test_an_earlier_socket_makes_way(short_path: Path) -> None:  # noqa: F811
    open_plugin_folder(short_path).close()
    open_plugin_folder(short_path).close()


def test_a_folder_too_deep_for_sockets_is_replaced(short_path: Path) -> None:  # noqa: F811
    assert short_folder(Path("/run/x")) == Path("/run/x")
    deep = Path("/tmp") / ("d" * 90)
    short = short_folder(deep)
    assert short != deep
    assert short == short_folder(deep)
    with pytest.raises(Unavailable, match="longer than 107"):
        bind(deep / "kubelet.sock")


def test_a_folder_of_somebody_else_is_not_used(short_path: Path) -> None:  # noqa: F811
    (short_path / "theirs").mkdir()
    (short_path / "plugins").symlink_to(short_path / "theirs")
    with pytest.raises(Unavailable, match="belongs to somebody else"):
        open_plugin_folder(short_path / "plugins")


def test_a_folder_that_cannot_be_used_is_said(short_path: Path) -> None:  # noqa: F811
    (short_path / "file").touch()
    with pytest.raises(Unavailable, match="cannot use the plugin folder"):
        open_plugin_folder(short_path / "file" / "plugins")
    with pytest.raises(Unavailable, match="cannot listen"):
        bind(short_path / "missing" / "kubelet.sock")


async def test_files_that_come_and_go_are_told(short_path: Path) -> None:  # noqa: F811
    async with asyncio.timeout(10), FolderWatch(short_path) as watch:
        (short_path / "a").touch()
        assert await watch.next() == ("a", True)
        (short_path / "a").unlink()
        assert await watch.next() == ("a", False)
        os.rename(short_path.parent / short_path.name, short_path.parent / "moved")
        with pytest.raises(FolderGone):
            await watch.next()


async def test_a_folder_that_does_not_exist_cannot_be_watched(short_path: Path) -> None:  # noqa: F811
    with pytest.raises(FileNotFoundError):
        async with FolderWatch(short_path / "missing"):
            pass
