"""Limit: no single request of 4 MiB can block the server for long.

Each of these requests is as large as a client of Eclipse Ankaios can send and made to be expensive, in a cluster of
1,000 workloads. Each must be handled in less than 5 seconds of computing, and in a worker thread if it takes more
than 50 ms.
"""

import sys
import time
from collections.abc import Callable

from ankaios.common.messages import FromClient
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.server.core.ankaios_server import AnkaiosServer
from ankaios.server.core.replies import MAX_MASKS

SIZE, LIMIT, WORKLOADS = 4 * 1024 * 1024, 5.0, 1000
SHORT = 0.05  # seconds that the event loop may be blocked


def a_workload(workload: base.Workload, text: str = "x") -> None:
    workload.agent, workload.runtime, workload.runtimeConfig = "n1", "podman", text


def a_server() -> AnkaiosServer:
    server = AnkaiosServer()
    update = base.UpdateStateRequest()
    update.newState.desiredState.apiVersion = "v1"
    for number in range(WORKLOADS):
        a_workload(update.newState.desiredState.workloads.workloads[f"w{number}"])
    server.handle(request(update))
    return server


def request(content: base.UpdateStateRequest | base.CompleteStateRequest) -> FromClient:
    message = base.Request(requestId="cli-conn-1@r")
    if isinstance(content, base.UpdateStateRequest):
        message.updateStateRequest.CopyFrom(content)
    else:
        message.completeStateRequest.CopyFrom(content)
    return FromClient("cli-conn-1", message)


def read(*masks: str) -> FromClient:
    return request(base.CompleteStateRequest(fieldMask=masks))


def one_mask_of_millions_of_parts() -> FromClient:
    return read("a." * (SIZE // 2))


def masks_below_every_workload() -> FromClient:
    return read(*(f"desiredState.workloads.*.{number:06}" for number in range(MAX_MASKS)))


def masks_that_branch_at_every_part() -> FromClient:
    words = ("desiredState", "*"), ("workloads", "*"), ("w1", "*"), ("tags", "*")
    masks = [""]
    for pair in words:
        masks = [f"{mask}{word}." for mask in masks for word in pair]
    return read(*(f"{mask}{number:04}" for mask in masks for number in range(MAX_MASKS // 16)))


def the_whole_state_replaced_again_and_again() -> FromClient:
    update = base.UpdateStateRequest(updateMask=["desiredState.workloads"] * (SIZE // 50))
    for number in range(20_000):
        a_workload(update.newState.desiredState.workloads.workloads[f"n{number}"])
    return request(update)


def one_large_config_changed_key_by_key() -> FromClient:
    update = base.UpdateStateRequest()
    update.newState.desiredState.apiVersion = "v1"
    fields = update.newState.desiredState.configs.configs["c"].object.fields
    for number in range(50_000):
        fields[f"k{number}"].String = "x"
        update.updateMask.append(f"desiredState.configs.c.k{number}")
    return request(update)


def a_config_as_deep_as_protobuf_allows() -> FromClient:
    update = base.UpdateStateRequest()
    update.newState.desiredState.apiVersion = "v1"
    update.newState.desiredState.workloads.SetInParent()
    item = update.newState.desiredState.configs.configs["c"]
    for _ in range(28):
        item = item.object.fields["k"]
    item.String = "x"
    return request(update)


def a_long_chain_of_dependencies() -> FromClient:
    update = base.UpdateStateRequest()
    update.newState.desiredState.apiVersion = "v1"
    for number in range(40_000):
        workload = update.newState.desiredState.workloads.workloads[f"n{number}"]
        a_workload(workload)
        workload.dependencies.dependencies[f"n{number + 1}"] = base.ADD_COND_RUNNING
    return request(update)


def one_workload_with_a_long_config() -> FromClient:
    update = base.UpdateStateRequest(updateMask=["desiredState.workloads.w1"])
    a_workload(update.newState.desiredState.workloads.workloads["w1"], "x" * SIZE)
    return request(update)


def one_config_with_many_keys() -> FromClient:
    update = base.UpdateStateRequest(updateMask=["desiredState.configs.c"])
    fields = update.newState.desiredState.configs.configs["c"].object.fields
    for number in range(200_000):
        fields[f"k{number}"].String = "x"
    return request(update)


def every_workload_depends_on_all_previous_ones() -> FromClient:
    update = base.UpdateStateRequest()
    update.newState.desiredState.apiVersion = "v1"
    for number in range(700):
        workload = update.newState.desiredState.workloads.workloads[f"n{number}"]
        a_workload(workload)
        for other in range(number):
            workload.dependencies.dependencies[f"n{other}"] = base.ADD_COND_RUNNING
    return request(update)


REQUESTS: tuple[Callable[[], FromClient], ...] = (
    one_mask_of_millions_of_parts,
    masks_below_every_workload,
    masks_that_branch_at_every_part,
    the_whole_state_replaced_again_and_again,
    one_large_config_changed_key_by_key,
    a_config_as_deep_as_protobuf_allows,
    a_long_chain_of_dependencies,
    one_workload_with_a_long_config,
    one_config_with_many_keys,
    every_workload_depends_on_all_previous_ones,
)


def main() -> int:
    failed = False
    for make in REQUESTS:
        server, message = a_server(), make()
        estimate, is_long = timed(lambda server=server, message=message: server.takes_long(message))  # type: ignore[misc]
        seconds, _ = timed(lambda server=server, message=message: server.handle(message))  # type: ignore[misc]
        is_ok = seconds <= LIMIT and estimate <= SHORT and (is_long or seconds <= SHORT)
        failed |= not is_ok
        size = message.request.ByteSize() / 1024 / 1024
        print(
            f"{make.__name__.replace('_', ' ')}: {size:.1f} MiB in {seconds:.2f} s, "
            f"{'in a thread' if is_long else 'in the event loop'} after {estimate * 1000:.1f} ms: "
            f"{'ok' if is_ok else 'not ok'}",
            flush=True,
        )
    return int(failed)


def timed(work: Callable[[], object]) -> tuple[float, object]:
    """The computing time, and the result."""
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


if __name__ == "__main__":
    sys.exit(main())
