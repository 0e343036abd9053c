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


class Story:
    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = AgentMetrics(lambda: self.now)

    def report(self, *states: ExecutionState, name: InstanceName = WEB.instance_name) -> None:
        for state in states:
            update = UpdateWorkloadState(workloadStates=[workload_state_to_pb(name, state)])
            self.metrics.sent(ToServer(updateWorkloadState=update))


def test_starts_exits_and_restarts_are_counted() -> None:
    story = Story()
    story.report(PENDING_STARTING, RUNNING_OK, RUNNING_OK.because("still"), exited(3))
    story.report(REMOVED, PENDING_STARTING, RUNNING_OK, SUCCEEDED_OK)
    metrics = story.metrics
    assert metrics.starts.values == {(): 2}
    assert metrics.exits.values == {("3",): 1, ("0",): 1}
    assert metrics.restarts.values == {(): 1}


def test_a_new_update_of_an_ended_workload_is_no_restart() -> None:
    story = Story()
    story.report(RUNNING_OK, exited(1), REMOVED)
    story.metrics.received(server_hello(WEB))
    story.report(RUNNING_OK)
    assert story.metrics.restarts.values == {(): 0}


def test_a_lost_workload_has_no_exit_code() -> None:
    story = Story()
    story.report(RUNNING_OK, FAILED_LOST)
    assert story.metrics.exits.values == {}


def test_times_are_measured_from_the_update_and_from_the_exit() -> None:
    story = Story()
    story.metrics.received(server_hello(WEB))
    story.now = 2.0
    story.report(RUNNING_OK)
    story.metrics.exit_seen(WEB.instance_name)
    story.now = 2.5
    story.report(exited(1))
    assert [found.sum for found in story.metrics.running_seconds.values.values()] == [2.0]
    assert [found.sum for found in story.metrics.report_seconds.values.values()] == [0.5]


def test_retries_requests_and_denials_are_counted() -> None:
    story = Story()
    story.report(PENDING_STARTING.because("Retry 1: no image"))
    story.metrics.sent(ToServer(request=Request(requestId="web@1")))
    story.metrics.request_denied()
    assert story.metrics.retries.values == {(): 1}
    assert story.metrics.control_requests.values == {(): 1}
    assert story.metrics.control_denials.values == {(): 1}


def test_workloads_are_counted_by_state_until_they_are_removed() -> None:
    story = Story()
    story.report(RUNNING_OK)
    story.report(PENDING_STARTING, name=InstanceName("db", "1", "A"))
    assert story.metrics.workloads.read() == {("Running",): 1, ("Pending",): 1}
    story.report(REMOVED)
    assert story.metrics.workloads.read() == {("Pending",): 1}


def test_health_is_counted_by_status() -> None:
    story = Story()
    story.report(replace(RUNNING_OK, health=HealthState(HEALTHY)))
    assert story.metrics.health.read() == {("healthy",): 1}
    story.report(exited(1))
    assert story.metrics.health.read() == {}


def test_device_slots_are_those_of_the_last_report() -> None:
    story = Story()
    resource = NodeResource(name="akri.sh/camera", capacity=5, allocatable=4, allocated=1)
    story.metrics.sent(ToServer(deviceReport=DeviceReport(complete=True, resources=[resource])))
    camera = "akri.sh/camera"
    assert story.metrics.device_slots.read() == {(camera, "used"): 1, (camera, "free"): 3, (camera, "unhealthy"): 1}
    story.metrics.sent(ToServer(deviceReport=DeviceReport(goneResources=[camera])))
    assert story.metrics.device_slots.read() == {}


def test_the_number_of_known_instances_is_bounded() -> None:
    story = Story()
    for number in range(MAX_INSTANCES + 5):
        story.metrics.exit_seen(InstanceName(f"w{number}", "1", "A"))
    assert len(story.metrics._instances) == MAX_INSTANCES


def test_a_state_that_is_none_is_ignored() -> None:
    story = Story()
    story.metrics.sent(ToServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[{}])))
    assert story.metrics.workloads.read() == {}
