"""Checks device configurations, and resource requests that cannot be satisfied as far as the files show.

Devices are discovered at run time. Of a request only this is known: whether its device configuration exists, the
capacity, and the number of devices of `debugEcho`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from ankaios.cli.validation.findings import ERROR, WARNING, Form, Problem, problems_of
from ankaios.cli.validation.manifest_set import ManifestSet
from ankaios.common.errors import Rejected
from ankaios.common.model.state import DEVICE_CONFIGURATION
from ankaios.common.suggestions import suggestion
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX, ResourceRequest
from ankaios.devices.core.configuration import check_configurations
from ankaios.devices.core.extended_resource import check_resource_name
from ankaios.devices.discovery.debug_echo import DebugEchoDetails
from ankaios.devices.discovery.details import read_details
from ankaios.devices.discovery.onvif.credentials import read_credentials
from ankaios.devices.discovery.onvif.handler import OnvifDetails
from ankaios.devices.discovery.opcua.handler import read_opcua_details
from ankaios.devices.discovery.udev.devices import UdevDetails, read_options
from ankaios.devices.discovery.udev.rules import parse_rules
from ankaios.server.core.brokers import PLACEHOLDER

_DEVICE_NAME = re.compile(r"(.+)-[0-9a-f]{6}")
Properties = Mapping[str, bytes | None]


# --- configurations ---------------------------------------------------------------------------------------------------


def check_device_configuration(name: str, form: Form, manifests: ManifestSet) -> Iterator[Problem]:
    configurations = manifests.device_configurations
    found = _DEVICE_NAME.fullmatch(name)
    related = [other for other in (name, found[1] if found else "") if other in configurations]
    messages = {other: DEVICE_CONFIGURATION.from_form(configurations[other].form) for other in related}
    yield from problems_of((), check_configurations, messages)
    yield from _check_handler(form["discoveryHandler"])


def _check_handler(handler: Form) -> Iterator[Problem]:
    name = handler["name"]
    if name not in _HANDLERS:
        hint = suggestion(name, _HANDLERS, ": one of this name must register with the agents")
        yield Problem(("discoveryHandler", "name"), f"'{name}' is no built-in discovery handler{hint}", WARNING)
        return
    given = handler.get("discoveryProperties", {})
    # The content of a reference is known to the agent only, and other properties may depend on it.
    is_known = all(isinstance(value, str) for value in given.values())
    properties = {key: value.encode() for key, value in given.items()} if is_known else {}
    try:
        _HANDLERS[name](handler.get("discoveryDetails", ""), properties)
    except Rejected as error:
        key = "discoveryProperties" if "propert" in str(error) or "credential" in str(error) else "discoveryDetails"
        yield Problem(("discoveryHandler", key), str(error))


def _check_udev(details: str, properties: Properties) -> None:
    given = read_details("udev", details, UdevDetails)
    parse_rules(given.udev_rules)
    read_options(given, properties)


def _check_onvif(details: str, properties: Properties) -> None:
    read_details("onvif", details, OnvifDetails)
    read_credentials(properties)


def _echo_descriptions(details: str) -> set[str]:
    return set(read_details("debugEcho", details, DebugEchoDetails).descriptions)


_HANDLERS: Mapping[str, Callable[[str, Properties], object]] = {
    "debugEcho": lambda details, _: _echo_descriptions(details),
    "udev": _check_udev,
    "onvif": _check_onvif,
    "opcua": lambda details, _: read_opcua_details(details),
}


# --- requests ---------------------------------------------------------------------------------------------------------


def check_resources(form: Form, manifests: ManifestSet) -> Iterator[Problem]:
    """`form` is a workload. Several requests for the same resource count as one larger request."""
    wanted: Counter[str] = Counter()
    for index, request in enumerate(form.get("resources", ())):
        if request["name"] == PLACEHOLDER:
            continue
        resource = ResourceRequest(request["name"], request["quantity"]).resource
        wanted[resource] += request["quantity"]
        for text, severity in _check_request(resource, wanted[resource], manifests):
            yield Problem(("resources", index, "name"), text, severity)


def _check_request(resource: str, quantity: int, manifests: ManifestSet) -> Iterator[tuple[str, str]]:
    configurations = manifests.device_configurations
    if not resource.startswith(DEFAULT_RESOURCE_PREFIX):
        try:
            check_resource_name(resource)
        except Rejected as error:
            yield str(error), ERROR
        return
    name = resource.removeprefix(DEFAULT_RESOURCE_PREFIX)
    device = _DEVICE_NAME.fullmatch(name)
    if name in configurations:
        yield from _check_quantity(name, quantity, configurations[name].form)
    elif device and device[1] in configurations:
        capacity = DEVICE_CONFIGURATION.value_in(configurations[device[1]].form, "capacity")
        if quantity > capacity:
            yield f"requests {quantity} slots of one device, but '{device[1]}' configures {capacity}", ERROR
    elif manifests.lacks("deviceConfigurations", name):
        text = f"no device configuration '{name}' is in these files"
        yield text + manifests.suggestion("deviceConfigurations", name), WARNING


def _check_quantity(name: str, quantity: int, form: Form) -> Iterator[tuple[str, str]]:
    capacity, handler = DEVICE_CONFIGURATION.value_in(form, "capacity"), form["discoveryHandler"]
    if capacity == 0:
        yield f"no workload can use a device of '{name}': its capacity is 0", ERROR
        return
    if handler["name"] != "debugEcho":
        return
    try:
        devices = len(_echo_descriptions(handler.get("discoveryDetails", "")))
    except Rejected:
        return
    distinct = form.get("distinct", "required") == "required"
    most = devices if distinct else devices * capacity
    if quantity > most:
        what = "different devices" if distinct else "slots"
        yield f"requests {quantity} {what} of '{name}', which makes {most}: the workload will wait", WARNING
