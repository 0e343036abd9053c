"""Plain objects for tests: `a_workload()` has defaults, keywords set what the test needs."""

from typing import Any

from msgspec import to_builtins

from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_to_pb
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.server.core.state_view import filled_workload


def an_instance(workload: str = "web", agent: str = "agent_A", config: str = "image: alpine:3") -> InstanceName:
    return InstanceName.of(workload, agent, config)


def a_workload(
    workload: str = "web",
    agent: str = "agent_A",
    runtime: str = "podman",
    config: str = "image: alpine:3",
    **more: Any,
) -> WorkloadSpec:
    return WorkloadSpec(an_instance(workload, agent, config), runtime, config, **more)


def added_workload_to_pb(spec: WorkloadSpec) -> grpc.AddedWorkload:
    """As the server sends it, with every optional part present."""
    workload = filled_workload({"agent": spec.instance_name.agent, **_without_blanks(to_builtins(spec))})
    return grpc.AddedWorkload(instanceName=instance_name_to_pb(spec.instance_name), workload=workload)


def _without_blanks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_blanks(part) for key, part in value.items() if part is not None}
    return [_without_blanks(part) for part in value] if isinstance(value, tuple) else value
