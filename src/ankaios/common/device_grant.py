"""Grants: what a container or process receives with its devices. The device manager makes them, runtimes apply them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class DeviceMount(Struct, frozen=True):
    container_path: str
    host_path: str
    read_only: bool = False


class DeviceNode(Struct, frozen=True):
    container_path: str
    host_path: str
    permissions: str = "rwm"


class DeviceGrant(Struct, frozen=True):
    """Everything that the devices of a workload add to it; `container` is that of the request, for pods."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[DeviceMount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()
    container: str | None = None
