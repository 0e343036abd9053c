"""Converts matching kernel devices to discovered devices.

Input: matches, and the options of the configuration for grouping, permissions and passthrough. Output: discovered
devices. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from ankaios.common.device_grant import DeviceNode
from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.discovery.base import Properties, in_order
from ankaios.devices.discovery.details import text_property
from ankaios.devices.discovery.udev.rules import UdevDevice

_USB_NODE = re.compile(r"/dev/bus/usb/(\d+)/(\d+)")
_PCI_ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")


class UdevDetails(Struct, frozen=True, rename="camel"):
    """The discovery details of a configuration."""

    udev_rules: tuple[str, ...]
    group_recursive: bool = False
    permissions: Literal["r", "w", "m", "rw", "rm", "rwm", "wm"] = "rwm"


class UdevOptions(Struct, frozen=True):
    group_recursive: bool = False
    permissions: str = "rwm"
    resource_name: str | None = None
    vfio_passthrough: bool = False


def read_options(details: UdevDetails, properties: Properties) -> UdevOptions:
    return UdevOptions(
        group_recursive=details.group_recursive,
        permissions=details.permissions,
        resource_name=text_property(properties, "devicePluginResourceName") or None,
        vfio_passthrough=text_property(properties, "vfioPassthrough") == "true",
    )


def to_devices(matches: Iterable[UdevDevice], options: UdevOptions) -> Devices:
    """One device for each match, or one for each tree of matches if the configuration groups them."""
    found = {device.devpath: device for device in map(with_node, matches)}
    groups = path_trees(found) if options.group_recursive else [[path] for path in found]
    return in_order({group[0]: _device([found[path] for path in group], options) for group in groups})


def with_node(device: UdevDevice) -> UdevDevice:
    """The nearest ancestor with a device node, or the device itself if there is none."""
    return next((one for one in device.chain() if one.devnode), device)


def is_below(path: str, top: str) -> bool:
    """Whole path components are compared, so that USB port 1-1 does not include its neighbour 1-10."""
    return path == top or path.startswith(top + "/")


def path_trees(paths: Iterable[str]) -> list[list[str]]:
    """Each path with all paths below it; the topmost one comes first."""
    trees: list[list[str]] = []
    for path in sorted(paths, key=lambda one: one.split("/")):
        if trees and is_below(path, trees[-1][0]):
            trees[-1].append(path)
        else:
            trees.append([path])
    return trees


def _device(group: Sequence[UdevDevice], options: UdevOptions) -> DiscoveredDevice:
    top = group[0]
    nodes = [device.devnode for device in group if device.devnode]
    properties = {"UDEV_DEVPATH": top.devpath}
    for number, node in enumerate(nodes):
        properties[f"UDEV_DEVNODE_{number}" if options.group_recursive else "UDEV_DEVNODE"] = node
    specs = [DeviceNode(node, node, options.permissions) for node in nodes]
    usb = next(filter(None, map(_USB_NODE.fullmatch, nodes)), None)
    if options.resource_name is not None:
        properties |= _passthrough(options.resource_name, usb, top.devpath)
    if options.vfio_passthrough and usb is None:
        specs += _vfio_nodes(top)
    return DiscoveredDevice(top.devpath, properties, device_specs=tuple(specs))


def _passthrough(resource: str, usb: re.Match[str] | None, devpath: str) -> dict[str, str]:
    """Properties that tell device plugins for virtual machines which device to pass through."""
    suffix = resource.upper().replace(".", "_").replace("/", "_")
    if usb is not None:
        return {f"USB_RESOURCE_{suffix}": f"{int(usb[1])}:{int(usb[2])}"}
    addresses = _PCI_ADDRESS.findall(devpath)
    return {f"PCI_RESOURCE_{suffix}": addresses[-1]} if addresses else {}


def _vfio_nodes(device: UdevDevice) -> list[DeviceNode]:
    group = next((one.iommu_group for one in device.chain() if one.iommu_group), None)
    if group is None:
        return []
    return [DeviceNode(node, node, "rwm") for node in (f"/dev/vfio/{group}", "/dev/vfio/vfio")]
