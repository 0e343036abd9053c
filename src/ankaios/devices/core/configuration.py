"""Device configurations as plain data, with defaults and checks.

Input: the message of the state. Output: a `Configuration`, or `Rejected` with what is wrong, where, and what to write.
"""

import re
from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from ankaios.common.errors import Rejected
from ankaios.common.model.state import DEVICE_CONFIGURATION
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX

LONGEST_NAME = 56  # `-` and the hash follow, and a resource name has at most 63 characters
LARGEST_CAPACITY = 1024
SHARED_GRACE_SECONDS = 300.0
LOCAL_GRACE_SECONDS = 30.0
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PROPERTY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIKE_AN_INSTANCE = re.compile(r"(.+)-[0-9a-f]{6}")


class OnDeviceLost(Enum):
    """The policy for a workload whose device does not return within the grace period."""

    KEEP = "keep"
    STOP = "stop"
    RESTART = "restart"


class Configuration(Struct, frozen=True):
    name: str
    handler: str
    details: str = ""
    properties: Mapping[str, bytes | None] = field(default_factory=dict)
    capacity: int = 1
    broker_properties: Mapping[str, str] = field(default_factory=dict)
    distinct: bool = True
    offline_grace: float | None = None
    on_lost: OnDeviceLost = OnDeviceLost.KEEP
    restarts_on_change: bool = False
    property_files: Mapping[str, str] = field(default_factory=dict)  # properties that are read when discovery starts

    @property
    def resource(self) -> str:
        return DEFAULT_RESOURCE_PREFIX + self.name

    def grace(self, shared: bool) -> float:
        """Network devices are unreachable for a short time more often than local devices."""
        if self.offline_grace is not None:
            return self.offline_grace
        return SHARED_GRACE_SECONDS if shared else LOCAL_GRACE_SECONDS

    def discovers_like(self, other: "Configuration") -> bool:
        """Whether a running discovery can continue when the configuration changes to the other."""
        return self._discovery == other._discovery

    @property
    def _discovery(self) -> tuple[object, ...]:
        return self.handler, self.details, self.properties, self.property_files


_ON_LOST = {
    base.ON_DEVICE_LOST_KEEP: OnDeviceLost.KEEP,
    base.ON_DEVICE_LOST_STOP: OnDeviceLost.STOP,
    base.ON_DEVICE_LOST_RESTART: OnDeviceLost.RESTART,
}
_DISTINCT = (base.DISTINCT_REQUIRED, base.DISTINCT_PREFERRED)
_ON_CHANGED = (base.ON_DEVICE_CHANGED_KEEP, base.ON_DEVICE_CHANGED_RESTART)


def configuration_from_pb(name: str, message: base.DeviceConfiguration) -> Configuration:
    _check(name, message)
    handler = message.discoveryHandler
    return Configuration(
        name=name,
        handler=handler.name,
        details=handler.discoveryDetails,
        properties={key: value.encode() for key, value in sorted(handler.discoveryProperties.values.items())},
        property_files=dict(sorted(handler.discoveryProperties.files.items())),
        capacity=DEVICE_CONFIGURATION.value_of(message, "capacity"),
        broker_properties=dict(sorted(message.brokerProperties.values.items())),
        distinct=message.distinct == base.DISTINCT_REQUIRED,
        offline_grace=float(message.offlineGraceSeconds) if message.HasField("offlineGraceSeconds") else None,
        on_lost=_ON_LOST[message.onDeviceLost],
        restarts_on_change=message.onDeviceChanged == base.ON_DEVICE_CHANGED_RESTART,
    )


def check_configurations(configurations: Mapping[str, base.DeviceConfiguration]) -> None:
    """Check all configurations together: the names of resources must be unambiguous."""
    for name, message in configurations.items():
        _check(name, message)
        like = _LIKE_AN_INSTANCE.fullmatch(name)
        if like and like[1] in configurations:
            raise _refusal(name, f"the name could be that of a device of '{like[1]}'; choose another one")


def _check(name: str, message: base.DeviceConfiguration) -> None:
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        why = (
            f"a name has at most {LONGEST_NAME} characters of [a-zA-Z0-9_-] and starts and ends with a letter or digit"
        )
        raise _refusal(name, why)
    if not message.discoveryHandler.name:
        raise _refusal(name, "discoveryHandler.name is missing")
    if message.capacity > LARGEST_CAPACITY:
        raise _refusal(name, f"capacity is {message.capacity}, at most {LARGEST_CAPACITY} is possible")
    properties = message.discoveryHandler.discoveryProperties
    for key in (*properties.values, *properties.configs, *properties.files):
        if not _PROPERTY.fullmatch(key):
            raise _refusal(name, f"discoveryProperties has '{key}', expected [_A-Za-z][_A-Za-z0-9]*")
    for key, path in properties.files.items():
        if not path.startswith("/") or "\0" in path:
            raise _refusal(name, f"discoveryProperties.{key} has the file '{path}', expected an absolute path")
    for key, value in message.brokerProperties.values.items():
        if not is_variable(key, value):
            raise _refusal(name, f"brokerProperties has '{key}', which cannot be an environment variable")
    is_known = message.onDeviceLost in _ON_LOST and message.onDeviceChanged in _ON_CHANGED
    if not is_known or message.distinct not in _DISTINCT:
        raise _refusal(name, "distinct, onDeviceLost or onDeviceChanged has an unknown value")


def _refusal(name: str, why: str) -> Rejected:
    return Rejected(f"cannot use the device configuration '{name}': {why}")


def is_variable(name: str, value: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None and "\0" not in value
