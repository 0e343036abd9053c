"""Messages to ONVIF cameras and their answers.

Input: identifiers, credentials, bytes. Output: SOAP 1.2 messages, and cameras as plain data. Pure: the caller provides
random numbers and the time.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from collections.abc import Iterable
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from msgspec import Struct

from ankaios.devices.discovery.onvif.safe_xml import MalformedXml, parse_xml

MAX_TEXT = 512
MAX_ADDRESSES = 16

SOAP = "http://www.w3.org/2003/05/soap-envelope"
ADDRESSING = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
DISCOVERY = "http://schemas.xmlsoap.org/ws/2005/04/discovery"
DISCOVERY_TO = "urn:schemas-xmlsoap-org:ws:2005:04:discovery"
NETWORK = "http://www.onvif.org/ver10/network/wsdl"
DEVICE = "http://www.onvif.org/ver10/device/wsdl"
_OASIS = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-"
SECEXT = _OASIS + "wssecurity-secext-1.0.xsd"
UTILITY = _OASIS + "wssecurity-utility-1.0.xsd"
PASSWORD_DIGEST = _OASIS + "username-token-profile-1.0#PasswordDigest"
BASE64 = _OASIS + "soap-message-security-1.0#Base64Binary"


class ProbeMatch(Struct, frozen=True):
    """One device that answered a probe, as it describes itself."""

    uuid: str
    scopes: tuple[str, ...]
    urls: tuple[str, ...]


class Addresses(Struct, frozen=True):
    """The network addresses a camera reports; None if it does not."""

    ip: str | None = None
    mac: str | None = None


def probe(message_id: str) -> bytes:
    """A WS-Discovery probe for network video transmitters."""
    return _envelope(
        f'<a:MessageID xmlns:a="{ADDRESSING}">uuid:{message_id}</a:MessageID>'
        f'<a:To xmlns:a="{ADDRESSING}">{DISCOVERY_TO}</a:To>'
        f'<a:Action xmlns:a="{ADDRESSING}">{DISCOVERY}/Probe</a:Action>',
        f'<d:Probe xmlns:d="{DISCOVERY}"><d:Types xmlns:dn="{NETWORK}">dn:NetworkVideoTransmitter</d:Types></d:Probe>',
    )


def operation(name: str, security: str = "") -> bytes:
    """A request of the device service without parameters. `security` is the header from `username_token`."""
    return _envelope(security, f'<{name} xmlns="{DEVICE}"/>')


def content_type(name: str) -> str:
    return f'application/soap+xml; charset=utf-8; action="{DEVICE}/{name}"'


def _envelope(header: str, body: str) -> bytes:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        f'<s:Envelope xmlns:s="{SOAP}"><s:Header>{header}</s:Header><s:Body>{body}</s:Body></s:Envelope>'
    ).encode()


def username_token(username: str, password: str, nonce: str, created: str) -> str:
    """A security header for one message.

    The password itself is not sent, only Base64(SHA-1(nonce + created + password)).
    """
    digest = hashlib.sha1((nonce + created + password).encode(), usedforsecurity=False).digest()
    return (
        f'<w:Security xmlns:w="{SECEXT}" xmlns:u="{UTILITY}" s:mustUnderstand="1"><w:UsernameToken>'
        f"<w:Username>{escape(username)}</w:Username>"
        f'<w:Password Type="{PASSWORD_DIGEST}">{_base64(digest)}</w:Password>'
        f'<w:Nonce EncodingType="{BASE64}">{_base64(nonce.encode())}</w:Nonce>'
        f"<u:Created>{created}</u:Created></w:UsernameToken></w:Security>"
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def device_uuid(address: str) -> str:
    """The UUID in an endpoint address, in the form that filters and credentials use."""
    return address.removeprefix("urn:").removeprefix("uuid:").lower()


def parse_probe_matches(data: bytes) -> list[ProbeMatch]:
    """All devices that an answer describes; incomplete descriptions are ignored."""
    matches = parse_xml(data).find("Body/ProbeMatches")
    if matches is None:
        raise MalformedXml("there are no ProbeMatches in the body")
    found = map(_probe_match, matches.findall("ProbeMatch"))
    return [match for match in found if match is not None]


def _probe_match(element: Element) -> ProbeMatch | None:
    address = _text(element.find("EndpointReference/Address"))
    urls = tuple(filter(_is_plain, _words(element.find("XAddrs"))))
    if not address or not _is_plain(address) or not urls:
        return None
    return ProbeMatch(device_uuid(address), _words(element.find("Scopes")), urls[:MAX_ADDRESSES])


def parse_addresses(data: bytes) -> Addresses:
    """The first IPv4 and the first hardware address in an answer to GetNetworkInterfaces."""
    root = parse_xml(data)
    texts = (_text(found) for part in root.iter("IPv4") for found in part.iter("Address"))
    return Addresses(
        ip=_first(text for text in texts if _is_ipv4(text)),
        mac=_first(text for text in map(_text, root.iter("HwAddress")) if text and _is_plain(text)),
    )


def _first(texts: Iterable[str]) -> str | None:
    return next(iter(texts), None)


def _text(element: Element | None) -> str:
    return (element.text or "").strip() if element is not None else ""


def _words(element: Element | None) -> tuple[str, ...]:
    return tuple(_text(element).split())


def _is_plain(text: str) -> bool:
    """Whether the text can be part of a request line, an environment variable and a log: short, visible, ASCII."""
    return len(text) <= MAX_TEXT and text.isascii() and text.isprintable() and " " not in text


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
