"""Workloads that serve devices, made of device configurations and the devices seen.

In: a configuration with a broker and its instances. Out: the workloads that are to run because of them, in the form of
the state. They stand in the effective state only. An instance that is offline keeps its broker: only one that is gone
takes it along, so a device that flaps causes nothing.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from ankaios.common.model.state import WORKLOAD
from ankaios.common.names import MAX_NAME_LENGTH
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX, InstanceName

Form = dict[str, Any]
PLACEHOLDER = "{{PLACEHOLDER}}"
CONFIGURATION_TAG = "akri-configuration"
INSTANCE_TAG = "akri-instance"
MOST_REPLICAS = 1000


def brokers_of(
    configuration: str,
    message: base.DeviceConfiguration,
    instances: Mapping[str, base.DeviceInstance],
    existing: Mapping[str, Form],
) -> dict[str, Form]:
    """All brokers of a configuration. `existing` are those there are: who has one keeps it if there is not enough.

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
    """One on each node that sees a device, as far as its capacity goes.

    [impl->akri~broker-per-node~1]
    """
    workloads: dict[str, Form] = {}
    for name, instance in instances.items():
        names = {
            node: broker_name(f"{name}-broker", node if instance.shared else "") for node in sorted(instance.nodes)
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
    """One job for each device, wherever there is room.

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
        workloads[broker_name(f"{name}-job")] = form
    return workloads


def _per_configuration(
    message: base.DeviceConfiguration, configuration: str, instances: Mapping[str, base.DeviceInstance]
) -> dict[str, Form]:
    """Replicas that ask for any devices of the configuration, no more than the devices can serve.

    [impl->akri~broker-on-configuration-level~1]
    """
    broker = message.broker
    quantity = broker.quantity if broker.HasField("quantity") else 1
    wanted = min(broker.replicas if broker.HasField("replicas") else 1, MOST_REPLICAS)
    capacities = [instance.capacity for instance in instances.values()]
    distinct = message.distinct == base.DISTINCT_REQUIRED
    possible = next((n for n in range(wanted, 0, -1) if _can_serve(capacities, n, quantity, distinct)), 0)
    workloads = {}
    for number in range(possible):
        form = _with_resource(broker, configuration, quantity)
        form["tags"] = {**form.get("tags", {}), CONFIGURATION_TAG: configuration}
        if not form.setdefault("agent", ""):
            form.setdefault("placement", {})
        workloads[broker_name(f"{configuration}-broker", str(number))] = form
    return workloads


def _can_serve(capacities: list[int], replicas: int, quantity: int, distinct: bool) -> bool:
    """Distinct devices: each serves a replica once."""
    return sum(min(capacity, replicas) if distinct else capacity for capacity in capacities) >= replicas * quantity


def _for_instance(broker: base.Broker, configuration: str, instance: str) -> Form:
    form = _with_resource(broker, instance, broker.quantity if broker.HasField("quantity") else 1)
    form["tags"] = {**form.get("tags", {}), CONFIGURATION_TAG: configuration, INSTANCE_TAG: instance}
    return form


def _with_resource(broker: base.Broker, target: str, quantity: int) -> Form:
    """The placeholder says which container gets the device and how often; without one, the workload as such gets it."""
    form = WORKLOAD.to_form(broker.workload)
    resource = DEFAULT_RESOURCE_PREFIX + target
    requests = [dict(request) for request in form.get("resources", ())]
    if not any(request["name"] == PLACEHOLDER for request in requests):
        requests.insert(0, {"name": PLACEHOLDER, "quantity": quantity})
    for request in requests:
        if request["name"] == PLACEHOLDER:
            request["name"] = resource
    return form | {"resources": requests}


def broker_name(base_name: str, suffix: str = "") -> str:
    """A name that is too long keeps its beginning and stays unique by a hash."""
    name = f"{base_name}-{suffix}" if suffix else base_name
    if len(name) <= MAX_NAME_LENGTH:
        return name
    digest = blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{name[: MAX_NAME_LENGTH - len(digest) - 1]}-{digest}"
