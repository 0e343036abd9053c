"""Limit: the work of the server for one workload costs the same in a cluster of 10,000 as in one of 100.

Updating, planning, reading and reporting one workload is timed in both, with templates, dependencies and three event
subscribers whose masks contain wildcards. Each ratio must be at most 3. A full replacement of 10,000 workloads must
take less than 2 seconds. Times are those of the processor, because other programs may be busy.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator

from ankaios.common.messages import FromAgent, FromClient, Respond
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import InstanceName
from ankaios.server.core.ankaios_server import AnkaiosServer
from ankaios.server.core.replies import Effect

SMALL, LARGE, ROUNDS, WARM_UP, MAX_RATIO, MAX_REPLACEMENT = 100, 10_000, 400, 20, 3.0, 2.0
AGENTS = 20
SUBSCRIBERS: tuple[list[str], ...] = (["desiredState.workloads.*.agent"], ["workloadStates.*.*.*.state", "agents"], [])

# Each step of an action is timed; what happens between the steps is not.
Action = Callable[[AnkaiosServer], Iterator[None]]


def desired_state(count: int) -> base.CompleteState:
    state = base.CompleteState()
    state.desiredState.apiVersion = "v1"
    for number in range(count // 10):
        state.desiredState.configs.configs[f"config-{number}"].String = f"value {number}"
    for number in range(count):
        workload = state.desiredState.workloads.workloads[f"workload-{number}"]
        workload.agent = f"agent-{number % AGENTS}"
        workload.runtime = "podman"
        workload.runtimeConfig = f"image: registry/app-{number}:1\ncommandArgs: ['{{{{value}}}}']\n"
        workload.configs.configs["value"] = f"config-{number % (count // 10)}"
        workload.tags.tags["group"] = str(number % 7)
        if number >= 10:
            workload.dependencies.dependencies[f"workload-{number - 10}"] = base.ADD_COND_RUNNING
    return state


Content = base.UpdateStateRequest | base.CompleteStateRequest | base.PlanRequest


def request(content: Content, name: str = "r") -> FromClient:
    message = base.Request(requestId=f"cli-conn-1@{name}")
    if isinstance(content, base.UpdateStateRequest):
        message.updateStateRequest.CopyFrom(content)
    elif isinstance(content, base.PlanRequest):
        message.planRequest.CopyFrom(content)
    else:
        message.completeStateRequest.CopyFrom(content)
    return FromClient("cli-conn-1", message)


def answer(effects: list[Effect]) -> base.Response:
    last = effects[-1]
    assert isinstance(last, Respond)
    return last.response


def a_cluster(count: int) -> AnkaiosServer:
    server = AnkaiosServer()
    for number in range(AGENTS):
        name = f"agent-{number}"
        hello = grpc.AgentHello(agentName=name, protocolVersion="1.0.0")
        server.handle(FromAgent(name, grpc.ToServer(agentHello=hello)))
    success = answer(server.handle(request(base.UpdateStateRequest(newState=desired_state(count)))))
    assert len(success.UpdateStateSuccess.addedWorkloads) == count, success
    for number, masks in enumerate(SUBSCRIBERS):
        server.handle(request(base.CompleteStateRequest(fieldMask=masks, subscribeForEvents=True), f"s{number}"))
    return server


def report(name: InstanceName, state: base.ExecutionState) -> FromAgent:
    instance = base.WorkloadInstanceName(workloadName=name.workload, agentName=name.agent, id=name.id)
    states = [base.WorkloadState(instanceName=instance, executionState=state)]
    return FromAgent(name.agent, grpc.ToServer(updateWorkloadState=grpc.UpdateWorkloadState(workloadStates=states)))


def change_of_one(turn: int) -> base.UpdateStateRequest:
    state = base.CompleteState()
    workload = state.desiredState.workloads.workloads["workload-50"]
    workload.agent, workload.runtime = f"agent-{turn % 2}", "podman"
    workload.runtimeConfig = f"turn: '{turn} {{{{value}}}}'"
    workload.configs.configs["value"] = "config-5"
    workload.dependencies.dependencies["workload-40"] = base.ADD_COND_RUNNING
    return base.UpdateStateRequest(newState=state, updateMask=["desiredState.workloads.workload-50"])


def plan_one(server: AnkaiosServer) -> Iterator[None]:
    for turn in range(WARM_UP + ROUNDS):
        message = request(base.PlanRequest(update=change_of_one(-1 - turn)))
        yield
        effects = server.handle(message)
        yield
        assert len(answer(effects).planResponse.workloads) == 1, effects


def update_one(server: AnkaiosServer) -> Iterator[None]:
    for turn in range(WARM_UP + ROUNDS):
        message = request(change_of_one(turn))
        yield
        effects = server.handle(message)
        yield
        assert sum(isinstance(effect, Respond) for effect in effects) == 1 + len(SUBSCRIBERS), effects
        gone = InstanceName.parse(answer(effects).UpdateStateSuccess.deletedWorkloads[0])
        assert gone is not None
        server.handle(report(gone, base.ExecutionState(additionalInfo="", removed=base.REMOVED)))


def read_one(server: AnkaiosServer) -> Iterator[None]:
    message = request(base.CompleteStateRequest(fieldMask=["desiredState.workloads.workload-50"]))
    for _ in range(WARM_UP + ROUNDS):
        yield
        effects = server.handle(message)
        yield
        assert answer(effects).completeStateResponse.completeState.desiredState.workloads.workloads


def report_one(server: AnkaiosServer) -> Iterator[None]:
    name = server.state.effective["workload-51"].instance_name
    for turn in range(WARM_UP + ROUNDS):
        state = base.ExecutionState(additionalInfo=str(turn), running=base.RUNNING_OK)
        if turn % 2:
            state.succeeded = base.SUCCEEDED_OK
        message = report(name, state)
        yield
        effects = server.handle(message)
        yield
        # Two of the three subscribers, and the broadcast.
        assert len(effects) == 3, effects


def median(steps: Iterator[None]) -> float:
    times = []
    for _ in steps:
        begin = time.process_time()
        next(steps)
        times.append(time.process_time() - begin)
    return statistics.median(times[WARM_UP:])


def timed(what: str, action: Callable[[], object]) -> float:
    begin = time.process_time()
    action()
    seconds = time.process_time() - begin
    print(f"{what}: {seconds:.2f} s")
    return seconds


def main() -> int:
    clusters = [a_cluster(SMALL), a_cluster(LARGE)]
    gc.collect()
    gc.freeze()
    worst = 0.0
    actions: dict[str, Action] = {
        "update": update_one,
        "plan": plan_one,
        "read": read_one,
        "report the state of": report_one,
    }
    for what, action in actions.items():
        small, large = (median(action(cluster)) for cluster in clusters)
        worst = max(worst, large / small)
        print(
            f"{what} one: {small * 1e6:.0f} us of {SMALL}, {large * 1e6:.0f} us of {LARGE}: {large / small:.2f} times"
        )
    server = AnkaiosServer()
    replace = request(base.UpdateStateRequest(newState=desired_state(LARGE)))
    replacement = timed(f"replace by {LARGE} workloads", lambda: server.handle(replace))
    timed("replace by the same again", lambda: server.handle(replace))
    everything = request(base.CompleteStateRequest())
    timed("read everything", lambda: server.handle(everything))
    timed("read everything again", lambda: server.handle(everything))
    return int(worst > MAX_RATIO or replacement > MAX_REPLACEMENT)


if __name__ == "__main__":
    sys.exit(main())
