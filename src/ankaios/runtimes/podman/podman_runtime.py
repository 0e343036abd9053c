"""Runs workloads as containers of podman.

Input: workloads, with their files, mounts and devices of the host. Output: container ids, states and logs.
[impl->swdd~agent-supports-podman~2]
"""

from ankaios.common.health import ExecCheck
from ankaios.common.workload import WorkloadSpec
from ankaios.runtimes.check_command import check_target_of
from ankaios.runtimes.container_config import is_restarted_by_runtime
from ankaios.runtimes.container_runtime import ContainerRuntime
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_resync import PodmanResync
from ankaios.runtimes.podman.podman_state_getter import PodmanStateGetter
from ankaios.runtimes.podman.podman_watch import PodmanWatch
from ankaios.runtimes.runtime_connector import CheckTarget, RuntimeFailed, StateChecker, StateSink, WorkloadId


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


class PodmanRuntime(ContainerRuntime):
    """[impl->swdd~podman-implements-runtime-connector~1]"""

    name = "podman"  # [impl->swdd~podman-name-returns-podman~1]
    _cli: PodmanCli

    def __init__(self, podman: Podman) -> None:
        super().__init__(podman.cli)
        self._podman = podman

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

    async def image_check(self, workload: WorkloadId) -> ExecCheck | None:
        return await self._cli.image_check(workload)

    def processes(self, workload: WorkloadId) -> list[int]:
        return self._podman.watch.processes_of([workload])

    async def was_out_of_memory(self, workload: WorkloadId) -> bool:
        return await self._cli.was_out_of_memory(workload)

    async def close(self) -> None:
        self._checkers.close()
        await self._podman.close()
