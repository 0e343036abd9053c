from hypothesis import given
from hypothesis import strategies as st

from ankaios.agent.core.outgoing_queue import MAX_QUEUED, OutgoingMessage, OutgoingQueue
from ankaios.common.execution_state import RUNNING_OK, SUCCEEDED_OK, ExecutionState
from ankaios.common.pb.ank_base_pb2 import CpuUsage, Request
from ankaios.common.pb.grpc_api_pb2 import AgentLoadStatus, LogsStopResponse, ToServer, UpdateWorkloadState
from ankaios.common.proto_conversion import workload_state_to_pb
from ankaios.common.workload import InstanceName


def name(number: int) -> InstanceName:
    return InstanceName(f"w{number}", "1", "A")


def state(number: int, state: ExecutionState = RUNNING_OK) -> ToServer:
    update = UpdateWorkloadState(workloadStates=[workload_state_to_pb(name(number), state)])
    return ToServer(updateWorkloadState=update)


def load(percent: int) -> ToServer:
    return ToServer(AgentLoadStatus=AgentLoadStatus(cpu_usage=CpuUsage(cpu_usage=percent)))


def request(text: str) -> ToServer:
    return ToServer(request=Request(requestId=text))


LOG = ToServer(logsStopResponse=LogsStopResponse(requestId="1"))


def everything(queue: OutgoingQueue) -> list[ToServer]:
    found = []
    while (message := queue.take()) is not None:
        found.append(message)
    return found


def test_online_all_messages_are_sent_in_order_including_repeated_ones() -> None:
    queue = OutgoingQueue()
    queue.go_online()
    queue.put(OutgoingMessage(state(1), name(1)))
    queue.put(OutgoingMessage(request("a")))
    queue.put(OutgoingMessage(LOG, is_transient=True))
    queue.put(OutgoingMessage(state(1), name(1)))
    queue.put(OutgoingMessage(load(1), "load"))
    queue.put(OutgoingMessage(load(2), "load"))
    assert len(queue) == 6
    assert everything(queue) == [state(1), request("a"), LOG, state(1), load(1), load(2)]


def test_offline_only_the_newest_state_of_each_and_the_newest_load_matter() -> None:
    queue = OutgoingQueue()
    queue.put(OutgoingMessage(load(1), "load"))
    queue.put(OutgoingMessage(state(1), name(1)))
    queue.put(OutgoingMessage(state(2), name(2)))
    queue.put(OutgoingMessage(request("a")))
    queue.put(OutgoingMessage(state(1, SUCCEEDED_OK), name(1)))
    queue.put(OutgoingMessage(load(2), "load"))
    queue.put(OutgoingMessage(LOG, is_transient=True))
    queue.go_online()
    assert everything(queue) == [state(2), request("a"), state(1, SUCCEEDED_OK), load(2)]


def test_queued_messages_are_reduced_when_the_connection_breaks() -> None:
    queue = OutgoingQueue()
    queue.go_online()
    queue.put(OutgoingMessage(state(1), name(1)))
    queue.put(OutgoingMessage(state(1, SUCCEEDED_OK), name(1)))
    queue.put(OutgoingMessage(request("a")))
    queue.put(OutgoingMessage(LOG, is_transient=True))
    queue.go_offline()
    assert everything(queue) == [state(1, SUCCEEDED_OK), request("a")]


def test_senders_are_notified_when_their_message_is_sent_or_dropped() -> None:
    queue = OutgoingQueue()
    left: list[str] = []
    queue.put(OutgoingMessage(request("a"), left=lambda: left.append("a")))
    queue.put(OutgoingMessage(LOG, is_transient=True, left=lambda: left.append("offline")))
    queue.go_online()
    queue.put(OutgoingMessage(LOG, is_transient=True, left=lambda: left.append("log")))
    assert left == ["offline"]
    queue.go_offline()
    assert left == ["offline", "log"]
    queue.take()
    assert left == ["offline", "log", "a"]


def test_a_server_that_does_not_read_costs_one_state_per_instance() -> None:
    queue = OutgoingQueue()
    queue.go_online()
    for number in range(3 * MAX_QUEUED):
        queue.put(OutgoingMessage(state(number % 10), name(number % 10)))
        queue.put(OutgoingMessage(load(1), "load"))
    assert len(queue) <= MAX_QUEUED
    everything(queue)
    queue.put(OutgoingMessage(state(1), name(1)))
    queue.put(OutgoingMessage(state(1), name(1)))
    assert len(queue) == 2


def test_a_state_that_may_be_lost_is_sent_again_unless_a_newer_one_is_queued() -> None:
    queue = OutgoingQueue()
    queue.put(OutgoingMessage(state(1), name(1)))
    queue.put_back(OutgoingMessage(state(1, SUCCEEDED_OK), name(1)))
    queue.put_back(OutgoingMessage(state(2), name(2)))
    assert everything(queue) == [state(1), state(2)]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([RUNNING_OK, SUCCEEDED_OK])), max_size=40), st.data())
def test_the_last_state_of_each_instance_always_arrives_last(
    reports: list[tuple[int, ExecutionState]], data: st.DataObject
) -> None:
    queue, received = OutgoingQueue(), []
    for number, execution in reports:
        match data.draw(st.sampled_from(["go on", "go on", "online", "offline", "take"])):
            case "online":
                queue.go_online()
            case "offline":
                queue.go_offline()
            case "take" if (message := queue.take()) is not None:
                received.append(message)
            case _:
                pass
        queue.put(OutgoingMessage(state(number, execution), name(number)))
    received += everything(queue)
    last = {}
    for message in received:
        last[message.updateWorkloadState.workloadStates[0].instanceName.workloadName] = message
    assert last == {name(number).workload: state(number, execution) for number, execution in reports}
