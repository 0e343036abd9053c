"""Converts state records to protobuf messages and back. A record without name or with unknown state is `Rejected`."""

from ankaios.common.errors import Rejected
from ankaios.common.execution_state_conversion import execution_state_from_pb, execution_state_to_pb
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.proto_conversion import instance_name_from_pb, instance_name_to_pb
from ankaios.common.state_records import FROM_AGENT, StateRecord

_MOST_LINES, _LONGEST_LINE = 20, 500


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
