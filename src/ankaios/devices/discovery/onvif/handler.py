"""ONVIF: cameras on the local network.

Input: filters and credentials of the configuration. Output: the cameras that answer. Each round probes the network by
multicast and then checks each camera by HTTP; its addresses are requested only once. Owns what is known about each
camera during one discovery.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.discovery.base import HandlerLost, Properties, in_order, poll
from ankaios.devices.discovery.details import FilterList, read_details
from ankaios.devices.discovery.onvif import ws_discovery
from ankaios.devices.discovery.onvif.credentials import Credentials, read_credentials
from ankaios.devices.discovery.onvif.http_post import HttpAnswer, PostFailed, post
from ankaios.devices.discovery.onvif.messages import (
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

INTERFACE_VARIABLE = "ONVIF_DISCOVERY_INTERFACE"
POLL_SECONDS = 10.0
POST_SECONDS = 1.0
MAX_TIMEOUT = 60
MAX_CAMERAS = 1024
MAX_MISSED_PROBES = 3
PARALLEL = 64

log = logging.getLogger(__name__)


class Camera(Struct, frozen=True):
    """One service address of one device; `addresses` is None until the camera has sent or refused them."""

    url: str
    uuid: str
    addresses: Addresses | None = None
    missed_probes: int = 0


class OnvifDetails(Struct, frozen=True, rename="camel"):
    """The discovery details of a configuration."""

    ip_addresses: FilterList | None = None
    mac_addresses: FilterList | None = None
    scopes: FilterList | None = None
    uuids: FilterList | None = None
    discovery_timeout_seconds: Annotated[int, Meta(ge=1, le=MAX_TIMEOUT)] = 1


class OnvifHandler:
    """Cameras are reached over the network, so a camera that two nodes see is one camera."""

    name = "onvif"
    shared = True

    def __init__(
        self,
        poll_seconds: float = POLL_SECONDS,
        interface: str | None = None,
        port: int = ws_discovery.PORT,
        post_seconds: float = POST_SECONDS,
        second: float = 1.0,  # how long `discoveryTimeoutSeconds` takes each: on a loopback answers come immediately
    ) -> None:
        self._second = second
        self._poll_seconds = poll_seconds
        self._interface = interface or os.environ.get(INTERFACE_VARIABLE)
        self._port = port
        self._post_seconds = post_seconds

    def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        settings, credentials = read_details(self.name, details, OnvifDetails), read_credentials(properties)
        search = _Search(settings, credentials, self._probe, self._post_seconds)
        return poll(search.look, self._poll_seconds)

    async def _probe(self, seconds: float) -> list[ProbeMatch]:
        try:
            answers = await ws_discovery.send_probe(
                probe(str(uuid.uuid4())), seconds * self._second, self._interface, self._port
            )
        except OSError as error:
            raise HandlerLost(
                f"cannot probe for ONVIF cameras on interface '{self._interface or 'default'}': {error}; "
                f"name one that can multicast in {INTERFACE_VARIABLE}"
            ) from error
        matches: list[ProbeMatch] = []
        for answer in answers:
            matches += _understood(answer)
            await asyncio.sleep(0)  # parsing many answers must not block other tasks
        return matches


def _understood(answer: bytes) -> list[ProbeMatch]:
    """An invalid answer is ignored alone."""
    try:
        return parse_probe_matches(answer)
    except MalformedXml as error:
        log.warning("refused a WS-Discovery answer of %d bytes: %s", len(answer), error)
        return []


class _Search:
    """The rounds of one discovery."""

    def __init__(
        self,
        settings: OnvifDetails,
        credentials: Credentials,
        probe_network: Callable[[float], Awaitable[list[ProbeMatch]]],
        post_seconds: float,
    ) -> None:
        self._settings = settings
        self._credentials = credentials
        self._probe = probe_network
        self._post_seconds = post_seconds
        self._known: dict[tuple[str, str], Camera] = {}
        self._slots = asyncio.Semaphore(PARALLEL)

    async def look(self) -> Devices:
        """One round: the cameras that answer the probe, are reachable, and pass the filters."""
        matches = await self._probe(self._settings.discovery_timeout_seconds)
        candidates = next_candidates(self._known, matches, self._settings)
        async with asyncio.TaskGroup() as group:
            checks = [group.create_task(self._check(camera), name=f"onvif {camera.url}") for camera in candidates]
        present = [camera for check in checks if (camera := check.result()) is not None]
        self._known = {(camera.url, camera.uuid): camera for camera in present}
        kept = (camera for camera in present if passes_filters(camera.addresses or Addresses(), self._settings))
        return in_order({device.id: device for device in map(to_device, kept)})

    async def _check(self, camera: Camera) -> Camera | None:
        async with self._slots:
            if not await self._is_reachable(camera):
                return None
            if camera.addresses is not None:
                return camera
            return replace(camera, addresses=await self._ask_addresses(camera))

    async def _is_reachable(self, camera: Camera) -> bool:
        try:
            answer = await self._call(camera, "GetSystemDateAndTime")
            parse_xml(answer.body)
        except (PostFailed, MalformedXml) as error:
            log.info("ONVIF service %s does not report its time: %s", camera.url, error)
            return False
        return answer.status == 200

    async def _ask_addresses(self, camera: Camera) -> Addresses | None:
        """A camera that refuses is not asked again, because repeated wrong passwords lock accounts."""
        try:
            answer = await self._call(camera, "GetNetworkInterfaces", self._token(camera))
            return parse_addresses(answer.body) if answer.status == 200 else Addresses()
        except PostFailed as error:
            log.info("ONVIF service %s does not report its addresses: %s", camera.url, error)
            return None
        except MalformedXml as error:
            log.warning("refused the addresses of ONVIF service %s: %s", camera.url, error)
            return Addresses()

    def _token(self, camera: Camera) -> str:
        credential = self._credentials.get(camera.uuid)
        if credential is None:
            return ""
        created = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return username_token(credential.username, credential.password, str(uuid.uuid4()), created)

    async def _call(self, camera: Camera, name: str, token: str = "") -> HttpAnswer:
        return await post(camera.url, content_type(name), operation(name, token), self._post_seconds)


def next_candidates(
    known: Mapping[tuple[str, str], Camera], matches: Iterable[ProbeMatch], settings: OnvifDetails
) -> list[Camera]:
    """The cameras to check in this round.

    Datagrams get lost, so a known camera that missed a few probes is checked all the same. Known cameras come first, so
    that a flood of invented ones cannot displace them.
    """
    answered = {(url, match.uuid): match for match in matches for url in match.urls}
    missed = [replace(one, missed_probes=one.missed_probes + 1) for key, one in known.items() if key not in answered]
    wanted = [key for key, match in answered.items() if is_wanted(match, settings)]
    again = [replace(known[key], missed_probes=0) for key in wanted if key in known]
    fresh = [Camera(*key) for key in wanted if key not in known]
    retried = [camera for camera in missed if camera.missed_probes <= MAX_MISSED_PROBES]
    if (dropped := len(again) + len(retried) + len(fresh) - MAX_CAMERAS) > 0:
        log.warning("%d ONVIF services are ignored: at most %d are checked in one round", dropped, MAX_CAMERAS)
    return (again + retried + fresh)[:MAX_CAMERAS]


def is_wanted(match: ProbeMatch, settings: OnvifDetails) -> bool:
    """Apply the filters that need only the answer to the probe."""
    scopes, uuids = settings.scopes, settings.uuids
    return (scopes is None or scopes.keeps(lambda item: item in match.scopes)) and (
        uuids is None or uuids.keeps(lambda item: device_uuid(item) == match.uuid)
    )


def passes_filters(addresses: Addresses, settings: OnvifDetails) -> bool:
    pairs = ((addresses.ip, settings.ip_addresses), (addresses.mac, settings.mac_addresses))
    return all(wanted is None or _address_passes(value, wanted) for value, wanted in pairs)


def _address_passes(value: str | None, wanted: FilterList) -> bool:
    return wanted.keeps(None if value is None else lambda item: item.lower() == value.lower())


def to_device(camera: Camera) -> DiscoveredDevice:
    properties = {"ONVIF_DEVICE_SERVICE_URL": camera.url, "ONVIF_DEVICE_UUID": camera.uuid}
    if camera.addresses is not None and camera.addresses.ip is not None:
        properties["ONVIF_DEVICE_IP_ADDRESS"] = camera.addresses.ip
    if camera.addresses is not None and camera.addresses.mac is not None:
        properties["ONVIF_DEVICE_MAC_ADDRESS"] = camera.addresses.mac
    return DiscoveredDevice(f"{camera.url}-{camera.uuid}", properties)
