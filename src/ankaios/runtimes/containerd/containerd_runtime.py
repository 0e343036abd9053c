"""Runs workloads as containers of containerd, through the program nerdctl.

Input: workloads, with the same configuration, names, labels and arguments as for podman. Output: container ids, states
and logs. The states of all containers are polled with one listing.
"""

import logging
from collections.abc import AsyncIterator, Callable, Sequence

from ankaios.common.execution_state import FAILED_LOST, ExecutionState
from ankaios.common.health import ExecCheck
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.check_command import check_target_of
from ankaios.runtimes.container_config import ContainerConfig, create_arguments, log_arguments
from ankaios.runtimes.containerd.container_processes import ContainerProcesses
from ankaios.runtimes.containerd.nerdctl_cli import NERDCTL_UNREADABLE, NerdctlCli
from ankaios.runtimes.exit_watch import process_start
from ankaios.runtimes.generic_polling_state_checker import POLL_INTERVAL, StateCheckers
from ankaios.runtimes.runtime_connector import (
    CheckTarget,
    CommandResult,
    Existing,
    Extras,
    LogOptions,
    RuntimeFailed,
    StateChecker,
    StateSink,
    Unsupported,
    WorkloadId,
)

_log = logging.getLogger(__name__)


class NerdctlStateGetter:
    def __init__(self, cli: NerdctlCli, container: WorkloadId) -> None:
        self._cli = cli
        self._container = container

    def open(self, hint: Callable[[], None]) -> None:
        """Do nothing: nerdctl gives no hints."""

    async def get_state(self) -> ExecutionState:
        try:
            states = (await self._cli.listings.get()).get()
        except RuntimeFailed:
            return NERDCTL_UNREADABLE
        return states.get(self._container, FAILED_LOST)

    def pause(self) -> float:
        return POLL_INTERVAL

    def close(self) -> None:
        """Do nothing: the getter has no resources."""


class ContainerdRuntime:
    name = "containerd"

    def __init__(self, cli: NerdctlCli) -> None:
        self._cli = cli
        self._checkers = StateCheckers()
        self._targets: dict[WorkloadId, CheckTarget] = {}
        self._processes = ContainerProcesses()

    async def existing_workloads(self, agent: str) -> list[Existing]:
        containers = await self._cli.labelled("agent", agent)
        states = (await self._cli.listings.get()).get() if containers else {}
        found: dict[InstanceName, Existing] = {}
        for container, labels in containers.items():
            name = InstanceName.parse(labels.get("name", ""))
            if name is not None and name.agent == agent:
                found.setdefault(name, Existing(name, states.get(container, FAILED_LOST), container))
        return list(found.values())

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> WorkloadId:
        config = ContainerConfig.parse(spec.runtime_config)
        arguments = create_arguments(config, spec.instance_name, extras)
        try:
            container = await self._cli.start(arguments)
        except RuntimeFailed:
            await self._clean_up(spec.instance_name, extras.reuse)
            raise
        return extras.reuse or container

    async def _clean_up(self, name: InstanceName, reused: WorkloadId | None) -> None:
        """Remove a partly created container, whose name would block every further attempt."""
        try:
            left = set(await self._cli.labelled("name", str(name))) | ({reused} if reused else set())
            for container in left:
                await self._cli.remove(container)
        except RuntimeFailed as fault:
            _log.warning("cannot clean up after the failed start of '%s': %s", name, fault)

    async def workload_id(self, name: InstanceName) -> WorkloadId | None:
        containers = await self._cli.labelled("name", str(name))
        if len(containers) > 1:
            _log.warning("%d containers have the label name=%s", len(containers), name)
        return next(iter(containers), None)

    def start_checker(self, spec: WorkloadSpec, workload: WorkloadId, sink: StateSink) -> StateChecker:
        return self._checkers.start(spec.instance_name, NerdctlStateGetter(self._cli, workload), sink)

    async def delete_workload(self, workload: WorkloadId) -> None:
        await self._cli.remove(workload)
        self._targets.pop(workload, None)

    async def check_target(self, workload: WorkloadId, container: str | None = None) -> CheckTarget:
        """The process id is cached, because a call of nerdctl is slow."""
        del container
        if (known := self._targets.get(workload)) is not None and process_start(known.pid) == known.start:
            return known
        target = self._targets[workload] = check_target_of(await self._cli.pid_of(workload))
        return target

    async def run_check(
        self, workload: WorkloadId, command: Sequence[str], limit: float, container: str | None = None
    ) -> CommandResult:
        del container
        return await self._cli.run_check(workload, command, limit)

    async def image_check(self, workload: WorkloadId) -> ExecCheck | None:
        raise Unsupported("the HEALTHCHECK of an image cannot be used with containerd, declare a check")

    def processes(self, workload: WorkloadId) -> list[int]:
        first = self._processes.first_process(workload)
        return [] if first is None else [first]

    def logs(self, workload: WorkloadId, options: LogOptions) -> AsyncIterator[bytes]:
        return self._cli.logs(log_arguments(workload, options))

    async def was_out_of_memory(self, workload: WorkloadId) -> bool:
        """The runtime does not report out-of-memory kills."""
        del workload
        return False

    async def close(self) -> None:
        self._checkers.close()
        await self._cli.close()
