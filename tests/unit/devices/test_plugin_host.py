"""Plugins that are offered to a kubelet, and what happens to them when its folder changes."""

from pathlib import Path

from ankaios.devices.kubelet_plugins import KubeletPlugins
from ankaios.devices.kubelet_registration import PluginHost
from ankaios.devices.plugin_folder import KUBELET_SOCKET
from ankaios.devices.plugin_service import ConfigurationDevicePlugin
from tests.unit.devices.nodes import a_node, an_allocator


def a_host(folder: Path) -> PluginHost:
    """With one plugin that listens at `cam.sock`."""
    node = a_node()
    host = PluginHost(folder)
    host.add(ConfigurationDevicePlugin(KubeletPlugins(node, an_allocator(node), folder), "cam"))
    host._sockets["cam.sock"] = "akri.sh/cam"
    return host


async def test_the_socket_of_a_plugin_that_is_ending_may_be_deleted(tmp_path: Path) -> None:
    """As a kubelet does when it restarts: the plugin ends anyway, and all others continue."""
    host = a_host(tmp_path)
    host.remove("akri.sh/cam")
    host._noticed("cam.sock", exists=False)
    host._noticed("unknown.sock", exists=False)
    host._noticed(KUBELET_SOCKET, exists=True)
    assert "akri.sh/cam" not in host
