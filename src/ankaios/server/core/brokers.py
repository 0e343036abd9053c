"""Brokers: workloads that serve devices, made from device configurations and their instances.

Input: a configuration with a broker and its instances. Output: the workloads that have to run, rendered. They are part
of the effective state only. A broker is removed with its instance; while the instance is offline, the broker stays.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ankaios.common.errors import Rejected
from ankaios.common.model.state import BROKER, WORKLOAD
from ankaios.common.names import MAX_REPLICAS
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_manipulation import Form
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX, InstanceName
from ankaios.server.core.config_renderer import render_workload
from ankaios.server.core.conventions import check_rendered_workload
from ankaios.server.core.replicas import derived_name

PLACEHOLDER = "{{PLACEHOLDER}}"
CONFIGURATION_TAG = "akri-configuration"
INSTANCE_TAG = "akri-instance"


class BrokerSet(Struct, frozen=True):
    """The brokers of one configuration as made, before placement.

    `names` are the names of all its brokers, also of those that are not made because a user workload has the name.
    """

    forms: Mapping[str, Form] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    faults: tuple[str, ...] = ()

    def without(self, names: Container[str]) -> "BrokerSet":
        return replace(self, forms={name: form for name, form in self.forms.items() if name not in names})


def config_references(form: Form) -> Iterator[tuple[str, str]]:
    """The configuration items that a device configuration refers to, with the part that does."""
    for key in form.get("broker", {}).get("workload", {}).get("configs", {}).values():
        yield "the broker", key
    for name, value in form["discoveryHandler"].get("discoveryProperties", {}).items() if form else ():
        if isinstance(value, dict) and "config" in value:
            yield f"the property '{name}'", value["config"]


def plan_brokers(
    configuration: str,
    message: base.DeviceConfiguration,
    instances: Mapping[str, base.DeviceInstance],
    existing: Mapping[str, Form],
    user_workloads: Container[str],
    config_of: Callable[[str], Any],
) -> BrokerSet:
    """The brokers of a configuration. A user workload with the name of a broker takes precedence."""
    wanted = brokers_of(configuration, message, instances, existing)
    forms: dict[str, Form] = {}
    faults: list[str] = []
    for name, form in wanted.items():
        if name in user_workloads:
            continue
        try:
            workload = render_workload(name, form, config_of)
            check_rendered_workload(workload)
            forms[name] = workload.form
        except Rejected as fault:
            faults.append(f"The broker '{name}' cannot be made: {fault}")
    return BrokerSet(forms, frozenset(wanted), tuple(faults))


def brokers_of(
    configuration: str,
    message: base.DeviceConfiguration,
    instances: Mapping[str, base.DeviceInstance],
    existing: Mapping[str, Form],
) -> dict[str, Form]:
    """All brokers of a configuration. If there is not enough capacity, those in `existing` take precedence.

    [impl->akri~broker-removed-with-device~1]
    """
    if not message.HasField("broker"):
        return {}
    seen = {name: it for name, it in sorted(instances.items()) if it.configurationName == configuration}
    match message.broker.strategy:
        case base.BROKER_PER_NODE:
            return _per_node(message.broker, configuration, seen, existing)
        case base.BROKER_PER_DEVICE:
            return _per_device(message.broker, configuration, seen)
        case base.BROKER_PER_CONFIGURATION:
            return _per_configuration(message, configuration, seen)
        case _:
            return {}


def _per_node(
    broker: base.Broker, configuration: str, instances: Mapping[str, base.DeviceInstance], existing: Mapping[str, Form]
) -> dict[str, Form]:
    """One on each node that sees a device, up to the capacity of the device.

    [impl->akri~broker-per-node~1]
    """
    workloads: dict[str, Form] = {}
    for name, instance in instances.items():
        names = {
            node: derived_name(f"{name}-broker", node if instance.shared else "") for node in sorted(instance.nodes)
        }
        owners = map(InstanceName.parse, instance.slotOwners.values.values())
        using = {owner.workload for owner in owners if owner is not None}
        served = sorted(names, key=lambda node: (names[node] not in using, names[node] not in existing, node))
        for node in served[: instance.capacity]:
            workloads[names[node]] = _for_instance(broker, configuration, name) | {"agent": node}
    return dict(sorted(workloads.items()))


def _per_device(
    broker: base.Broker, configuration: str, instances: Mapping[str, base.DeviceInstance]
) -> dict[str, Form]:
    """One job for each device, on any agent that can run it.

    [impl->akri~broker-job-per-device~1]
    """
    workloads: dict[str, Form] = {}
    for name, instance in instances.items():
        form = _for_instance(broker, configuration, name)
        if instance.shared:
            form |= {"agent": ""}
            form.setdefault("placement", {})
        else:
            form |= {"agent": min(instance.nodes, default="")}
            form.pop("placement", None)
        workloads[derived_name(f"{name}-job")] = form
    return workloads


def _per_configuration(
    message: base.DeviceConfiguration, configuration: str, instances: Mapping[str, base.DeviceInstance]
) -> dict[str, Form]:
    """Replicas that request any devices of the configuration, at most as many as the devices can serve.

    [impl->akri~broker-on-configuration-level~1]
    """
    broker = message.broker
    quantity = BROKER.value_of(broker, "quantity")
    wanted = min(BROKER.value_of(broker, "replicas"), MAX_REPLICAS)
    capacities = [instance.capacity for instance in instances.values()]
    distinct = message.distinct == base.DISTINCT_REQUIRED
    possible = next((n for n in range(wanted, 0, -1) if _can_serve(capacities, n, quantity, distinct)), 0)
    workloads = {}
    for number in range(possible):
        form = _with_resource(broker, configuration, quantity)
        form["tags"] = {**form.get("tags", {}), CONFIGURATION_TAG: configuration}
        if not form.setdefault("agent", ""):
            form.setdefault("placement", {})
        workloads[derived_name(f"{configuration}-broker", str(number))] = form
    return workloads


def _can_serve(capacities: list[int], replicas: int, quantity: int, distinct: bool) -> bool:
    """If devices must be distinct, each device serves a replica once."""
    return sum(min(capacity, replicas) if distinct else capacity for capacity in capacities) >= replicas * quantity


def _for_instance(broker: base.Broker, configuration: str, instance: str) -> Form:
    form = _with_resource(broker, instance, BROKER.value_of(broker, "quantity"))
    form["tags"] = {**form.get("tags", {}), CONFIGURATION_TAG: configuration, INSTANCE_TAG: instance}
    return form


def _with_resource(broker: base.Broker, target: str, quantity: int) -> Form:
    """The placeholder names the container that gets the device, and the quantity; without it the workload gets it."""
    form = WORKLOAD.to_form(broker.workload)
    resource = DEFAULT_RESOURCE_PREFIX + target
    requests = [dict(request) for request in form.get("resources", ())]
    if not any(request["name"] == PLACEHOLDER for request in requests):
        requests.insert(0, {"name": PLACEHOLDER, "quantity": quantity})
    for request in requests:
        if request["name"] == PLACEHOLDER:
            request["name"] = resource
    return form | {"resources": requests}
