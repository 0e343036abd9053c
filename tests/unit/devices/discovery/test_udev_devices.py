"""From matches to devices: nodes, groups and passthrough."""

import pytest

from ankaios.common.device_grant import DeviceNode
from ankaios.devices.discovery.base import InvalidDetails
from ankaios.devices.discovery.details import read_details
from ankaios.devices.discovery.udev.devices import UdevDetails, UdevOptions, read_options, to_devices
from ankaios.devices.discovery.udev.rules import UdevDevice

PCI = UdevDevice("/devices/pci0000:00/0000:00:14.0", "0000:00:14.0", "pci", iommu_group="7")
PORT = UdevDevice(PCI.devpath + "/usb1/1-1", "1-1", "usb", devnode="/dev/bus/usb/001/010", parent=PCI)
SOUND = UdevDevice(PORT.devpath + "/sound/card0", "card0", "sound", parent=PORT)
VIDEO = UdevDevice(PORT.devpath + "/video4linux/video0", "video0", devnode="/dev/video0", parent=PORT)
NEIGHBOUR = UdevDevice(PCI.devpath + "/usb1/1-10", "1-10", "usb", devnode="/dev/bus/usb/001/011", parent=PCI)
DISK = UdevDevice(
    "/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0",
    "nvme0",
    devnode="/dev/nvme0",
    parent=UdevDevice("/devices/pci0000:00/0000:00:01.0/0000:01:00.0", "0000:01:00.0", iommu_group="12"),
)


def test_a_device_is_named_by_its_path_and_has_its_node() -> None:
    (device,) = to_devices([VIDEO], UdevOptions(permissions="rw"))
    assert device.id == VIDEO.devpath
    assert device.properties == {"UDEV_DEVPATH": VIDEO.devpath, "UDEV_DEVNODE": "/dev/video0"}
    assert device.device_specs == (DeviceNode("/dev/video0", "/dev/video0", "rw"),)
    assert device.mounts == ()


def test_a_match_without_node_is_used_through_the_nearest_ancestor_with_one() -> None:
    (device,) = to_devices([SOUND, PORT], UdevOptions())
    assert device.id == PORT.devpath
    assert device.properties["UDEV_DEVNODE"] == "/dev/bus/usb/001/010"


def test_a_match_without_any_node_is_its_own_device() -> None:
    (device,) = to_devices([PCI], UdevOptions())
    assert (device.id, device.properties, device.device_specs) == (PCI.devpath, {"UDEV_DEVPATH": PCI.devpath}, ())


def test_without_grouping_each_match_is_a_device() -> None:
    assert [device.id for device in to_devices([VIDEO, PORT], UdevOptions())] == [PORT.devpath, VIDEO.devpath]


def test_grouping_joins_descendants_of_a_match_but_no_sibling_with_a_similar_name() -> None:
    grouped, neighbour = to_devices([VIDEO, NEIGHBOUR, PORT], UdevOptions(group_recursive=True))
    assert grouped.id == PORT.devpath
    assert grouped.properties == {
        "UDEV_DEVPATH": PORT.devpath,
        "UDEV_DEVNODE_0": "/dev/bus/usb/001/010",
        "UDEV_DEVNODE_1": "/dev/video0",
    }
    assert [spec.host_path for spec in grouped.device_specs] == ["/dev/bus/usb/001/010", "/dev/video0"]
    assert neighbour.properties == {"UDEV_DEVPATH": NEIGHBOUR.devpath, "UDEV_DEVNODE_0": "/dev/bus/usb/001/011"}


def test_a_usb_device_has_bus_and_number_for_a_passthrough_plugin() -> None:
    (device,) = to_devices([PORT], UdevOptions(resource_name="akri.sh/udev-usb-mouse", vfio_passthrough=True))
    assert device.properties["USB_RESOURCE_AKRI_SH_UDEV-USB-MOUSE"] == "1:10"
    assert [spec.host_path for spec in device.device_specs] == ["/dev/bus/usb/001/010"]


def test_another_device_has_its_last_pci_address_and_its_vfio_group() -> None:
    (device,) = to_devices([DISK], UdevOptions(resource_name="akri.sh/disk", vfio_passthrough=True, permissions="r"))
    assert device.properties["PCI_RESOURCE_AKRI_SH_DISK"] == "0000:01:00.0"
    assert device.device_specs == (
        DeviceNode("/dev/nvme0", "/dev/nvme0", "r"),
        DeviceNode("/dev/vfio/12", "/dev/vfio/12", "rwm"),
        DeviceNode("/dev/vfio/vfio", "/dev/vfio/vfio", "rwm"),
    )


def test_a_virtual_device_has_nothing_to_pass_through() -> None:
    virtual = UdevDevice("/devices/virtual/block/loop0", "loop0", devnode="/dev/loop0")
    (device,) = to_devices([virtual], UdevOptions(resource_name="akri.sh/x", vfio_passthrough=True))
    assert set(device.properties) == {"UDEV_DEVPATH", "UDEV_DEVNODE"}
    assert len(device.device_specs) == 1


def details_of(text: str) -> UdevDetails:
    return read_details("udev", f"udevRules: []\n{text}", UdevDetails)


def test_options_come_from_details_and_properties() -> None:
    details = details_of("groupRecursive: true\npermissions: rw\n")
    properties = {"devicePluginResourceName": b"akri.sh/x", "vfioPassthrough": b"true"}
    assert read_options(details, properties) == UdevOptions(True, "rw", "akri.sh/x", True)
    assert read_options(details_of(""), {"vfioPassthrough": None}) == UdevOptions()


@pytest.mark.parametrize("text", ["permissions: rx", "permissions: mr", "groupRecursive: 1"])
def test_invalid_options_are_rejected(text: str) -> None:
    with pytest.raises(InvalidDetails):
        read_options(details_of(text), {})


def test_a_property_that_is_no_text_is_rejected() -> None:
    with pytest.raises(InvalidDetails, match="'devicePluginResourceName'"):
        read_options(details_of(""), {"devicePluginResourceName": b"\xff"})
