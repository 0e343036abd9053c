"""Plain objects for tests: `a_workload()` is a sensible one, keywords say what matters to the test."""

from typing import Any

from ankaios.common.workload import InstanceName, WorkloadSpec


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
