"""Converts execution states to protobuf messages and back. Short commands of `ank` import only these conversions.

An unset oneof or an unknown number is `Rejected`.
[impl->swdd~common-conversions-between-ankaios-and-proto~1]
"""

from typing import Any

from ankaios.common.errors import Rejected
from ankaios.common.execution_state import ExecutionState, HealthState
from ankaios.common.pb import ank_base_pb2 as base

_HEALTH: dict[str, Any] = {
    name.removeprefix("HEALTH_").capitalize(): number for name, number in base.HealthStatus.items()
}
_HEALTH_OF: dict[int, str] = {number: word for word, number in _HEALTH.items()}
HEALTH_WORDS = tuple(_HEALTH)


def _fields() -> dict[tuple[str, str], tuple[str, int]]:
    """Return the protobuf field and number of each state and substate.

    The words are the names in protobuf: `pending` and `PENDING_WAITING_TO_START` are Pending and WaitingToStart.
    """
    return {
        (field.name[0].upper() + field.name[1:], _sub_state(field.name, value.name)): (field.name, value.number)
        for field in base.ExecutionState.DESCRIPTOR.oneofs_by_name["ExecutionStateEnum"].fields
        for value in field.enum_type.values  # type: ignore[union-attr]
    }


def _sub_state(state: str, name: str) -> str:
    return name.removeprefix(f"{state.upper()}_").title().replace("_", "")


_FIELDS = _fields()
STATE_WORDS = tuple(dict.fromkeys(state for state, _ in _FIELDS))
SUB_STATE_WORDS = tuple(dict.fromkeys(sub_state for _, sub_state in _FIELDS))
_STATES = {field: ExecutionState(*words) for words, field in _FIELDS.items()}


def execution_state_to_pb(state: ExecutionState) -> base.ExecutionState:
    message = base.ExecutionState(additionalInfo=state.additional_info)
    set_execution_state(message, state.state, state.sub_state)
    if state.health is not None:
        message.health.status = _HEALTH[state.health.status]
        message.health.text = state.health.text
    if state.restarts:
        message.restarts = state.restarts
    return message


def _health_state_from_pb(message: base.ExecutionState) -> HealthState | None:
    if not message.HasField("health"):
        return None
    status = _HEALTH_OF.get(message.health.status)
    if status is None:
        raise Rejected(f"{message.health.status} is no known health status")
    return HealthState(status, message.health.text)


def set_execution_state(message: base.ExecutionState, state: str, sub_state: str) -> None:
    field, number = _FIELDS[state, sub_state]
    setattr(message, field, number)


def execution_state_from_pb(message: base.ExecutionState) -> ExecutionState:
    field = message.WhichOneof("ExecutionStateEnum")
    known = _STATES.get((field, getattr(message, field))) if field else None
    if known is None:
        raise Rejected("the execution state is not set or unknown")
    health = _health_state_from_pb(message)
    if health is None and not message.restarts:
        return known.because(message.additionalInfo) if message.additionalInfo else known
    return ExecutionState(known.state, known.sub_state, message.additionalInfo, health, message.restarts)
