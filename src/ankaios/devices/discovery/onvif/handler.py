"""ONVIF: cameras on the local network.

In: filters and credentials of the configuration. Out: the cameras that answer. A round asks the network by multicast
and then each camera by HTTP whether it is really there; addresses are asked for only once. Owns what it learned about
each camera for as long as one discovery runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.discovery.base import HandlerLost, Properties, in_order, poll
from ankaios.devices.discovery.details import FilterList, read_details
from ankaios.devices.discovery.onvif import ws_discovery
from ankaios.devices.discovery.onvif.credentials import Credentials, read_credentials
from ankaios.devices.discovery.onvif.http_post import Answer, PostFailed, post
from ankaios.devices.discovery.onvif.messages import (
    Addresses,
    ProbeMatch,
    UsernameToken,
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
    """One service address of one device; `addresses` is None until it has told them or refused to."""

    url: str
    uuid: str
    addresses: Addresses | None = None
    missed_probes: int = 0


class OnvifSettings(Struct, frozen=True):
    """What the details of a configuration say."""

    ips: FilterList | None
    macs: FilterList | None
    scopes: FilterList | None
    uuids: FilterList | None
    timeout: int


def read_onvif_settings(text: str) -> OnvifSettings:
    details = read_details(OnvifHandler.name, text)
    return OnvifSettings(
        ips=details.filter_list("ipAddresses"),
        macs=details.filter_list("macAddresses"),
        scopes=details.filter_list("scopes"),
        uuids=details.filter_list("uuids"),
        timeout=details.number("discoveryTimeoutSeconds", 1, MAX_TIMEOUT, 1),
    )


class OnvifHandler:
    """Cameras are reached over the network, so one seen from two nodes is one camera."""

    name = "onvif"
    shared = True

    def __init__(
        self,
        poll_seconds: float = POLL_SECONDS,
        interface: str | None = None,
        port: int = ws_discovery.PORT,
        post_seconds: float = POST_SECONDS,
        second: float = 1.0,  # how long `discoveryTimeoutSeconds` takes each: on a loopback answers come at once
    ) -> None:
        self._second = second
        self._poll_seconds = poll_seconds
        self._interface = interface or os.environ.get(INTERFACE_VARIABLE)
        self._port = port
        self._post_seconds = post_seconds

    async def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        settings, credentials = read_onvif_settings(details), read_credentials(properties)
        search = _Search(settings, credentials, self._probe, self._post_seconds)
        async with aclosing(poll(search.look, self._poll_seconds)) as lists:
            async for devices in lists:
                yield devices

    async def _probe(self, seconds: float) -> list[ProbeMatch]:
        try:
            answers = await ws_discovery.ask(
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
            await asyncio.sleep(0)  # parsing many answers must not keep others waiting
        return matches


def _understood(answer: bytes) -> list[ProbeMatch]:
    """A bad answer costs only itself."""
    try:
        return parse_probe_matches(answer)
    except MalformedXml as error:
        log.warning("refused a WS-Discovery answer of %d bytes: %s", len(answer), error)
        return []


class _Search:
    """The rounds of one discovery."""

    def __init__(
        self,
        settings: OnvifSettings,
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
        """One round: who answers the probe, who of them is really there, who passes the filters."""
        candidates = next_candidates(self._known, await self._probe(self._settings.timeout), self._settings)
        async with asyncio.TaskGroup() as group:
            checks = [group.create_task(self._check(camera), name=f"onvif {camera.url}") for camera in candidates]
        present = [camera for check in checks if (camera := check.result()) is not None]
        self._known = {(camera.url, camera.uuid): camera for camera in present}
        kept = (camera for camera in present if passes_filters(camera.addresses or Addresses(), self._settings))
        return in_order({device.id: device for device in map(to_device, kept)})

    async def _check(self, camera: Camera) -> Camera | None:
        async with self._slots:
            if not await self._is_there(camera):
                return None
            if camera.addresses is not None:
                return camera
            return replace(camera, addresses=await self._ask_addresses(camera))

    async def _is_there(self, camera: Camera) -> bool:
        try:
            answer = await self._call(camera, "GetSystemDateAndTime")
            parse_xml(answer.body)
        except (PostFailed, MalformedXml) as error:
            log.info("ONVIF service %s does not tell its time: %s", camera.url, error)
            return False
        return answer.status == 200

    async def _ask_addresses(self, camera: Camera) -> Addresses | None:
        """A camera that refuses is not asked again: repeated wrong passwords lock accounts. Silence may pass."""
        try:
            answer = await self._call(camera, "GetNetworkInterfaces", self._token(camera))
            return parse_addresses(answer.body) if answer.status == 200 else Addresses()
        except PostFailed as error:
            log.info("ONVIF service %s does not tell its addresses: %s", camera.url, error)
            return None
        except MalformedXml as error:
            log.warning("refused the addresses of ONVIF service %s: %s", camera.url, error)
            return Addresses()

    def _token(self, camera: Camera) -> UsernameToken | None:
        credential = self._credentials.get(camera.uuid)
        if credential is None:
            return None
        created = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return username_token(credential.username, credential.password, str(uuid.uuid4()), created)

    async def _call(self, camera: Camera, name: str, token: UsernameToken | None = None) -> Answer:
        return await post(camera.url, content_type(name), operation(name, token), self._post_seconds)


def next_candidates(
    known: Mapping[tuple[str, str], Camera], matches: Iterable[ProbeMatch], settings: OnvifSettings
) -> list[Camera]:
    """Whom to visit this round.

    Datagrams get lost, so a camera that was there and now missed a probe or two is visited all the same. Known cameras
    come first: a flood of invented ones must not push them out.
    """
    answered = {(url, match.uuid): match for match in matches for url in match.urls}
    missed = [replace(one, missed_probes=one.missed_probes + 1) for key, one in known.items() if key not in answered]
    wanted = [key for key, match in answered.items() if is_wanted(match, settings)]
    again = [replace(known[key], missed_probes=0) for key in wanted if key in known]
    fresh = [Camera(*key) for key in wanted if key not in known]
    patient = [camera for camera in missed if camera.missed_probes <= MAX_MISSED_PROBES]
    if (dropped := len(again) + len(patient) + len(fresh) - MAX_CAMERAS) > 0:
        log.warning("%d ONVIF services are left out: at most %d are visited in one round", dropped, MAX_CAMERAS)
    return (again + patient + fresh)[:MAX_CAMERAS]


def is_wanted(match: ProbeMatch, settings: OnvifSettings) -> bool:
    """What can be judged by the answer to the probe alone."""
    scopes, uuids = settings.scopes, settings.uuids
    return (scopes is None or scopes.keeps(lambda item: item in match.scopes)) and (
        uuids is None or uuids.keeps(lambda item: device_uuid(item) == match.uuid)
    )


def passes_filters(addresses: Addresses, settings: OnvifSettings) -> bool:
    pairs = ((addresses.ip, settings.ips), (addresses.mac, settings.macs))
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
