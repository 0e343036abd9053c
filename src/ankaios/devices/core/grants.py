"""What a container receives with its devices.

Input: the devices of one container. Output: environment, mounts, device nodes and annotations, and the content of the
devices file. Grants of several plugins for one container are merged as a kubelet merges them.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field

from ankaios.common.device_grant import DeviceGrant, DeviceMount, DeviceNode
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.slot_ledger import Slot

ANNOTATION_PREFIX = "akri.agent.slot-"
DEVICES_FILE_VARIABLE = "ANKAIOS_DEVICES_FILE"
V = TypeVar("V")


class GrantedDevice(Struct, frozen=True):
    """One slot of one device. `virtual_id` is set if it was claimed through the configuration-level plugin.

    `configured` are the properties that its configuration sets.
    """

    instance: Instance
    slot: Slot
    virtual_id: str | None = None
    configured: Mapping[str, str] = field(default_factory=dict)

    @property
    def properties(self) -> dict[str, str]:
        return broker_properties(self.instance, self.configured)


def broker_properties(instance: Instance, configured: Mapping[str, str]) -> dict[str, str]:
    """Properties of the configuration take precedence over properties of the device."""
    return dict(sorted({**instance.device.properties, **configured}.items()))


def grants_for(devices: Sequence[GrantedDevice]) -> list[DeviceGrant]:
    """The grants for all devices of one container, one for each.

    Each property K of a device with hash h becomes `K_<H>`. Plain `K` is set only if it is unambiguous: if exactly one
    device defines it, or the configuration sets it for all of them.
    """
    ambiguous = _ambiguous_names(devices)
    return [_grant_for(device, ambiguous) for device in devices]


def _grant_for(device: GrantedDevice, ambiguous: Container[str]) -> DeviceGrant:
    instance, properties = device.instance, device.properties
    envs = {f"{key}_{instance.hash.upper()}": value for key, value in properties.items()}
    envs |= {key: value for key, value in properties.items() if key not in ambiguous}
    mounts, nodes = instance.device.mounts, instance.device.device_specs
    return DeviceGrant(envs, mounts, nodes, annotations=dict([slot_annotation(device)]))


def _ambiguous_names(devices: Iterable[GrantedDevice]) -> set[str]:
    """Properties that more than one device or configuration defines. They exist only with the hash of the device."""
    definers: dict[str, set[str]] = {}
    for device in devices:
        for key in device.properties:
            definer = device.instance.configuration if key in device.configured else device.instance.name
            definers.setdefault(key, set()).add(definer)
    return {key for key, found in definers.items() if len(found) > 1}


def slot_annotation(device: GrantedDevice) -> tuple[str, str]:
    """[impl->akri~slot-annotation-format~1]"""
    slot = str(device.slot)
    return ANNOTATION_PREFIX + slot, slot if device.virtual_id is None else f"C:{device.virtual_id}:{slot}"


def merge_grants(grants: Iterable[DeviceGrant], container: str | None) -> tuple[DeviceGrant, list[str]]:
    """Merge the grants for one container; the first one wins. Also returns the conflicts.

    Two devices may need the same path, but runtimes accept each path only once.
    """
    conflicts: list[str] = []
    envs: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, DeviceMount] = {}
    nodes: dict[str, DeviceNode] = {}
    names: dict[str, str] = {}
    for grant in grants:
        _add(envs, grant.envs, "environment variable", conflicts)
        _add(annotations, grant.annotations, "annotation", conflicts)
        _add(mounts, {mount.container_path: mount for mount in grant.mounts}, "mount", conflicts)
        _add(nodes, {node.container_path: node for node in grant.devices}, "device node", conflicts)
        names |= dict.fromkeys(grant.cdi_devices, "")
    together = DeviceGrant(
        envs=dict(sorted(envs.items())),
        mounts=tuple(mounts.values()),
        devices=tuple(nodes.values()),
        annotations=dict(sorted(annotations.items())),
        cdi_devices=tuple(names),
        container=container,
    )
    return together, conflicts


def _add(known: dict[str, V], more: Mapping[str, V], what: str, conflicts: list[str]) -> None:
    for key, value in more.items():
        if known.setdefault(key, value) != value:
            conflicts.append(f"{what} '{key}' is set twice, the first value is used")


def check_grant(grant: DeviceGrant) -> None:
    """Check the grant of a foreign plugin; ValueError names the part that no runtime can use."""
    for name, value in (*grant.envs.items(), *grant.annotations.items()):
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"{name[:100]!r} cannot be a variable or annotation with this value")
    check_places(grant.mounts, grant.devices)
    if any(not name or "\0" in name for name in grant.cdi_devices):
        raise ValueError("a CDI device has no name")


def check_places(mounts: Iterable[DeviceMount], nodes: Sequence[DeviceNode]) -> None:
    """Check mounts and device nodes from outside; ValueError names the part that no runtime can use."""
    places: list[DeviceMount | DeviceNode] = [*mounts, *nodes]
    for place in places:
        for path in (place.container_path, place.host_path):
            if not path.startswith("/") or "\0" in path:
                raise ValueError(f"{path[:100]!r} is not an absolute path")
    for permissions in (node.permissions for node in nodes):
        if len(set(permissions)) != len(permissions) or not set(permissions) <= set("rwm"):
            raise ValueError(f"permissions {permissions[:100]!r} are not a choice of r, w and m")


class Allocated(Struct, frozen=True):
    """The devices of one resource in one container; `devices` is empty for foreign plugins."""

    resource: str
    ids: tuple[str, ...]
    devices: tuple[GrantedDevice, ...] = ()


def devices_file_text(workload: str, grant: DeviceGrant, allocated: Iterable[Allocated]) -> str:
    """Everything a container was given, as one JSON document."""
    import json  # not needed by the server, which uses the other functions

    content = {
        "workload": workload,
        "container": grant.container,
        "resources": [_resource(each) for each in allocated],
        "environment": dict(grant.envs),
        "mounts": [_mount(mount) for mount in grant.mounts],
        "deviceSpecs": [_node(node) for node in grant.devices],
        "annotations": dict(grant.annotations),
        "cdiDevices": list(grant.cdi_devices),
    }
    return json.dumps(content, indent=2) + "\n"


def _resource(allocated: Allocated) -> dict[str, Any]:
    devices = [
        {
            "instance": device.instance.name,
            "configuration": device.instance.configuration,
            "slot": str(device.slot),
            "virtualId": device.virtual_id,
            "cdiName": device.instance.cdi_name,
            "id": device.instance.device.id,
            "properties": dict(device.instance.device.properties),
            "mounts": [_mount(mount) for mount in device.instance.device.mounts],
            "deviceSpecs": [_node(node) for node in device.instance.device.device_specs],
        }
        for device in allocated.devices
    ]
    return {"name": allocated.resource, "ids": list(allocated.ids), "devices": devices}


def _mount(mount: DeviceMount) -> dict[str, Any]:
    return {"containerPath": mount.container_path, "hostPath": mount.host_path, "readOnly": mount.read_only}


def _node(node: DeviceNode) -> dict[str, str]:
    return {"containerPath": node.container_path, "hostPath": node.host_path, "permissions": node.permissions}
