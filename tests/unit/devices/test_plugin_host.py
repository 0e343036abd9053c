"""Plugins that are offered, and what becomes of them when the folder changes."""

from pathlib import Path

from ankaios.devices.core.node_devices import NodeDevices
from ankaios.devices.kubelet_registration import PluginHost
from ankaios.devices.plugin_folder import KUBELET_SOCKET
from ankaios.devices.plugin_service import ConfigurationDevicePlugin
from ankaios.devices.server_slots import ServerSlots
from ankaios.devices.slot_office import SlotOffice


def a_host(folder: Path) -> PluginHost:
    """With one plugin that listens at `cam.sock`."""
    office = SlotOffice(NodeDevices("node-a"), ServerSlots(lambda message: None), lambda touched: None)
    host = PluginHost(folder, watches=True)
    host.add(ConfigurationDevicePlugin(office, "cam"))
    host._sockets["cam.sock"] = "akri.sh/cam"
    return host


async def test_the_socket_of_a_plugin_that_says_farewell_may_be_deleted(tmp_path: Path) -> None:
    """As a kubelet does when it restarts: the plugin ends anyway, and all others live on."""
    host = a_host(tmp_path)
    host.remove("akri.sh/cam")
    host._noticed("cam.sock", exists=False)
    host._noticed("of somebody else", exists=False)
    host._noticed(KUBELET_SOCKET, exists=True)
    assert "akri.sh/cam" not in host
