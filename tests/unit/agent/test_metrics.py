"""Metrics of the agent, derived from its messages."""

from msgspec.structs import replace

from ankaios.agent.metrics import MAX_INSTANCES, AgentMetrics
from ankaios.common.execution_state import (
    FAILED_LOST,
    HEALTHY,
    PENDING_STARTING,
    REMOVED,
    RUNNING_OK,
    SUCCEEDED_OK,
    ExecutionState,
    HealthState,
    exited,
)
from ankaios.common.pb.ank_base_pb2 import NodeResource, Request
from ankaios.common.pb.grpc_api_pb2 import DeviceReport, ToServer, UpdateWorkloadState
from ankaios.common.proto_conversion import workload_state_to_pb
from ankaios.common.workload import InstanceName
from tests.support.builders import a_workload
from tests.unit.agent.harness import server_hello

WEB = a_workload("web", "A")


class Scenario:
    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = AgentMetrics(lambda: self.now)

    def report(self, *states: ExecutionState, name: InstanceName = WEB.instance_name) -> None:
        for state in states:
            update = UpdateWorkloadState(workloadStates=[workload_state_to_pb(name, state)])
            self.metrics.sent(ToServer(updateWorkloadState=update))


def test_starts_exits_and_restarts_are_counted() -> None:
    scenario = Scenario()
    scenario.report(PENDING_STARTING, RUNNING_OK, RUNNING_OK.because("still"), exited(3))
    scenario.report(REMOVED, PENDING_STARTING, RUNNING_OK, SUCCEEDED_OK)
    metrics = scenario.metrics
    assert metrics.starts.values == {(): 2}
    assert metrics.exits.values == {("3",): 1, ("0",): 1}
    assert metrics.restarts.values == {(): 1}


def test_a_new_update_of_an_ended_workload_is_no_restart() -> None:
    scenario = Scenario()
    scenario.report(RUNNING_OK, exited(1), REMOVED)
    scenario.metrics.received(server_hello(WEB))
    scenario.report(RUNNING_OK)
    assert scenario.metrics.restarts.values == {(): 0}


def test_a_lost_workload_has_no_exit_code() -> None:
    scenario = Scenario()
    scenario.report(RUNNING_OK, FAILED_LOST)
    assert scenario.metrics.exits.values == {}


def test_times_are_measured_from_the_update_and_from_the_exit() -> None:
    scenario = Scenario()
    scenario.metrics.received(server_hello(WEB))
    scenario.now = 2.0
    scenario.report(RUNNING_OK)
    scenario.metrics.exit_seen(WEB.instance_name)
    scenario.now = 2.5
    scenario.report(exited(1))
    assert [found.sum for found in scenario.metrics.running_seconds.values.values()] == [2.0]
    assert [found.sum for found in scenario.metrics.report_seconds.values.values()] == [0.5]


def test_retries_requests_and_denials_are_counted() -> None:
    scenario = Scenario()
    scenario.report(PENDING_STARTING.because("Retry 1: no image"))
    scenario.metrics.sent(ToServer(request=Request(requestId="web@1")))
    scenario.metrics.request_denied()
    assert scenario.metrics.retries.values == {(): 1}
    assert scenario.metrics.control_requests.values == {(): 1}
    assert scenario.metrics.control_denials.values == {(): 1}


def test_workloads_are_counted_by_state_until_they_are_removed() -> None:
    scenario = Scenario()
    scenario.report(RUNNING_OK)
    scenario.report(PENDING_STARTING, name=InstanceName("db", "1", "A"))
    assert scenario.metrics.workloads.read() == {("Running",): 1, ("Pending",): 1}
    scenario.report(REMOVED)
    assert scenario.metrics.workloads.read() == {("Pending",): 1}


def test_health_is_counted_by_status() -> None:
    scenario = Scenario()
    scenario.report(replace(RUNNING_OK, health=HealthState(HEALTHY)))
    assert scenario.metrics.health.read() == {("healthy",): 1}
    scenario.report(exited(1))
    assert scenario.metrics.health.read() == {}


def test_device_slots_are_those_of_the_last_report() -> None:
    scenario = Scenario()
    resource = NodeResource(name="akri.sh/camera", capacity=5, allocatable=4, allocated=1)
    scenario.metrics.sent(ToServer(deviceReport=DeviceReport(complete=True, resources=[resource])))
    camera = "akri.sh/camera"
    assert scenario.metrics.device_slots.read() == {(camera, "used"): 1, (camera, "free"): 3, (camera, "unhealthy"): 1}
    scenario.metrics.sent(ToServer(deviceReport=DeviceReport(goneResources=[camera])))
    assert scenario.metrics.device_slots.read() == {}


def test_the_number_of_known_instances_is_bounded() -> None:
    scenario = Scenario()
    for number in range(MAX_INSTANCES + 5):
        scenario.metrics.exit_seen(InstanceName(f"w{number}", "1", "A"))
    assert len(scenario.metrics._instances) == MAX_INSTANCES


def test_an_unset_state_is_ignored() -> None:
    scenario = Scenario()
    scenario.metrics.sent(ToServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[{}])))
    assert scenario.metrics.workloads.read() == {}
