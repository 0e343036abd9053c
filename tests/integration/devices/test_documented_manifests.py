"""The manifests of the page about brokers, each with its discovery handler: the documented devices are discovered.

The server inserts configuration items into the configurations, and the agent reads files. Only addresses
and paths of the page are replaced. USB and PCI devices are a tree in memory, the OPC UA server is a real one.
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import yaml

from ankaios.common.device_grant import DeviceNode
from ankaios.common.model.state import DEVICE_CONFIGURATION
from ankaios.devices.core.configuration import configuration_from_pb
from ankaios.devices.core.discovered_device import Devices
from ankaios.devices.discovery.base import DiscoveryHandler
from ankaios.devices.discovery.onvif.handler import OnvifHandler
from ankaios.devices.discovery.opcua.handler import OpcuaHandler
from ankaios.devices.discovery.udev.handler import UdevHandler
from ankaios.devices.discovery.udev.rules import UdevDevice
from ankaios.devices.discovery_runner import read_properties
from ankaios.server.core.device_directory import DeviceDirectory
from tests.integration.devices.onvif_camera import FakeCamera, running
from tests.integration.devices.test_discovery_opcua import free_port, thermometer
from tests.unit.devices.discovery.test_udev import FakeTree

PAGE = Path(__file__).resolve().parents[3] / "docs/tutorials/brokers.md"
HUB = UdevDevice("/devices/pci0000:00/0000:00:14.0/usb1", "usb1", "usb")
CAMERA = UdevDevice(
    f"{HUB.devpath}/1-1",
    "1-1",
    "usb",
    devnode="/dev/bus/usb/001/004",
    parent=HUB,
    attributes={"idVendor": "046d", "idProduct": "0825"},
)
VIDEO = [
    UdevDevice(
        f"{CAMERA.devpath}/1-1:1.0/video4linux/video{number}",
        f"video{number}",
        "video4linux",
        devnode=f"/dev/video{number}",
        parent=CAMERA,
    )
    for number in (0, 1)
]
CARD = UdevDevice(
    "/devices/pci0000:00/0000:01:00.0", "0000:01:00.0", "pci", attributes={"vendor": "0x10de"}, iommu_group="12"
)


def manifest_with(configuration: str, **replaced: str) -> dict[str, Any]:
    """The manifest of the page that has this device configuration."""
    for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S):
        for old, new in replaced.items():
            block = block.replace(PLACES[old], new)
        manifest: dict[str, Any] = yaml.safe_load(block)
        if configuration in manifest.get("deviceConfigurations", {}):
            return manifest
    raise AssertionError(f"the page has no manifest with '{configuration}'")


PLACES = {"secret": "/etc/ankaios/secrets/onvif", "plc": "opc.tcp://plc.local:4840/"}


async def discovered(manifest: Mapping[str, Any], name: str, handler: DiscoveryHandler) -> Devices:
    """The first list of devices, as the agent `node` requests it."""
    directory = DeviceDirectory(config_of=manifest.get("configs", {}).get)
    directory.configure({name: DEVICE_CONFIGURATION.from_form(manifest["deviceConfigurations"][name])})
    (sent,) = directory.hello("node", {}, True).messages
    message = sent.message.deviceUpdate.configurations.deviceConfigurations[name]
    configuration = configuration_from_pb(name, message)
    assert configuration.handler == handler.name
    async with (
        asyncio.timeout(60),
        aclosing(handler.discover(configuration.details, read_properties(configuration))) as lists,
    ):
        return await anext(lists)


async def test_the_nodes_of_a_usb_camera_are_one_device_that_can_be_read_and_written() -> None:
    tree = FakeTree(HUB, CAMERA, *VIDEO)
    (device,) = await discovered(manifest_with("usb-camera"), "usb-camera", UdevHandler(tree.open))
    assert device.id == CAMERA.devpath
    nodes = ["/dev/bus/usb/001/004", "/dev/video0", "/dev/video1"]
    assert device.device_specs == tuple(DeviceNode(node, node, "rw") for node in nodes)


async def test_requests_to_a_network_camera_contain_the_user_and_password(tmp_path: Path) -> None:
    secret = tmp_path / "onvif"
    secret.write_text("sesame\n")
    camera = FakeCamera(password="sesame")
    manifest = manifest_with("ip-camera", secret=str(secret))
    async with running(camera) as port:
        handler = OnvifHandler(poll_seconds=0.05, interface="lo", port=port, second=0.2)
        (device,) = await discovered(manifest, "ip-camera", handler)
    assert device.properties["ONVIF_DEVICE_MAC_ADDRESS"] == "00:11:22:33:44:55"


async def test_an_opc_ua_server_is_found() -> None:
    port = free_port()
    async with thermometer(port) as url:
        manifest = manifest_with("plc", plc=f"opc.tcp://127.0.0.1:{port}/")
        (device,) = await discovered(manifest, "plc", OpcuaHandler(poll_seconds=0.1))
    assert device.properties == {"OPCUA_DISCOVERY_URL": url}


async def test_a_pci_card_has_the_nodes_for_its_passthrough() -> None:
    manifest = manifest_with("accelerator")
    (device,) = await discovered(manifest, "accelerator", UdevHandler(FakeTree(HUB, CARD).open))
    assert [node.host_path for node in device.device_specs] == ["/dev/vfio/12", "/dev/vfio/vfio"]
