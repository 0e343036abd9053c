"""Plugins that are offered to a kubelet, and what happens to them when its folder changes."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ankaios.common import supervision
from ankaios.devices.kubelet_plugins import ConfigurationDevicePlugin
from ankaios.devices.kubelet_registration import PluginHost, created
from ankaios.devices.plugin_folder import KUBELET_SOCKET
from tests.support.bugs import FailsOnce
from tests.support.short_paths import short_path  # noqa: F401
from tests.support.waiting import until
from tests.unit.devices.nodes import UnwrittenPodClaims, a_node, an_allocator


@pytest.fixture
async def host(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PluginHost]:  # noqa: F811
    """A host with one plugin, in a folder without a kubelet."""
    monkeypatch.setattr("ankaios.devices.kubelet_registration.POLL_SECONDS", 0.01)
    node = a_node()
    host = PluginHost(short_path)
    host.add(ConfigurationDevicePlugin(node, an_allocator(node), UnwrittenPodClaims(node), "cam"))
    running = asyncio.create_task(host.run())
    await until(lambda: bool(sockets(host)))
    yield host
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def sockets(host: PluginHost) -> set[str]:
    return {path.name for path in host._folder.iterdir()} - {KUBELET_SOCKET}


async def test_a_deleted_socket_is_replaced_by_a_fresh_one(host: PluginHost) -> None:
    (name,) = sockets(host)
    (host._folder / name).unlink()
    await until(lambda: bool(sockets(host)))
    assert name not in sockets(host)


async def test_another_registration_socket_means_that_the_kubelet_has_restarted(host: PluginHost) -> None:
    (name,) = sockets(host)
    (host._folder / KUBELET_SOCKET).touch()
    await until(lambda: bool(sockets(host)) and name not in sockets(host))


async def test_the_socket_of_a_plugin_that_is_ending_may_be_deleted(host: PluginHost) -> None:
    """A kubelet that restarts deletes sockets: the plugin ends, and all others continue."""
    (name,) = sockets(host)
    host.remove("akri.sh/cam")
    (host._folder / name).unlink()
    (host._folder / KUBELET_SOCKET).touch()
    await asyncio.sleep(0.05)
    assert sockets(host) == set()
    assert "akri.sh/cam" not in host


async def test_an_internal_error_in_one_plugin_is_logged_and_the_plugin_is_started_again(
    host: PluginHost, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervision, "FIRST_DELAY", 0.001)
    monkeypatch.setattr(host, "_register", FailsOnce(host._register))
    (name,) = sockets(host)
    (host._folder / name).unlink()
    await until(lambda: "internal error in the device plugin 'akri.sh/cam'" in caplog.text)
    await until(lambda: bool(sockets(host)))


def test_a_file_that_does_not_exist_was_never_created(tmp_path: Path) -> None:
    assert created(tmp_path / "missing") == 0
    (tmp_path / "file").touch()
    assert created(tmp_path / "file") > 0


async def test_sockets_of_an_earlier_agent_are_removed_at_the_start(short_path: Path) -> None:  # noqa: F811
    """Sockets in use and files of other programs are kept."""
    left = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(2)]
    for number, one in enumerate(left):
        one.bind(str(short_path / f"akri-old-{number}.sock"))
    left[1].listen()
    (short_path / "akri-note.sock").write_text("no socket")
    host = PluginHost(short_path)
    running = asyncio.create_task(host.run())
    await until(lambda: not (short_path / "akri-old-0.sock").exists())
    assert sockets(host) == {"akri-old-1.sock", "akri-note.sock"}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    for one in left:
        one.close()
