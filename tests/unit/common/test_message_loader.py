"""The message classes are the same with the light loader as with that of the protobuf package."""

import copy
import pickle
import subprocess
import sys

import pytest
from google.protobuf.message import DecodeError, Message

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc

LOOK = """
import sys
{before}
from ankaios.common.pb import grpc_api_pb2 as grpc, ank_base_pb2 as base
wanted = base.CompleteStateRequest(fieldMask=["b"])
message = grpc.ToServer(request=base.Request(requestId="a", completeStateRequest=wanted))
again = grpc.ToServer.FromString(message.SerializeToString())
assert again == message and again.WhichOneof("ToServerEnum") == "request"
states = base.WorkloadStatesMap()
states.agentStateMap["a"].wlNameStateMap["b"].idStateMap["c"].running = base.RUNNING_OK
assert base.AddCondition.Name(base.ADD_COND_RUNNING) == "ADD_COND_RUNNING"
print(message.SerializeToString().hex(), *sorted(name for name in vars(base) if name[0] != "_"))
print(*sys.modules)
"""


def look(before: str, **environ: str) -> tuple[str, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(before=before)], capture_output=True, text=True, check=True, env=environ
    )
    seen, modules = done.stdout.splitlines()
    return seen, set(modules.split())


def test_without_the_c_implementation_the_package_loads_the_same_classes() -> None:
    light, _ = look("")
    as_ever, modules = look("sys.modules['google._upb'] = None", PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="python")
    assert "google.protobuf.internal.builder" in modules
    assert light == as_ever


@pytest.mark.parametrize("kind", [base.CompleteState, base.Workload, grpc.ToServer, base.ConfigMappings])
def test_classes_know_where_they_come_from(kind: type[Message]) -> None:
    assert getattr(sys.modules[kind.__module__], kind.__qualname__) is kind
    assert issubclass(kind, Message)


def test_messages_can_be_copied_and_pickled() -> None:
    message = base.Workload(agent="a", runtime="r")
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)) == message


def test_nested_classes_are_members_of_their_outer_ones() -> None:
    assert base.WorkloadMap.WorkloadsEntry.DESCRIPTOR.containing_type is base.WorkloadMap.DESCRIPTOR


def test_garbage_is_a_decode_error() -> None:
    with pytest.raises(DecodeError):
        base.Workload.FromString(b"\xff\xff")
