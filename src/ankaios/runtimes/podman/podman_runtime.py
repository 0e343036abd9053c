"""Runs workloads as containers of podman.

Input: workloads, with their files, mounts and devices of the host. Output: container ids, states and logs. Containers
are found by their labels, so they can have any name.
[impl->swdd~agent-supports-podman~2]
"""

import logging
from collections.abc import AsyncIterator, Sequence

from ankaios.common.health import ExecCheck
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.check_command import check_target_of
from ankaios.runtimes.container_config import ContainerConfig, create_arguments, is_restarted_by_runtime, log_arguments
from ankaios.runtimes.generic_polling_state_checker import StateCheckers
from ankaios.runtimes.podman.listing import Container
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_resync import PodmanResync
from ankaios.runtimes.podman.podman_state_getter import PodmanStateGetter
from ankaios.runtimes.podman.podman_watch import PodmanWatch
from ankaios.runtimes.podman.states import container_state
from ankaios.runtimes.runtime_connector import (
    CheckTarget,
    CommandResult,
    Existing,
    Extras,
    LogOptions,
    RuntimeFailed,
    StateChecker,
    StateSink,
    WorkloadId,
)

# The agent may have started the first listing at its own start. A listing of this age can be used: changes by the agent
# invalidate it, and the end of a container is detected when its watch starts.
LISTED_BEFORE = 5.0

_log = logging.getLogger(__name__)


class Podman:
    """The parts that both podman connectors share: the calls of podman, the container watch and the resync."""

    def __init__(self, cli: PodmanCli) -> None:
        self.cli = cli
        self.watch = PodmanWatch(cli.listings.reset)
        self.resync = PodmanResync(cli, self.watch)

    async def pid_of(self, container: str) -> int:
        """Return the process id from the pid file, or else from a listing. 0: the container does not run."""
        if pid := self.watch.pid_of(container):
            return pid
        listing = (await self.cli.listings.get()).get()
        found = listing.by_id.get(container)
        return found.pid if found else 0

    async def close(self) -> None:
        self.watch.close()
        await self.resync.close()
        await self.cli.close()


class PodmanRuntime:
    """[impl->swdd~podman-implements-runtime-connector~1]"""

    name = "podman"  # [impl->swdd~podman-name-returns-podman~1]

    def __init__(self, podman: Podman) -> None:
        self._podman = podman
        self._cli = podman.cli
        self._checkers = StateCheckers()

    async def existing_workloads(self, agent: str) -> list[Existing]:
        """One listing is sufficient for all workloads and for the following calls of `workload_id`."""
        listing = (await self._cli.listings.get(max_age=LISTED_BEFORE)).get()
        by_name: dict[InstanceName, list[Container]] = {}
        for container in listing.of_agent(agent):
            name = container.instance_name
            if name is not None and name.agent == agent:
                by_name.setdefault(name, []).append(container)
        return [_existing(name, _best(name, containers)) for name, containers in by_name.items()]

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> WorkloadId:
        """[impl->swdd~podman-create-workload-returns-workload-id~1]
        [impl->swdd~podman-workload-stores-container-id~1]
        """
        config = ContainerConfig.parse(spec.runtime_config)
        arguments = create_arguments(config, spec.instance_name, extras)
        try:
            return await self._cli.start(arguments, config.command_options)
        except RuntimeFailed:
            await self._clean_up(spec.instance_name, extras.reuse)
            raise

    async def _clean_up(self, name: InstanceName, reused: WorkloadId | None) -> None:
        """Remove a partly created container, whose name would block every further attempt.

        It is found by its label: the name can be set by the user, or belong to an unrelated container.
        [impl->swdd~podman-workload-update-workload-state-on-start-failure~1]
        """
        try:
            listing = (await self._cli.listings.get(not_before=self._podman.watch.now())).get()
            left = {container.id for container in listing.of_instance(name)} | ({reused} if reused else set())
            for container in left:
                await self._cli.remove(container)
        except RuntimeFailed as fault:
            _log.warning("cannot clean up after the failed start of '%s': %s", name, fault)

    async def workload_id(self, name: InstanceName) -> WorkloadId | None:
        containers = (await self._cli.listings.get()).get().of_instance(name)
        return _best(name, containers).id if containers else None

    def start_checker(self, spec: WorkloadSpec, workload: WorkloadId, sink: StateSink) -> StateChecker:
        """[impl->swdd~podman-start-checker-starts-podman-state-checker~1]"""
        exits_are_final = not is_restarted_by_runtime(spec.runtime_config)
        getter = PodmanStateGetter(self._cli, self._podman.watch, workload, exits_are_final)
        self._podman.resync.begin()
        return self._checkers.start(spec.instance_name, getter, sink)

    async def delete_workload(self, workload: WorkloadId) -> None:
        """[impl->swdd~podman-delete-workload-stops-and-removes-workload~1]
        [impl->swdd~podman-adapter-request-stopping-container~2]
        """
        self._podman.watch.suspend_reports(workload)
        try:
            await self._cli.remove(workload)
        except RuntimeFailed:
            self._podman.watch.resume_reports(workload)
            raise

    async def check_target(self, workload: WorkloadId, container: str | None = None) -> CheckTarget:
        del container
        return check_target_of(await self._podman.pid_of(workload))

    async def run_check(
        self, workload: WorkloadId, command: Sequence[str], limit: float, container: str | None = None
    ) -> CommandResult:
        del container
        return await self._cli.run_check(workload, command, limit)

    async def image_check(self, workload: WorkloadId) -> ExecCheck | None:
        return await self._cli.image_check(workload)

    def processes(self, workload: WorkloadId) -> list[int]:
        return self._podman.watch.processes_of([workload])

    def logs(self, workload: WorkloadId, options: LogOptions) -> AsyncIterator[bytes]:
        return self._cli.logs(log_arguments(workload, options))

    async def was_out_of_memory(self, workload: WorkloadId) -> bool:
        return await self._cli.was_out_of_memory(workload)

    async def close(self) -> None:
        self._checkers.close()
        await self._podman.close()


def _best(name: InstanceName, containers: list[Container]) -> Container:
    """Return a running container if several have the same label."""
    if len(containers) > 1:
        _log.warning("%d containers have the label name=%s", len(containers), name)
    running = (container for container in containers if container.state.lower() == "running")
    return next(running, containers[0])


def _existing(name: InstanceName, container: Container) -> Existing:
    return Existing(name, container_state(container.state, container.exit_code), container.id)
