"""A device as a discovery handler reports it.

Plain data, shared by the handlers and by the decisions that follow from their lists.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from ankaios.common.device_grant import DeviceMount, DeviceNode


class DiscoveredDevice(Struct, frozen=True):
    """One device in the list of a handler; `id` identifies it for as long as it exists."""

    id: str
    properties: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[DeviceMount, ...] = ()
    device_specs: tuple[DeviceNode, ...] = ()


Devices = tuple[DiscoveredDevice, ...]
