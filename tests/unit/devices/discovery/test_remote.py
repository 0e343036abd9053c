"""Messages of handlers in other processes are checked before they are used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.device_grant import DeviceMount, DeviceNode
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.discovery.remote import Endpoint, from_message, parse_endpoint, to_request
from ankaios.devices.pb import discovery_pb2 as pb


def test_endpoints_are_socket_paths_or_urls() -> None:
    assert parse_endpoint("/var/lib/akri/x.sock", False) == Endpoint(path="/var/lib/akri/x.sock")
    assert parse_endpoint("http://10.0.0.7:10000", True) == Endpoint(host="10.0.0.7", port=10000)
    assert parse_endpoint("10.0.0.7:10000", True) == Endpoint(host="10.0.0.7", port=10000)
    assert parse_endpoint("http://[::1]:10000/", True) == Endpoint(host="::1", port=10000)
    assert str(parse_endpoint("http://h:1", True)) == "h:1"
    assert str(parse_endpoint("/a", False)) == "/a"


@pytest.mark.parametrize(
    ("text", "is_network"),
    [
        ("", False),
        ("x.sock", False),
        ("/a\0b", False),
        ("", True),
        ("http://h", True),
        ("ftp://h:1", True),
        ("h:x", True),
    ],
)
def test_other_endpoints_are_rejected(text: str, is_network: bool) -> None:
    with pytest.raises(ValueError):
        parse_endpoint(text, is_network)


def test_a_property_without_value_differs_from_an_empty_one() -> None:
    request = to_request("text", {"none": None, "empty": b"", "some": b"x"})
    assert request.discovery_details == "text"
    assert not request.discovery_properties["none"].HasField("vec")
    assert request.discovery_properties["empty"].HasField("vec")
    assert request.discovery_properties["some"].vec == b"x"


def test_a_device_is_converted_with_all_its_parts() -> None:
    message = pb.Device(
        id="d",
        properties={"A": "b"},
        mounts=[pb.Mount(container_path="/c", host_path="/h", read_only=True)],
        device_specs=[
            pb.DeviceSpec(container_path="/dev/c", host_path="/dev/h", permissions="rw"),
            pb.DeviceSpec(container_path="/dev/c", host_path="/dev/h"),
        ],
    )
    assert from_message(message) == DiscoveredDevice(
        "d",
        {"A": "b"},
        (DeviceMount("/c", "/h", True),),
        (DeviceNode("/dev/c", "/dev/h", "rw"), DeviceNode("/dev/c", "/dev/h", "rwm")),
    )


@pytest.mark.parametrize(
    "message",
    [
        pb.Device(),
        pb.Device(id="d", properties={"": "x"}),
        pb.Device(id="d", properties={"A=B": "x"}),
        pb.Device(id="d", properties={"A": "x\0"}),
        pb.Device(id="d", mounts=[pb.Mount(container_path="relative", host_path="/h")]),
        pb.Device(id="d", mounts=[pb.Mount(container_path="/c", host_path="")]),
        pb.Device(id="d", device_specs=[pb.DeviceSpec(container_path="/c", host_path="/h", permissions="rx")]),
        pb.Device(id="d", device_specs=[pb.DeviceSpec(container_path="/c", host_path="/h", permissions="rr")]),
        pb.Device(id="d", device_specs=[pb.DeviceSpec(container_path="/c\0", host_path="/h")]),
    ],
)
def test_an_invalid_device_is_rejected(message: pb.Device) -> None:
    with pytest.raises(ValueError):
        from_message(message)


@given(st.text(max_size=40), st.booleans())
def test_any_endpoint_is_parsed_or_rejected(text: str, is_network: bool) -> None:
    try:
        endpoint = parse_endpoint(text, is_network)
    except ValueError:
        return
    assert endpoint.path or (endpoint.host and endpoint.port)
