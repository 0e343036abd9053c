"""The part of a runtime connector that podman and containerd have in common.

Input: workloads, with their files, mounts and devices of the host. Output: container ids and logs. Containers are found
by their labels, so they can have any name.
"""

import logging
from collections.abc import AsyncIterator, Sequence

from ankaios.common.execution_state import RUNNING_OK
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.container_cli import ContainerCli
from ankaios.runtimes.container_config import ContainerConfig, create_arguments, log_arguments
from ankaios.runtimes.container_listing import Container
from ankaios.runtimes.generic_polling_state_checker import StateCheckers
from ankaios.runtimes.runtime_connector import CommandResult, Existing, Extras, LogOptions, RuntimeFailed, WorkloadId

# The agent may have started the first listing at its own start. A listing of this age can be used: changes by the agent
# invalidate it, and the end of a container is detected when its checker starts.
LISTED_BEFORE = 5.0

_log = logging.getLogger(__name__)


class ContainerRuntime:
    def __init__(self, cli: ContainerCli) -> None:
        self._cli = cli
        self._checkers = StateCheckers()

    async def existing_workloads(self, agent: str) -> list[Existing]:
        """One listing is sufficient for all workloads and for the following calls of `workload_id`."""
        listing = (await self._cli.listings.get(max_age=LISTED_BEFORE)).get()
        by_name: dict[InstanceName, list[Container]] = {}
        for container in listing.of_agent(agent):
            name = container.instance_name
            if name is not None and name.agent == agent:
                by_name.setdefault(name, []).append(container)
        best = {name: _best(name, containers) for name, containers in by_name.items()}
        return [Existing(name, container.state, container.id) for name, container in best.items()]

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> WorkloadId:
        """[impl->swdd~podman-create-workload-returns-workload-id~1]
        [impl->swdd~podman-workload-stores-container-id~1]
        """
        config = ContainerConfig.parse(spec.runtime_config)
        arguments = create_arguments(config, spec.instance_name, extras)
        try:
            container = await self._cli.start(arguments, config.command_options)
        except RuntimeFailed:
            await self._clean_up(spec.instance_name, extras.reuse)
            raise
        return extras.reuse or container

    async def _clean_up(self, name: InstanceName, reused: WorkloadId | None) -> None:
        """Remove a partly created container, whose name would block every further attempt.

        It is found by its label: the name can be set by the user, or belong to an unrelated container.
        [impl->swdd~podman-workload-update-workload-state-on-start-failure~1]
        """
        try:
            listing = (await self._cli.listings.get()).get()
            left = {container.id for container in listing.of_instance(name)} | ({reused} if reused else set())
            for container in left:
                await self._cli.remove(container)
        except RuntimeFailed as fault:
            _log.warning("cannot clean up after the failed start of '%s': %s", name, fault)

    async def workload_id(self, name: InstanceName) -> WorkloadId | None:
        containers = (await self._cli.listings.get()).get().of_instance(name)
        return _best(name, containers).id if containers else None

    async def run_check(
        self, workload: WorkloadId, command: Sequence[str], limit: float, container: str | None = None
    ) -> CommandResult:
        del container
        return await self._cli.run_check(workload, command, limit)

    def logs(self, workload: WorkloadId, options: LogOptions) -> AsyncIterator[bytes]:
        return self._cli.logs(log_arguments(workload, options))


def _best(name: InstanceName, containers: list[Container]) -> Container:
    """Return a running container if several have the same label."""
    if len(containers) > 1:
        _log.warning("%d containers have the label name=%s", len(containers), name)
    return next((container for container in containers if container.state == RUNNING_OK), containers[0])
