import pytest

from ankaios.common.errors import Rejected
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.devices.core.configuration import (
    LARGEST_CAPACITY,
    Configuration,
    OnDeviceLost,
    check_configurations,
    configuration_from_pb,
)


def a_message(**more: object) -> base.DeviceConfiguration:
    return base.DeviceConfiguration(discoveryHandler=base.DiscoveryHandler(name="udev"), **more)  # type: ignore[arg-type]


def test_missing_values_have_defaults() -> None:
    """[utest->akri~configuration-level-resource~1]"""
    configuration = configuration_from_pb("cam", a_message())
    assert configuration == Configuration("cam", "udev")
    assert (configuration.capacity, configuration.distinct, configuration.on_lost) == (1, True, OnDeviceLost.KEEP)
    assert configuration.resource == "akri.sh/cam"


def test_all_configured_values_are_read() -> None:
    message = a_message(
        capacity=0,
        distinct=base.DISTINCT_PREFERRED,
        onDeviceLost=base.ON_DEVICE_LOST_RESTART,
        offlineGraceSeconds=7,
        brokerProperties=base.StringMap(values={"RATE": "30"}),
    )
    message.discoveryHandler.discoveryDetails = "x: 1"
    message.discoveryHandler.discoveryProperties.values["user"] = "ä"
    assert configuration_from_pb("cam", message) == Configuration(
        "cam", "udev", "x: 1", {"user": "ä".encode()}, 0, {"RATE": "30"}, False, 7.0, OnDeviceLost.RESTART
    )


def test_a_running_discovery_continues_unless_its_details_change() -> None:
    first = Configuration("cam", "udev", "x", capacity=1)
    assert first.discovers_like(Configuration("cam", "udev", "x", capacity=2))
    assert not first.discovers_like(Configuration("cam", "udev", "y"))


@pytest.mark.parametrize("name", ["", "a" * 57, "-cam", "cam-", "a.b", "a/b", "ä"])
def test_a_name_that_cannot_be_a_resource_is_rejected(name: str) -> None:
    with pytest.raises(Rejected, match="starts and ends"):
        check_configurations({name: a_message()})


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (base.DeviceConfiguration(), "discoveryHandler.name is missing"),
        (a_message(capacity=LARGEST_CAPACITY + 1), "capacity is 1025"),
        (a_message(brokerProperties=base.StringMap(values={"A=B": ""})), "brokerProperties has 'A=B'"),
        (a_message(onDeviceLost=9), "unknown value"),
        (
            base.DeviceConfiguration(
                discoveryHandler=base.DiscoveryHandler(
                    name="udev", discoveryProperties=base.DiscoveryProperties(values={"1": ""})
                )
            ),
            "discoveryProperties has '1'",
        ),
    ],
)
def test_an_invalid_configuration_is_rejected_with_the_reason(message: base.DeviceConfiguration, why: str) -> None:
    with pytest.raises(Rejected, match=why):
        check_configurations({"cam": message})


def test_a_configuration_cannot_be_named_like_a_device_of_another() -> None:
    """Akri does not check this, and then two plugins register the same resource name."""
    check_configurations({"cam-8120fe": a_message()})
    with pytest.raises(Rejected, match="device of 'cam'"):
        check_configurations({"cam": a_message(), "cam-8120fe": a_message()})
