"""The content of the state file: it is read as it was written, and every damage is detected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ankaios.agent.core.offline_state import (
    ForeignState,
    OfflineState,
    decode_offline_state,
    encode_offline_state,
    foreign_states,
)
from ankaios.common.errors import Rejected
from ankaios.common.execution_state import RUNNING_OK, ExecutionState, HealthState
from ankaios.common.pb.grpc_api_pb2 import AddedWorkload
from ankaios.common.proto_conversion import added_workload_from_pb
from ankaios.common.workload import InstanceName
from tests.support.builders import a_workload, added_workload_to_pb
from tests.unit.common.test_proto_conversion import FULL

DB = InstanceName("db", "1", "B")
STATE = OfflineState(
    "A",
    (FULL, a_workload("web")),
    (ForeignState(DB, ExecutionState("Running", "Ok", "healthy", HealthState("Healthy"), 2)),),
    b"\x00\xff",
)


def test_a_workload_is_equal_to_the_one_that_the_server_sends() -> None:
    """Otherwise it would be restarted when the server returns."""
    wire = AddedWorkload.FromString(added_workload_to_pb(FULL).SerializeToString())
    (read, _) = decode_offline_state(encode_offline_state(STATE), "A").workloads
    assert read == added_workload_from_pb(wire)


def test_the_written_state_is_read_unchanged() -> None:
    assert decode_offline_state(encode_offline_state(STATE), "A") == STATE
    assert decode_offline_state(encode_offline_state(OfflineState("A")), "A") == OfflineState("A")


def test_a_file_truncated_at_any_byte_is_rejected() -> None:
    data = encode_offline_state(STATE)
    for length in range(len(data)):
        with pytest.raises(Rejected, match="it is damaged"):
            decode_offline_state(data[:length], "A")


def test_a_file_with_any_changed_bit_is_rejected() -> None:
    data = encode_offline_state(STATE)
    for place in range(len(data)):
        for bit in range(8):
            changed = data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
            with pytest.raises(Rejected, match="it is damaged"):
                decode_offline_state(changed, "A")


@given(st.binary(max_size=300))
def test_other_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(Rejected):
        decode_offline_state(data, "A")


def test_the_file_of_another_agent_is_rejected() -> None:
    with pytest.raises(Rejected, match="it belongs to the agent 'A'"):
        decode_offline_state(encode_offline_state(STATE), "B")


def test_a_file_of_a_later_version_is_rejected_with_the_reason() -> None:
    odd = encode_offline_state(replace(STATE, agent=5))
    with pytest.raises(Rejected, match="it has unexpected content: Expected `str`"):
        decode_offline_state(odd, "A")


def test_only_states_of_other_agents_are_stored() -> None:
    own = InstanceName("db", "1", "A")
    assert foreign_states({own: RUNNING_OK, DB: RUNNING_OK}, "A") == (ForeignState(DB, RUNNING_OK),)
    assert STATE.dependencies == {"db"}
