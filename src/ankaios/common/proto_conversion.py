"""Converts typed objects to protobuf messages and back, for the messages between agents and server.

A message that lacks a name or a required field, has an unset oneof or an unknown number is `Rejected`.
[impl->swdd~common-conversions-between-ankaios-and-proto~1]
"""

from msgspec import convert

from ankaios.common.errors import Rejected
from ankaios.common.execution_state import ExecutionState
from ankaios.common.execution_state_conversion import execution_state_from_pb, execution_state_to_pb
from ankaios.common.model.scalars import Enumeration
from ankaios.common.model.state import WORKLOAD
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.state_records import FROM_AGENT, StateRecord
from ankaios.common.workload import DeleteCondition, DeletedWorkload, InstanceName, WorkloadSpec

_DELETE = Enumeration(grpc.DeleteCondition)
_MOST_LINES, _LONGEST_LINE = 20, 500  # of the output in a record


def instance_name_to_pb(name: InstanceName) -> base.WorkloadInstanceName:
    return base.WorkloadInstanceName(workloadName=name.workload, agentName=name.agent, id=name.id)


def instance_name_from_pb(message: base.WorkloadInstanceName) -> InstanceName:
    return InstanceName(message.workloadName, message.id, message.agentName)


def workload_state_to_pb(name: InstanceName, state: ExecutionState) -> base.WorkloadState:
    return base.WorkloadState(instanceName=instance_name_to_pb(name), executionState=execution_state_to_pb(state))


def workload_state_from_pb(message: base.WorkloadState) -> tuple[InstanceName, ExecutionState]:
    """Reject a state without explicit additional information, as all Ankaios programs do."""
    if not message.HasField("instanceName") or not message.executionState.HasField("additionalInfo"):
        raise Rejected("the workload state lacks its instance name or additional information")
    return instance_name_from_pb(message.instanceName), execution_state_from_pb(message.executionState)


def workload_from_pb(name: InstanceName, message: base.Workload) -> WorkloadSpec:
    for field in WORKLOAD.required:
        if not message.HasField(field):
            raise Rejected(f"the workload '{name.workload}' lacks '{field}'")
    return convert({"instanceName": name, **WORKLOAD.to_form(message)}, WorkloadSpec)


def added_workload_from_pb(message: grpc.AddedWorkload) -> WorkloadSpec:
    if not message.HasField("instanceName") or not message.HasField("workload"):
        raise Rejected("an added workload lacks its instance name or content")
    return workload_from_pb(instance_name_from_pb(message.instanceName), message.workload)


def deleted_workload_to_pb(deleted: DeletedWorkload) -> grpc.DeletedWorkload:
    message = grpc.DeletedWorkload(instanceName=instance_name_to_pb(deleted.instance_name))
    for name, condition in deleted.dependencies.items():
        message.dependencies[name] = _DELETE.to_wire(condition.value)  # type: ignore[assignment]
    return message


def deleted_workload_from_pb(message: grpc.DeletedWorkload) -> DeletedWorkload:
    if not message.HasField("instanceName"):
        raise Rejected("a deleted workload lacks its instance name")
    conditions = {name: DeleteCondition(_DELETE.to_form(number)) for name, number in message.dependencies.items()}
    return DeletedWorkload(instance_name_from_pb(message.instanceName), conditions)


def record_to_pb(record: StateRecord) -> base.WorkloadRecord:
    return base.WorkloadRecord(
        instanceName=instance_name_to_pb(record.name),
        timeMs=record.time_ms,
        executionState=execution_state_to_pb(record.state),
        source=record.source,
        exitCode=record.exit_code,
        output=record.output,
        outOfMemory=record.out_of_memory,
        nextAttemptMs=record.next_ms,
    )


def record_from_pb(message: base.WorkloadRecord) -> StateRecord:
    """Convert a record that an agent has sent."""
    if not message.instanceName.workloadName:
        raise Rejected("the record lacks its instance name")
    return StateRecord(
        name=instance_name_from_pb(message.instanceName),
        time_ms=max(0, message.timeMs),
        state=execution_state_from_pb(message.executionState),
        source=FROM_AGENT,
        exit_code=message.exitCode if message.HasField("exitCode") else None,
        output=tuple(line[:_LONGEST_LINE] for line in message.output[:_MOST_LINES]),
        out_of_memory=message.outOfMemory,
        next_ms=max(0, message.nextAttemptMs),
    )
