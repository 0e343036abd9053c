"""The decisions of the ONVIF handler; the integration tests cover the network."""

import pytest

from ankaios.devices.discovery.base import InvalidDetails
from ankaios.devices.discovery.details import read_details
from ankaios.devices.discovery.onvif.handler import (
    MAX_CAMERAS,
    MAX_MISSED_PROBES,
    Camera,
    OnvifDetails,
    next_candidates,
    passes_filters,
    to_device,
)
from ankaios.devices.discovery.onvif.messages import Addresses, ProbeMatch

URL = "http://10.0.0.1/onvif/device_service"
MATCH = ProbeMatch("abc", ("onvif://name/A", "onvif://location/hall"), (URL,))
ADDRESSES = Addresses("10.0.0.1", "00:0A:0B:0C:0D:0E")
KNOWN = {(URL, "abc"): Camera(URL, "abc", ADDRESSES)}


def details_of(text: str) -> OnvifDetails:
    return read_details("onvif", text, OnvifDetails)


NO_FILTERS = details_of("")


@pytest.mark.parametrize(
    ("details", "kept"),
    [
        ("", True),
        ("scopes: {items: ['onvif://location/hall']}", True),
        ("scopes: {items: ['onvif://location']}", False),
        ("scopes: {items: ['onvif://name/A'], action: Exclude}", False),
        ("scopes: {items: []}", False),
        ("scopes: {items: [], action: Exclude}", True),
        ("uuids: {items: [ABC]}", True),
        ("uuids: {items: ['urn:uuid:abc']}", True),
        ("uuids: {items: [abc], action: Exclude}", False),
        ("uuids: {items: [other]}", False),
    ],
)
def test_scopes_and_uuids_select_the_cameras_to_query(details: str, kept: bool) -> None:
    assert next_candidates({}, [MATCH], details_of(details)) == ([Camera(URL, "abc")] if kept else [])


@pytest.mark.parametrize(
    ("details", "addresses", "kept"),
    [
        ("", Addresses(), True),
        ("ipAddresses: {items: [10.0.0.1]}", ADDRESSES, True),
        ("ipAddresses: {items: [10.0.0.2]}", ADDRESSES, False),
        ("ipAddresses: {items: [10.0.0.2], action: Exclude}", ADDRESSES, True),
        ("ipAddresses: {items: [10.0.0.2], action: Exclude}", Addresses(), False),
        ("ipAddresses: {items: [], action: Exclude}", Addresses(), True),
        ("macAddresses: {items: ['00:0a:0b:0c:0d:0e']}", ADDRESSES, True),
        ("macAddresses: {items: ['00:0a:0b:0c:0d:0e'], action: Exclude}", ADDRESSES, False),
        ("macAddresses: {items: ['00:0a:0b:0c:0d:0e']}", Addresses(), False),
    ],
)
def test_addresses_select_the_reported_cameras(details: str, addresses: Addresses, kept: bool) -> None:
    assert passes_filters(addresses, details_of(details)) is kept


def test_a_camera_that_misses_probes_is_queried_a_few_more_times() -> None:
    known = KNOWN
    for missed in range(1, MAX_MISSED_PROBES + 1):
        (camera,) = next_candidates(known, [], NO_FILTERS)
        assert camera == Camera(URL, "abc", ADDRESSES, missed_probes=missed)
        known = {(URL, "abc"): camera}
    assert next_candidates(known, [], NO_FILTERS) == []


def test_a_camera_that_answers_again_is_confirmed_and_keeps_its_addresses() -> None:
    doubtful = {(URL, "abc"): Camera(URL, "abc", ADDRESSES, missed_probes=2)}
    assert next_candidates(doubtful, [MATCH], NO_FILTERS) == [Camera(URL, "abc", ADDRESSES)]


def test_a_known_camera_whose_scopes_no_longer_match_is_not_queried() -> None:
    assert next_candidates(KNOWN, [MATCH], details_of("scopes: {items: [other]}")) == []


def test_many_false_cameras_do_not_replace_known_ones() -> None:
    flood = [ProbeMatch(str(number), (), (f"http://h/{number}",)) for number in range(2 * MAX_CAMERAS)]
    candidates = next_candidates(KNOWN, [*flood, MATCH], NO_FILTERS)
    assert len(candidates) == MAX_CAMERAS
    assert candidates[0] == Camera(URL, "abc", ADDRESSES)


def test_a_device_is_named_by_url_and_uuid_and_has_the_known_properties() -> None:
    assert to_device(Camera(URL, "abc")).properties == {"ONVIF_DEVICE_SERVICE_URL": URL, "ONVIF_DEVICE_UUID": "abc"}
    device = to_device(Camera(URL, "abc", ADDRESSES))
    assert device.id == f"{URL}-abc"
    assert device.properties["ONVIF_DEVICE_IP_ADDRESS"] == "10.0.0.1"
    assert device.properties["ONVIF_DEVICE_MAC_ADDRESS"] == "00:0A:0B:0C:0D:0E"


@pytest.mark.parametrize("details", ["discoveryTimeoutSeconds: 0", "uuids: [a]", "ipAddresses: {action: Include}"])
def test_invalid_details_are_rejected(details: str) -> None:
    with pytest.raises(InvalidDetails):
        details_of(details)
