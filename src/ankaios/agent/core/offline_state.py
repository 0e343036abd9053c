"""The data with which an agent starts its workloads without a server, as content of the state file. Pure.

Input: assigned workloads, states of other agents' workloads, the last device update of the server. Output: the content
of the state file, and the decoded data. Bytes that were not written by `encode_offline_state` are rejected: the file
contains its length and a checksum, so that lost and changed bits are detected.
"""

import zlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from ankaios.common.errors import Rejected
from ankaios.common.execution_state import ExecutionState
from ankaios.common.workload import InstanceName, WorkloadSpec

_FORMAT = "ankaios agent state 1"


class ForeignState(Struct, frozen=True):
    """The last known state of a workload instance of another agent."""

    name: InstanceName
    state: ExecutionState


class OfflineState(Struct, frozen=True):
    """`devices` is the encoded `DeviceUpdate` with the device configurations of this agent; it may be empty."""

    agent: str
    workloads: tuple[WorkloadSpec, ...] = ()
    states: tuple[ForeignState, ...] = ()
    devices: bytes = b""

    @property
    def dependencies(self) -> set[str]:
        """The workloads that the assigned workloads depend on."""
        return {name for spec in self.workloads for name in spec.dependencies}


def encode_offline_state(state: OfflineState) -> bytes:
    content = msgspec.json.encode(state)
    return f"{_FORMAT} {len(content)} {zlib.crc32(content):08x}\n".encode() + content


def decode_offline_state(data: bytes, agent: str) -> OfflineState:
    """Raises `Rejected` if the bytes are damaged or belong to another agent."""
    header, _, content = data.partition(b"\n")
    if header != f"{_FORMAT} {len(content)} {zlib.crc32(content):08x}".encode():
        raise Rejected("it is damaged")
    try:
        state = msgspec.json.decode(content, type=OfflineState)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise Rejected(f"it has unexpected content: {error}") from error
    if state.agent != agent:
        raise Rejected(f"it belongs to the agent '{state.agent}'")
    return state


def foreign_states(states: Mapping[InstanceName, ExecutionState], agent: str) -> tuple[ForeignState, ...]:
    """Return the states of other agents, sorted, so that equal states result in equal files."""
    return tuple(ForeignState(name, state) for name, state in sorted(states.items()) if name.agent != agent)
