"""Grants: mounts, device nodes and variables of devices. The device manager creates them, and runtimes apply them."""

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
    """All additions to a workload by its devices; `container` is the container of the request, for pods."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[DeviceMount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()
    container: str | None = None
