"""The complete state as plain dicts, lists and strings: the form people read and field masks walk.

Two directions: `*_to_form` turns protobuf into the form (wrapper messages vanish, keys are in protobuf order, unset
parts and empty collections are left out), `*_from_form` turns the form into protobuf. The form is what `ank get state`
prints, what update and field masks address and what events compare.

[impl->swdd~common-object-serialization~1]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ankaios.common.errors import Rejected
from ankaios.common.execution_state_conversion import execution_state_from_pb, set_execution_state
from ankaios.common.pb import ank_base_pb2 as base

Form = dict[str, Any]
V = TypeVar("V")
W = TypeVar("W")

OPERATIONS = {
    base.RW_NOTHING: "Nothing",
    base.RW_READ: "Read",
    base.RW_WRITE: "Write",
    base.RW_READ_WRITE: "ReadWrite",
}
DISTINCT = {base.DISTINCT_REQUIRED: "required", base.DISTINCT_PREFERRED: "preferred"}
ON_DEVICE_LOST = {
    base.ON_DEVICE_LOST_KEEP: "keep",
    base.ON_DEVICE_LOST_STOP: "stop",
    base.ON_DEVICE_LOST_RESTART: "restart",
}
BROKER_STRATEGIES = {
    base.BROKER_PER_NODE: "perNode",
    base.BROKER_PER_DEVICE: "perDevice",
    base.BROKER_PER_CONFIGURATION: "perConfiguration",
}


def _sorted(items: Mapping[str, V], convert: Callable[[V], W]) -> dict[str, W]:
    """Hash order is no order: everything that is a map is put in order of its keys."""
    return {key: convert(items[key]) for key in sorted(items)}


def _same(value: V) -> V:
    return value


# --- protobuf to form ------------------------------------------------------------------------------------------------


def complete_state_to_form(state: base.CompleteState) -> Form:
    form: Form = {}
    if state.HasField("desiredState"):
        form["desiredState"] = state_to_form(state.desiredState)
    if state.HasField("workloadStates"):
        form["workloadStates"] = workload_states_to_form(state.workloadStates)
    if state.HasField("agents"):
        form["agents"] = _sorted(state.agents.agents, agent_to_form)
    if state.HasField("effectiveState"):
        form["effectiveState"] = state_to_form(state.effectiveState)
    if state.deviceInstances.deviceInstances:
        form["deviceInstances"] = _sorted(state.deviceInstances.deviceInstances, device_instance_to_form)
    return form


def state_to_form(state: base.State) -> Form:
    form: Form = {"apiVersion": state.apiVersion}
    if state.HasField("workloads"):
        form["workloads"] = _sorted(state.workloads.workloads, workload_to_form)
    if state.configs.configs:
        form["configs"] = _sorted(state.configs.configs, config_item_to_form)
    if state.deviceConfigurations.deviceConfigurations:
        form["deviceConfigurations"] = _sorted(
            state.deviceConfigurations.deviceConfigurations, device_configuration_to_form
        )
    return form


def workload_to_form(workload: base.Workload) -> Form:
    form: Form = {}
    if workload.HasField("agent"):
        form["agent"] = workload.agent
    if workload.HasField("restartPolicy"):
        form["restartPolicy"] = _enum_name(base.RestartPolicy, workload.restartPolicy)
    if workload.dependencies.dependencies:
        form["dependencies"] = _sorted(
            workload.dependencies.dependencies, lambda number: _enum_name(base.AddCondition, number)
        )
    if workload.tags.tags:
        form["tags"] = _sorted(workload.tags.tags, _same)
    if workload.HasField("runtime"):
        form["runtime"] = workload.runtime
    if workload.HasField("runtimeConfig"):
        form["runtimeConfig"] = workload.runtimeConfig
    if access := _access_to_form(workload.controlInterfaceAccess):
        form["controlInterfaceAccess"] = access
    if workload.configs.configs:
        form["configs"] = _sorted(workload.configs.configs, _same)
    if workload.files.files:
        form["files"] = [_file_to_form(file) for file in workload.files.files]
    if workload.resources.resources:
        form["resources"] = [_resource_to_form(request) for request in workload.resources.resources]
    if workload.HasField("placement"):
        form["placement"] = _tags_to_form(workload.placement.tags)
    return form


def _enum_name(kind: Any, number: int) -> str:
    try:
        return str(kind.Name(number))
    except ValueError:
        raise Rejected(f"{number} is no known {kind.DESCRIPTOR.name}") from None


def _tags_to_form(tags: base.Tags) -> Form:
    return {"tags": _sorted(tags.tags, _same)} if tags.tags else {}


def _access_to_form(access: base.ControlInterfaceAccess) -> Form:
    form: Form = {}
    if access.allowRules:
        form["allowRules"] = [_rule_to_form(rule) for rule in access.allowRules]
    if access.denyRules:
        form["denyRules"] = [_rule_to_form(rule) for rule in access.denyRules]
    return form


def _rule_to_form(rule: base.AccessRightsRule) -> Form:
    match rule.WhichOneof("AccessRightsRuleEnum"):
        case "stateRule":
            operation = OPERATIONS.get(rule.stateRule.operation)
            if operation is None:
                raise Rejected(f"{rule.stateRule.operation} is no known operation of a state rule")
            return {"type": "StateRule", "operation": operation, "filterMasks": list(rule.stateRule.filterMasks)}
        case "logRule":
            return {"type": "LogRule", "workloadNames": list(rule.logRule.workloadNames)}
        case _:
            raise Rejected("an access rule is neither a state rule nor a log rule")


def _file_to_form(file: base.File) -> Form:
    match file.WhichOneof("FileContent"):
        case "data":
            return {"mountPoint": file.mountPoint, "data": file.data}
        case "binaryData":
            return {"mountPoint": file.mountPoint, "binaryData": file.binaryData}
        case _:
            raise Rejected(f"the file '{file.mountPoint}' has neither data nor binaryData")


def _resource_to_form(request: base.ResourceRequest) -> Form:
    form: Form = {"name": request.name, "quantity": request.quantity}
    if request.HasField("container"):
        form["container"] = request.container
    return form


def config_item_to_form(item: base.ConfigItem) -> Any:
    match item.WhichOneof("ConfigItemEnum"):
        case "String":
            return item.String
        case "array":
            return [config_item_to_form(value) for value in item.array.values]
        case "object":
            return _sorted(item.object.fields, config_item_to_form)
        case _:
            raise Rejected("a config item is neither a string, a list nor a map")


def workload_states_to_form(states: base.WorkloadStatesMap) -> Form:
    return _sorted(
        states.agentStateMap,
        lambda workloads: _sorted(
            workloads.wlNameStateMap, lambda ids: _sorted(ids.idStateMap, _execution_state_pb_to_form)
        ),
    )


def _execution_state_pb_to_form(message: base.ExecutionState) -> Form:
    form: Form = {"additionalInfo": message.additionalInfo} if message.HasField("additionalInfo") else {}
    if message.WhichOneof("ExecutionStateEnum"):  # a mask may ask for the additional information alone
        state = execution_state_from_pb(message)
        form |= {"state": state.state, "subState": state.sub_state}
    return form


def agent_to_form(agent: base.AgentAttributes) -> Form:
    form: Form = {}
    if agent.HasField("status"):
        status: Form = {}
        if agent.status.HasField("cpu_usage"):
            status["cpuUsage"] = agent.status.cpu_usage.cpu_usage
        if agent.status.HasField("free_memory"):
            status["freeMemory"] = agent.status.free_memory.free_memory
        form["status"] = status
    if agent.tags.tags:
        form["tags"] = _sorted(agent.tags.tags, _same)
    if agent.resources.resources:
        form["resources"] = [node_resource_to_form(resource) for resource in agent.resources.resources]
    return form


def node_resource_to_form(resource: base.NodeResource) -> Form:
    return {
        "name": resource.name,
        "capacity": resource.capacity,
        "allocatable": resource.allocatable,
        "allocated": resource.allocated,
    }


def device_configuration_to_form(configuration: base.DeviceConfiguration) -> Form:
    form: Form = {}
    if configuration.HasField("discoveryHandler"):
        form["discoveryHandler"] = _present(configuration.discoveryHandler, ("name", "discoveryDetails"))
        if properties := configuration.discoveryHandler.discoveryProperties.values:
            form["discoveryHandler"]["discoveryProperties"] = _sorted(properties, _same)
    if configuration.HasField("capacity"):
        form["capacity"] = configuration.capacity
    if configuration.brokerProperties.values:
        form["brokerProperties"] = _sorted(configuration.brokerProperties.values, _same)
    if configuration.HasField("broker"):
        form["broker"] = _broker_to_form(configuration.broker)
    if configuration.HasField("placement"):
        placement: Form = {}
        if configuration.placement.agents:
            placement["agents"] = list(configuration.placement.agents)
        form["placement"] = placement | _tags_to_form(configuration.placement.tags)
    if configuration.HasField("distinct"):
        form["distinct"] = _word(DISTINCT, configuration.distinct, "distinct")
    if configuration.HasField("offlineGraceSeconds"):
        form["offlineGraceSeconds"] = configuration.offlineGraceSeconds
    if configuration.HasField("onDeviceLost"):
        form["onDeviceLost"] = _word(ON_DEVICE_LOST, configuration.onDeviceLost, "onDeviceLost")
    return form


def _present(message: Any, names: tuple[str, ...]) -> Form:
    """Scalars that were set, so that a mask below a message shows nothing beside what it selects."""
    return {name: getattr(message, name) for name in names if message.HasField(name)}


def _word(words: Mapping[Any, str], number: int, what: str) -> str:
    try:
        return words[number]
    except KeyError:
        raise Rejected(f"{number} is no known value of {what}") from None


def _broker_to_form(broker: base.Broker) -> Form:
    form: Form = {}
    if broker.HasField("strategy"):
        form["strategy"] = _word(BROKER_STRATEGIES, broker.strategy, "strategy")
    if broker.HasField("workload"):
        form["workload"] = workload_to_form(broker.workload)
    return form | _present(broker, ("replicas", "quantity"))


def device_instance_to_form(instance: base.DeviceInstance) -> Form:
    form: Form = _present(instance, ("configurationName", "cdiName", "capacity", "shared"))
    if instance.nodes:
        form["nodes"] = list(instance.nodes)
    if instance.deviceUsage.values:
        form["deviceUsage"] = _sorted(instance.deviceUsage.values, _same)
    if instance.brokerProperties.values:
        form["brokerProperties"] = _sorted(instance.brokerProperties.values, _same)
    if instance.HasField("attributes"):
        form["attributes"] = _attributes_to_form(instance.attributes)
    if instance.slotOwners.values:
        form["slotOwners"] = _sorted(instance.slotOwners.values, _same)
    return form


def _attributes_to_form(attributes: base.DeviceAttributes) -> Form:
    form: Form = _present(attributes, ("id",))
    if attributes.mounts:
        form["mounts"] = [
            {"containerPath": mount.containerPath, "hostPath": mount.hostPath, "readOnly": mount.readOnly}
            for mount in attributes.mounts
        ]
    if attributes.deviceSpecs:
        form["deviceSpecs"] = [
            {"containerPath": spec.containerPath, "hostPath": spec.hostPath, "permissions": spec.permissions}
            for spec in attributes.deviceSpecs
        ]
    if attributes.HasField("online"):
        form["online"] = attributes.online
    return form


# --- form to protobuf ------------------------------------------------------------------------------------------------
#
# The form comes from a checked manifest, a parsed state or our own conversion above. Wrong types are told by protobuf
# itself as TypeError or ValueError; `Rejected` wraps them with the place.


def complete_state_from_form(form: Form) -> base.CompleteState:
    state = base.CompleteState()
    if "desiredState" in form:
        _at("desiredState", lambda: state.desiredState.CopyFrom(state_from_form(form["desiredState"])))
    if "workloadStates" in form:
        _at("workloadStates", lambda: state.workloadStates.CopyFrom(workload_states_from_form(form["workloadStates"])))
    if "agents" in form:
        _at("agents", lambda: _fill_agents(state.agents, form["agents"]))
    if "effectiveState" in form:
        _at("effectiveState", lambda: state.effectiveState.CopyFrom(state_from_form(form["effectiveState"])))
    if "deviceInstances" in form:
        _at("deviceInstances", lambda: _fill_device_instances(state.deviceInstances, form["deviceInstances"]))
    return state


def _fill_agents(agents: base.AgentMap, form: Form) -> None:
    agents.SetInParent()
    for name, attributes in form.items():
        agent = _at(f"agents.{name}", lambda given=attributes: agent_from_form(given))  # type: ignore[misc]
        agents.agents[name].CopyFrom(agent)


def _fill_device_instances(instances: base.DeviceInstanceMap, form: Form) -> None:
    instances.SetInParent()
    for name, instance in form.items():
        instances.deviceInstances[name].CopyFrom(device_instance_from_form(instance))


def _at(path: str, convert: Callable[[], V]) -> V:
    try:
        return convert()
    except (TypeError, ValueError, AttributeError, KeyError) as fault:
        raise Rejected(f"{path}: {fault}") from fault


def state_from_form(form: Form) -> base.State:
    state = base.State(apiVersion=form.get("apiVersion", ""))
    if "workloads" in form:
        state.workloads.SetInParent()
        for name, workload in (form["workloads"] or {}).items():
            _at(f"workloads.{name}", lambda n=name, w=workload: fill_workload(state.workloads.workloads[n], w))  # type: ignore[misc]
    if "configs" in form:
        state.configs.SetInParent()
        for name, item in (form["configs"] or {}).items():
            _at(f"configs.{name}", lambda n=name, i=item: fill_config_item(state.configs.configs[n], i))  # type: ignore[misc]
    if "deviceConfigurations" in form:
        state.deviceConfigurations.SetInParent()
        for name, configuration in (form["deviceConfigurations"] or {}).items():
            _at(
                f"deviceConfigurations.{name}",
                lambda n=name, c=configuration: state.deviceConfigurations.deviceConfigurations[n].CopyFrom(  # type: ignore[misc]
                    device_configuration_from_form(c)
                ),
            )
    return state


def fill_workload(workload: base.Workload, form: Form) -> None:
    for scalar in ("agent", "runtime", "runtimeConfig"):
        if scalar in form:
            setattr(workload, scalar, form[scalar])
    if "restartPolicy" in form:
        workload.restartPolicy = base.RestartPolicy.Value(form["restartPolicy"])  # type: ignore[assignment]
    if "dependencies" in form:
        workload.dependencies.SetInParent()
        for name, condition in form["dependencies"].items():
            workload.dependencies.dependencies[name] = base.AddCondition.Value(condition)  # type: ignore[assignment]
    if "tags" in form:
        workload.tags.SetInParent()
        workload.tags.tags.update(form["tags"])
    if "controlInterfaceAccess" in form:
        workload.controlInterfaceAccess.SetInParent()
        access = form["controlInterfaceAccess"]
        workload.controlInterfaceAccess.allowRules.extend(map(_rule_from_form, access.get("allowRules", ())))
        workload.controlInterfaceAccess.denyRules.extend(map(_rule_from_form, access.get("denyRules", ())))
    if "configs" in form:
        workload.configs.SetInParent()
        workload.configs.configs.update(form["configs"])
    if "files" in form:
        workload.files.SetInParent()
        workload.files.files.extend(base.File(**_only(file, _FILE_KEYS)) for file in form["files"])
    if "resources" in form:
        workload.resources.SetInParent()
        workload.resources.resources.extend(
            base.ResourceRequest(**_only(request, _RESOURCE_KEYS)) for request in form["resources"]
        )
    if "placement" in form:
        workload.placement.SetInParent()
        workload.placement.tags.tags.update(form["placement"].get("tags", {}))


_FILE_KEYS = ("mountPoint", "data", "binaryData")
_RESOURCE_KEYS = ("name", "quantity", "container")


def _only(form: Form, keys: tuple[str, ...]) -> Form:
    """Keys that mean nothing are ignored everywhere."""
    return {key: form[key] for key in keys if key in form}


_OPERATION_NUMBERS = {word: number for number, word in OPERATIONS.items()}


def _rule_from_form(form: Form) -> base.AccessRightsRule:
    match form.get("type"):
        case "StateRule":
            masks = form.get("filterMasks", form.get("filterMask", ()))
            rule = base.StateRule(operation=_OPERATION_NUMBERS[form["operation"]], filterMasks=masks)
            return base.AccessRightsRule(stateRule=rule)
        case "LogRule":
            return base.AccessRightsRule(logRule=base.LogRule(workloadNames=form.get("workloadNames", ())))
        case other:
            raise ValueError(f"'{other}' is no type of access rule, expected StateRule or LogRule")


def fill_config_item(item: base.ConfigItem, form: Any) -> None:
    if isinstance(form, str):
        item.String = form
    elif isinstance(form, list):
        item.array.SetInParent()
        for value in form:
            fill_config_item(item.array.values.add(), value)
    elif isinstance(form, dict):
        item.object.SetInParent()
        for key, value in form.items():
            fill_config_item(item.object.fields[key], value)
    else:
        raise TypeError(f"a config item is a string, a list or a map, not {form!r}")


def workload_states_from_form(form: Form) -> base.WorkloadStatesMap:
    states = base.WorkloadStatesMap()
    for agent, workloads in form.items():
        of_agent = states.agentStateMap[agent]
        for workload, ids in workloads.items():
            of_workload = of_agent.wlNameStateMap[workload]
            for instance_id, state in ids.items():
                fill_execution_state(of_workload.idStateMap[instance_id], state)
    return states


def fill_execution_state(message: base.ExecutionState, form: Form) -> None:
    """Of a state picked by masks any part may be missing; state and substate come together."""
    if (info := form.get("additionalInfo")) is not None:
        message.additionalInfo = info
    if "state" in form:
        set_execution_state(message, form["state"], form["subState"])


def agent_from_form(form: Form) -> base.AgentAttributes:
    agent = base.AgentAttributes()
    if (status := form.get("status")) is not None:
        agent.status.SetInParent()
        if "cpuUsage" in status:
            agent.status.cpu_usage.cpu_usage = status["cpuUsage"]
            agent.status.cpu_usage.SetInParent()
        if "freeMemory" in status:
            agent.status.free_memory.free_memory = status["freeMemory"]
            agent.status.free_memory.SetInParent()
    if "tags" in form:
        agent.tags.SetInParent()
        agent.tags.tags.update(form["tags"])
    if "resources" in form:
        agent.resources.resources.extend(base.NodeResource(**resource) for resource in form["resources"])
    return agent


_DISTINCT_NUMBERS = {word: number for number, word in DISTINCT.items()}
_ON_DEVICE_LOST_NUMBERS = {word: number for number, word in ON_DEVICE_LOST.items()}
_BROKER_STRATEGY_NUMBERS = {word: number for number, word in BROKER_STRATEGIES.items()}


def device_configuration_from_form(form: Form) -> base.DeviceConfiguration:
    """Of a configuration picked by masks any part may be missing."""
    configuration = base.DeviceConfiguration()
    if "discoveryHandler" in form:
        handler = form["discoveryHandler"]
        configuration.discoveryHandler.SetInParent()
        for text in ("name", "discoveryDetails"):
            if text in handler:
                setattr(configuration.discoveryHandler, text, handler[text])
        configuration.discoveryHandler.discoveryProperties.values.update(handler.get("discoveryProperties", {}))
    for number in ("capacity", "offlineGraceSeconds"):
        if number in form:
            setattr(configuration, number, form[number])
    if "brokerProperties" in form:
        configuration.brokerProperties.values.update(form["brokerProperties"])
    if "broker" in form:
        configuration.broker.CopyFrom(_broker_from_form(form["broker"]))
    if "placement" in form:
        configuration.placement.SetInParent()
        configuration.placement.agents.extend(form["placement"].get("agents", ()))
        configuration.placement.tags.tags.update(form["placement"].get("tags", {}))
    if "distinct" in form:
        configuration.distinct = _DISTINCT_NUMBERS[form["distinct"]]
    if "onDeviceLost" in form:
        configuration.onDeviceLost = _ON_DEVICE_LOST_NUMBERS[form["onDeviceLost"]]
    return configuration


def _broker_from_form(form: Form) -> base.Broker:
    broker = base.Broker()
    if "strategy" in form:
        broker.strategy = _BROKER_STRATEGY_NUMBERS[form["strategy"]]
    if "workload" in form:
        broker.workload.SetInParent()
        fill_workload(broker.workload, form["workload"])
    for number in ("replicas", "quantity"):
        if number in form:
            setattr(broker, number, form[number])
    return broker


def device_instance_from_form(form: Form) -> base.DeviceInstance:
    scalars = _only(form, ("configurationName", "cdiName", "capacity", "shared"))
    instance = base.DeviceInstance(**scalars, nodes=form.get("nodes", ()))
    for name in ("deviceUsage", "brokerProperties", "slotOwners"):
        if name in form:
            getattr(instance, name).values.update(form[name])
    if "attributes" in form:
        attributes = form["attributes"]
        instance.attributes.SetInParent()
        if "id" in attributes:
            instance.attributes.id = attributes["id"]
        instance.attributes.mounts.extend(base.DeviceMount(**mount) for mount in attributes.get("mounts", ()))
        instance.attributes.deviceSpecs.extend(base.DeviceNode(**node) for node in attributes.get("deviceSpecs", ()))
        if "online" in attributes:
            instance.attributes.online = attributes["online"]
    return instance
