"""ONVIF messages: the requests, and the values read from answers."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.devices.discovery.onvif.messages import (
    ADDRESSING,
    DISCOVERY,
    NETWORK,
    SOAP,
    Addresses,
    ProbeMatch,
    content_type,
    device_uuid,
    operation,
    parse_addresses,
    parse_probe_matches,
    probe,
    username_token,
)
from ankaios.devices.discovery.onvif.safe_xml import MalformedXml, parse_xml
from tests.support.examples import examples

MATCH = """<d:ProbeMatch><a:EndpointReference><a:Address>urn:uuid:ABC-1</a:Address></a:EndpointReference>
<d:Scopes> onvif://www.onvif.org/name/A
 onvif://www.onvif.org/location/hall </d:Scopes>
<d:XAddrs>http://10.0.0.1/onvif/device_service http://10.0.0.2/onvif/device_service</d:XAddrs></d:ProbeMatch>"""


def answer(*matches: str) -> bytes:
    return (
        f'<s:Envelope xmlns:s="{SOAP}" xmlns:a="{ADDRESSING}" xmlns:d="{DISCOVERY}"><s:Header/><s:Body>'
        f"<d:ProbeMatches>{''.join(matches)}</d:ProbeMatches></s:Body></s:Envelope>"
    ).encode()


def test_a_probe_requests_video_transmitters_and_declares_every_prefix() -> None:
    sent = probe("0000-1")
    root = parse_xml(sent)
    header = root.find("Header")
    assert header is not None
    assert [(child.tag, child.text) for child in header] == [
        ("MessageID", "uuid:0000-1"),
        ("To", "urn:schemas-xmlsoap-org:ws:2005:04:discovery"),
        ("Action", "http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe"),
    ]
    assert root.findtext("Body/Probe/Types") == "dn:NetworkVideoTransmitter"
    assert f'xmlns:dn="{NETWORK}"'.encode() in sent


def test_an_operation_is_a_soap_request_with_its_action_in_the_content_type() -> None:
    body = parse_xml(operation("GetSystemDateAndTime")).find("Body")
    assert body is not None and [child.tag for child in body] == ["GetSystemDateAndTime"]
    assert content_type("GetSystemDateAndTime") == (
        'application/soap+xml; charset=utf-8; action="http://www.onvif.org/ver10/device/wsdl/GetSystemDateAndTime"'
    )


def test_a_username_token_proves_the_password_without_containing_it() -> None:
    token = username_token("user", "1234567", "nonce", "2000-01-01T12:34:56:789Z")
    assert ">AGsoQQ+qNJu6Ha7h/QAPoQvYcV0=</w:Password>" in token
    assert ">bm9uY2U=</w:Nonce>" in token


def test_a_request_with_credentials_contains_the_token_and_escapes_the_name() -> None:
    sent = operation("GetNetworkInterfaces", username_token("<&>", "secret", "n", "c"))
    token = parse_xml(sent).find("Header/Security/UsernameToken")
    assert token is not None
    assert [child.tag for child in token] == ["Username", "Password", "Nonce", "Created"]
    assert token[0].text == "<&>"
    assert b"secret" not in sent


@pytest.mark.parametrize(
    ("address", "uuid"), [("urn:uuid:d", "d"), ("uuid:urn:e", "urn:e"), ("x:uuid:G", "x:uuid:g"), ("ABC", "abc")]
)
def test_the_uuid_is_the_address_without_its_prefixes_in_small_letters(address: str, uuid: str) -> None:
    assert device_uuid(address) == uuid


def test_every_match_of_an_answer_is_read_with_all_its_scopes_and_addresses() -> None:
    second = MATCH.replace("ABC-1", "def-2")
    first, other = parse_probe_matches(answer(MATCH, second))
    assert first == ProbeMatch(
        "abc-1",
        ("onvif://www.onvif.org/name/A", "onvif://www.onvif.org/location/hall"),
        ("http://10.0.0.1/onvif/device_service", "http://10.0.0.2/onvif/device_service"),
    )
    assert other.uuid == "def-2"


@pytest.mark.parametrize(
    "match",
    [
        MATCH.replace("urn:uuid:ABC-1", ""),
        MATCH.replace("a:EndpointReference", "a:Other"),
        MATCH.replace("urn:uuid:ABC-1", "a b"),
        MATCH.replace("urn:uuid:ABC-1", "ü"),
        MATCH.replace("urn:uuid:ABC-1", "x" * 600),
        MATCH.replace("d:XAddrs", "d:Other"),
    ],
)
def test_an_incomplete_match_is_ignored_and_the_others_are_kept(match: str) -> None:
    assert [found.uuid for found in parse_probe_matches(answer(match, MATCH))] == ["abc-1"]


def test_an_invalid_answer_is_rejected() -> None:
    with pytest.raises(MalformedXml, match="ProbeMatches"):
        parse_probe_matches(probe("1"))


def test_the_number_of_addresses_of_one_camera_is_bounded() -> None:
    many = MATCH.replace("http://10.0.0.2/onvif/device_service", " ".join(f"http://h/{n}" for n in range(100)))
    (found,) = parse_probe_matches(answer(many))
    assert len(found.urls) == 16


def test_the_first_ipv4_and_hardware_address_are_taken() -> None:
    data = b"""<E><Body><GetNetworkInterfacesResponse>
    <NetworkInterfaces><Info><HwAddress>00:0A:0b:0c:0d:0e</HwAddress></Info>
      <IPv6><Config><Address>fe80::1</Address></Config></IPv6>
      <IPv4><Config><Manual><Address>10.0.0.9</Address></Manual></Config></IPv4></NetworkInterfaces>
    <NetworkInterfaces><Info><HwAddress>11:22:33:44:55:66</HwAddress></Info>
      <IPv4><Config><Manual><Address>10.0.0.10</Address></Manual></Config></IPv4></NetworkInterfaces>
    </GetNetworkInterfacesResponse></Body></E>"""
    assert parse_addresses(data) == Addresses("10.0.0.9", "00:0A:0b:0c:0d:0e")


def test_invalid_addresses_count_as_unknown() -> None:
    data = b"<E><IPv4><Address>$(reboot)</Address></IPv4><HwAddress>a b</HwAddress><HwAddress/></E>"
    assert parse_addresses(data) == Addresses(None, None)


fragments = st.lists(
    st.sampled_from([MATCH, "<d:ProbeMatch>", "</d:ProbeMatch>", "<a/>", "&amp;", "]]>", "x"]), max_size=6
)


@given(fragments.map(lambda parts: answer(*parts)) | st.binary(max_size=300))
@examples(150)
def test_any_datagram_is_parsed_or_rejected(data: bytes) -> None:
    for parse in (parse_probe_matches, parse_addresses):
        with suppress(MalformedXml):
            parse(data)
