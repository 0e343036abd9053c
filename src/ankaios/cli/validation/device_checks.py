"""Devices: configurations that cannot work, and requests that nobody can meet as far as the files tell.

Devices come and go, so of a request only little can be known: whether there is such a configuration, what it forbids,
and how many devices the made-up ones of `debugEcho` are.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from ankaios.cli.suggestions import nearest
from ankaios.cli.validation.cluster import Cluster
from ankaios.cli.validation.findings import ERROR, WARNING, Complaint, Form
from ankaios.common.errors import Rejected
from ankaios.common.state_form import device_configuration_from_form
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX, ResourceRequest
from ankaios.devices.core.configuration import check_configurations
from ankaios.devices.core.extended_resource import check_resource_name
from ankaios.devices.discovery.details import read_details
from ankaios.server.core.brokers import PLACEHOLDER

_INSTANCE = re.compile(r"(.+)-[0-9a-f]{6}")


# --- configurations ---------------------------------------------------------------------------------------------------


def configuration_faults(name: str, form: Form, cluster: Cluster) -> Iterator[Complaint]:
    like = _INSTANCE.fullmatch(name)
    related = [one for one in (name, like[1] if like else "") if one in cluster.device_configurations]
    try:
        check_configurations(
            {one: device_configuration_from_form(cluster.device_configurations[one].form) for one in related}
        )
    except Rejected as fault:
        yield Complaint((), str(fault))
    yield from _handler_faults(form["discoveryHandler"])


def _handler_faults(handler: Form) -> Iterator[Complaint]:
    name = handler["name"]
    if name not in _DETAILS:
        guess = nearest(name, _DETAILS)
        hint = f", did you mean '{guess}'?" if guess else ": one of this name must register with the agents"
        yield Complaint(("discoveryHandler", "name"), f"'{name}' is no built-in discovery handler{hint}", WARNING)
        return
    properties = {key: value.encode() for key, value in handler.get("discoveryProperties", {}).items()}
    try:
        _DETAILS[name](handler.get("discoveryDetails", ""), properties)
    except Rejected as fault:
        key = "discoveryProperties" if "propert" in str(fault) or "credential" in str(fault) else "discoveryDetails"
        yield Complaint(("discoveryHandler", key), str(fault))


def _udev(details: str, properties: Mapping[str, bytes | None]) -> None:
    from ankaios.devices.discovery.udev.devices import UdevDetails, read_options
    from ankaios.devices.discovery.udev.rules import parse_rules

    given = read_details("udev", details, UdevDetails)
    parse_rules(given.udev_rules)
    read_options(given, properties)


def _onvif(details: str, properties: Mapping[str, bytes | None]) -> None:
    from ankaios.devices.discovery.onvif.credentials import read_credentials
    from ankaios.devices.discovery.onvif.handler import OnvifDetails

    read_details("onvif", details, OnvifDetails)
    read_credentials(properties)


def _opcua(details: str, properties: Mapping[str, bytes | None]) -> None:
    from ankaios.devices.discovery.opcua.handler import read_opcua_details

    read_opcua_details(details)


def _debug_echo(details: str, properties: Mapping[str, bytes | None]) -> None:
    _descriptions(details)


def _descriptions(details: str) -> set[str]:
    from ankaios.devices.discovery.debug_echo import DebugEchoDetails

    return set(read_details("debugEcho", details, DebugEchoDetails).descriptions)


_DETAILS: Mapping[str, Callable[[str, Mapping[str, bytes | None]], None]] = {
    "debugEcho": _debug_echo,
    "udev": _udev,
    "onvif": _onvif,
    "opcua": _opcua,
}


# --- requests ---------------------------------------------------------------------------------------------------------


def request_faults(form: Form, cluster: Cluster) -> Iterator[Complaint]:
    """`form` is a workload. Several requests for the same are one larger request."""
    wanted: Counter[str] = Counter()
    for index, request in enumerate(form.get("resources", ())):
        if request["name"] == PLACEHOLDER:
            continue
        resource = ResourceRequest(request["name"], request["quantity"]).resource
        wanted[resource] += request["quantity"]
        for text, severity in _faults(resource, wanted[resource], cluster):
            yield Complaint(("resources", index, "name"), text, severity)


def _faults(resource: str, quantity: int, cluster: Cluster) -> Iterator[tuple[str, str]]:
    if not resource.startswith(DEFAULT_RESOURCE_PREFIX):
        try:
            check_resource_name(resource)
        except Rejected as fault:
            yield str(fault), ERROR
        return
    name = resource.removeprefix(DEFAULT_RESOURCE_PREFIX)
    device = _INSTANCE.fullmatch(name)
    if name in cluster.device_configurations:
        yield from _configuration_level(name, quantity, cluster.device_configurations[name].form)
    elif device and device[1] in cluster.device_configurations:
        capacity = _capacity(cluster.device_configurations[device[1]].form)
        if quantity > capacity:
            yield f"asks for {quantity} slots of one device, which has {capacity} as '{device[1]}' says", ERROR
    elif cluster.lacks("deviceConfigurations", name):
        why = f"no device configuration '{name}' is in these files"
        yield why + cluster.guess("deviceConfigurations", name), WARNING


def _configuration_level(name: str, quantity: int, form: Form) -> Iterator[tuple[str, str]]:
    capacity, handler = _capacity(form), form["discoveryHandler"]
    if capacity == 0:
        yield f"nobody can use a device of '{name}': its capacity is 0", ERROR
        return
    if handler["name"] != "debugEcho":
        return
    try:
        devices = len(_descriptions(handler.get("discoveryDetails", "")))
    except Rejected:
        return
    distinct = form.get("distinct", "required") == "required"
    most = devices if distinct else devices * capacity
    if quantity > most:
        what = "different devices" if distinct else "slots"
        yield f"asks for {quantity} {what} of '{name}', which makes {most}: the workload will wait", WARNING


def _capacity(form: Form) -> int:
    capacity: int = form.get("capacity", 1)
    return capacity
