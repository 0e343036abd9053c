"""Dataclasses to protobuf messages and back, for everything that agents and the server exchange.

What cannot be converted (a missing name, an unset oneof, an unknown number) is `Rejected`.
[impl->swdd~common-conversions-between-ankaios-and-proto~1]
"""

from enum import IntEnum
from typing import TypeVar

from ankaios.common.errors import Rejected
from ankaios.common.execution_state import ExecutionState
from ankaios.common.execution_state_conversion import execution_state_from_pb, execution_state_to_pb
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import (
    AccessRule,
    AddCondition,
    ControlInterfaceAccess,
    DeleteCondition,
    DeletedWorkload,
    File,
    InstanceName,
    LogRule,
    Operation,
    Placement,
    ResourceRequest,
    RestartPolicy,
    StateRule,
    WorkloadSpec,
)

E = TypeVar("E", bound=IntEnum)


def instance_name_to_pb(name: InstanceName) -> base.WorkloadInstanceName:
    return base.WorkloadInstanceName(workloadName=name.workload, agentName=name.agent, id=name.id)


def instance_name_from_pb(message: base.WorkloadInstanceName) -> InstanceName:
    return InstanceName(message.workloadName, message.id, message.agentName)


def workload_state_to_pb(name: InstanceName, state: ExecutionState) -> base.WorkloadState:
    return base.WorkloadState(instanceName=instance_name_to_pb(name), executionState=execution_state_to_pb(state))


def workload_state_from_pb(message: base.WorkloadState) -> tuple[InstanceName, ExecutionState]:
    """A state without explicit additional information is refused, as by every Ankaios program."""
    if not message.HasField("instanceName") or not message.executionState.HasField("additionalInfo"):
        raise Rejected("the workload state lacks its instance name or additional information")
    return instance_name_from_pb(message.instanceName), execution_state_from_pb(message.executionState)


def _rule_to_pb(rule: AccessRule) -> base.AccessRightsRule:
    match rule:
        case StateRule(operation, masks):
            state_rule = base.StateRule(operation=operation.value, filterMasks=masks)  # type: ignore[arg-type]
            return base.AccessRightsRule(stateRule=state_rule)
        case LogRule(names):
            return base.AccessRightsRule(logRule=base.LogRule(workloadNames=names))


def _rule_from_pb(message: base.AccessRightsRule) -> AccessRule:
    match message.WhichOneof("AccessRightsRuleEnum"):
        case "stateRule":
            operation = _known(Operation, message.stateRule.operation, "operation")
            return StateRule(operation, tuple(message.stateRule.filterMasks))
        case "logRule":
            return LogRule(tuple(message.logRule.workloadNames))
        case _:
            raise Rejected("an access rule is neither a state rule nor a log rule")


def access_to_pb(access: ControlInterfaceAccess) -> base.ControlInterfaceAccess:
    return base.ControlInterfaceAccess(
        allowRules=[_rule_to_pb(rule) for rule in access.allow], denyRules=[_rule_to_pb(rule) for rule in access.deny]
    )


def access_from_pb(message: base.ControlInterfaceAccess) -> ControlInterfaceAccess:
    return ControlInterfaceAccess(
        tuple(map(_rule_from_pb, message.allowRules)), tuple(map(_rule_from_pb, message.denyRules))
    )


def file_to_pb(file: File) -> base.File:
    if file.data is not None:
        return base.File(mountPoint=file.mount_point, data=file.data)
    return base.File(mountPoint=file.mount_point, binaryData=file.binary_data or "")


def file_from_pb(message: base.File) -> File:
    match message.WhichOneof("FileContent"):
        case "data":
            return File(message.mountPoint, data=message.data)
        case "binaryData":
            return File(message.mountPoint, binary_data=message.binaryData)
        case _:
            raise Rejected(f"the file '{message.mountPoint}' has neither data nor binaryData")


def workload_to_pb(spec: WorkloadSpec) -> base.Workload:
    """Every part is present, also when empty: that is what agents of Eclipse Ankaios receive."""
    message = base.Workload(
        agent=spec.instance_name.agent,
        restartPolicy=spec.restart_policy.value,  # type: ignore[arg-type]
        dependencies=base.Dependencies(),
        tags=base.Tags(tags=spec.tags),
        runtime=spec.runtime,
        runtimeConfig=spec.runtime_config,
        controlInterfaceAccess=access_to_pb(spec.access),
        configs=base.ConfigMappings(),
        files=base.Files(files=[file_to_pb(file) for file in spec.files]),
    )
    for name, condition in spec.dependencies.items():
        message.dependencies.dependencies[name] = condition.value  # type: ignore[assignment]
    if spec.resources:
        message.resources.resources.extend(
            base.ResourceRequest(name=request.name, quantity=request.quantity, container=request.container)
            for request in spec.resources
        )
    if spec.placement is not None:
        message.placement.CopyFrom(base.Placement(tags=base.Tags(tags=spec.placement.tags)))
    return message


def workload_from_pb(name: InstanceName, message: base.Workload) -> WorkloadSpec:
    for field in ("agent", "runtime", "runtimeConfig"):
        if not message.HasField(field):
            raise Rejected(f"the workload '{name.workload}' lacks '{field}'")
    return WorkloadSpec(
        instance_name=name,
        runtime=message.runtime,
        runtime_config=message.runtimeConfig,
        restart_policy=_known(RestartPolicy, message.restartPolicy, "restart policy"),
        dependencies={
            other: _known(AddCondition, condition, "add condition")
            for other, condition in message.dependencies.dependencies.items()
        },
        tags=dict(message.tags.tags),
        files=tuple(map(file_from_pb, message.files.files)),
        access=access_from_pb(message.controlInterfaceAccess),
        resources=tuple(
            ResourceRequest(
                request.name, request.quantity, request.container if request.HasField("container") else None
            )
            for request in message.resources.resources
        ),
        placement=Placement(dict(message.placement.tags.tags)) if message.HasField("placement") else None,
    )


def added_workload_to_pb(spec: WorkloadSpec) -> grpc.AddedWorkload:
    return grpc.AddedWorkload(instanceName=instance_name_to_pb(spec.instance_name), workload=workload_to_pb(spec))


def added_workload_from_pb(message: grpc.AddedWorkload) -> WorkloadSpec:
    if not message.HasField("instanceName") or not message.HasField("workload"):
        raise Rejected("an added workload lacks its instance name or content")
    return workload_from_pb(instance_name_from_pb(message.instanceName), message.workload)


def deleted_workload_to_pb(deleted: DeletedWorkload) -> grpc.DeletedWorkload:
    message = grpc.DeletedWorkload(instanceName=instance_name_to_pb(deleted.instance_name))
    for name, condition in deleted.dependencies.items():
        message.dependencies[name] = condition.value  # type: ignore[assignment]
    return message


def deleted_workload_from_pb(message: grpc.DeletedWorkload) -> DeletedWorkload:
    if not message.HasField("instanceName"):
        raise Rejected("a deleted workload lacks its instance name")
    conditions = {
        name: _known(DeleteCondition, condition, "delete condition") for name, condition in message.dependencies.items()
    }
    return DeletedWorkload(instance_name_from_pb(message.instanceName), conditions)


def _known(kind: type[E], number: int, what: str) -> E:
    try:
        return kind(number)
    except ValueError:
        raise Rejected(f"{number} is no known {what}") from None
