"""[utest->swdd~common-conversions-between-ankaios-and-proto~1]"""

import pytest

from ankaios.common import execution_state
from ankaios.common.errors import Rejected
from ankaios.common.execution_state import HEALTHY, RUNNING_OK, UNHEALTHY, ExecutionState, HealthState
from ankaios.common.execution_state_conversion import execution_state_from_pb, execution_state_to_pb
from ankaios.common.health import ExecCheck, FileCheck, Health, NotifyCheck, OnUnhealthy, TcpCheck
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import (
    added_workload_from_pb,
    deleted_workload_from_pb,
    deleted_workload_to_pb,
    workload_from_pb,
    workload_state_from_pb,
    workload_state_to_pb,
)
from ankaios.common.workload import (
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
from tests.support.builders import added_workload_to_pb

NAME = InstanceName.of("web", "A", "x")
FULL = WorkloadSpec(
    NAME,
    "podman",
    "x",
    RestartPolicy.ALWAYS,
    {"db": AddCondition.ADD_COND_SUCCEEDED},
    {"owner": "me"},
    (File("/a", data=""), File("/b", binary_data="eA==")),
    ControlInterfaceAccess((StateRule(Operation.READ_WRITE, ("*",)),), (LogRule(("web*",)),)),
    (ResourceRequest("cam", 2), ResourceRequest("gpu", 1, "pod/c")),
    Placement({"zone": "front"}),
    Health(
        exec=ExecCheck(command=("true",), interval="5s"),
        file=FileCheck(path="/ok", max_age="1m"),
        tcp=TcpCheck(port=1, failures=2),
        notify=NotifyCheck(timeout="100ms"),
        on_unhealthy=OnUnhealthy.STOP,
    ),
)
WITH_HEALTH = [
    ExecutionState("Running", "Ok", "", HealthState(HEALTHY)),
    ExecutionState("Running", "Ok", "unhealthy: x", HealthState(UNHEALTHY, "x"), 3),
]
ALL_STATES = [value for value in vars(execution_state).values() if isinstance(value, ExecutionState)] + WITH_HEALTH


@pytest.mark.parametrize("spec", [FULL, WorkloadSpec(NAME, "podman", "x")])
def test_a_workload_is_unchanged_by_the_message_to_an_agent(spec: WorkloadSpec) -> None:
    wire = added_workload_to_pb(spec).SerializeToString()
    assert added_workload_from_pb(grpc.AddedWorkload.FromString(wire)) == spec


def test_every_optional_part_of_a_sent_workload_is_present() -> None:
    workload = added_workload_to_pb(WorkloadSpec(NAME, "podman", "x")).workload
    for part in ("restartPolicy", "dependencies", "tags", "controlInterfaceAccess", "configs", "files"):
        assert workload.HasField(part), part


@pytest.mark.parametrize("state", ALL_STATES, ids=str)
def test_every_execution_state_is_unchanged_by_its_message(state: ExecutionState) -> None:
    """[utest->swdd~common-workload-states-supported-states~1]"""
    for sent in (state, state.because("why")):
        assert execution_state_from_pb(execution_state_to_pb(sent)) == sent


def test_a_sent_state_has_explicit_empty_additional_information() -> None:
    """[utest->swdd~common-workload-state-additional-information~1]"""
    message = workload_state_to_pb(NAME, RUNNING_OK)
    assert message.executionState.HasField("additionalInfo")
    assert workload_state_from_pb(message) == (NAME, RUNNING_OK)


@pytest.mark.parametrize(
    "state",
    [
        base.WorkloadState(executionState=execution_state_to_pb(RUNNING_OK)),
        base.WorkloadState(instanceName=base.WorkloadInstanceName(workloadName="web")),
        base.WorkloadState(
            instanceName=base.WorkloadInstanceName(workloadName="web"),
            executionState=base.ExecutionState(running=base.RUNNING_OK),
        ),
        base.WorkloadState(
            instanceName=base.WorkloadInstanceName(workloadName="web"),
            executionState=base.ExecutionState(additionalInfo=""),
        ),
        base.WorkloadState(
            instanceName=base.WorkloadInstanceName(workloadName="web"),
            executionState=base.ExecutionState(additionalInfo="", pending=77),  # type: ignore[arg-type]
        ),
    ],
)
def test_a_state_that_lacks_a_part_or_is_unknown_is_rejected(state: base.WorkloadState) -> None:
    with pytest.raises(Rejected):
        workload_state_from_pb(state)


def test_a_deleted_workload_is_unchanged_by_the_message_to_an_agent() -> None:
    deleted = DeletedWorkload(NAME, {"db": DeleteCondition.DEL_COND_NOT_PENDING_NOR_RUNNING})
    wire = deleted_workload_to_pb(deleted).SerializeToString()
    assert deleted_workload_from_pb(grpc.DeletedWorkload.FromString(wire)) == deleted


@pytest.mark.parametrize("missing", ["agent", "runtime", "runtimeConfig"])
def test_a_workload_without_a_required_field_is_rejected_by_name(missing: str) -> None:
    message = added_workload_to_pb(FULL).workload
    message.ClearField(missing)
    with pytest.raises(Rejected, match=f"'web' lacks '{missing}'"):
        workload_from_pb(NAME, message)


def test_names_content_oneofs_and_numbers_must_be_set_and_known() -> None:
    with pytest.raises(Rejected, match="instance name or content"):
        added_workload_from_pb(grpc.AddedWorkload())
    with pytest.raises(Rejected, match="lacks its instance name"):
        deleted_workload_from_pb(grpc.DeletedWorkload())
    workload = added_workload_to_pb(FULL)
    workload.workload.files.files.add(mountPoint="/c")
    with pytest.raises(Rejected, match="'/c' has neither data nor binaryData"):
        added_workload_from_pb(workload)
    unknown = deleted_workload_to_pb(DeletedWorkload(NAME))
    unknown.dependencies["x"] = 9  # type: ignore[assignment]
    with pytest.raises(Rejected, match="9 is no known DeleteCondition"):
        deleted_workload_from_pb(unknown)
    workload = added_workload_to_pb(FULL)
    workload.workload.restartPolicy = 9  # type: ignore[assignment]
    with pytest.raises(Rejected, match="9 is no known RestartPolicy"):
        added_workload_from_pb(workload)


def test_an_unknown_health_status_is_rejected() -> None:
    message = execution_state_to_pb(WITH_HEALTH[0])
    message.health.status = 77  # type: ignore[assignment]
    with pytest.raises(Rejected, match="77 is no known health status"):
        execution_state_from_pb(message)
