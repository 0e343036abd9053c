"""Runs workloads as containers of containerd, through the program nerdctl.

Input: workloads, with the same configuration, names, labels and arguments as for podman. Output: container ids, states
and logs. The states of all containers are polled with one listing.
"""

from collections.abc import Callable
from contextlib import suppress

from ankaios.common.execution_state import FAILED_LOST, ExecutionState
from ankaios.common.health import ExecCheck
from ankaios.common.workload import WorkloadSpec
from ankaios.runtimes.check_command import check_target_of
from ankaios.runtimes.container_listing import Listing
from ankaios.runtimes.container_runtime import ContainerRuntime
from ankaios.runtimes.containerd.nerdctl_cli import NERDCTL_UNREADABLE, NerdctlCli
from ankaios.runtimes.exit_watch import process_start
from ankaios.runtimes.generic_polling_state_checker import POLL_INTERVAL
from ankaios.runtimes.runtime_connector import (
    CheckTarget,
    RuntimeFailed,
    StateChecker,
    StateSink,
    Unsupported,
    WorkloadId,
)
from ankaios.runtimes.state_cache import Loaded


class NerdctlStateGetter:
    def __init__(self, cli: NerdctlCli, container: WorkloadId) -> None:
        self._cli = cli
        self._container = container

    def open(self, hint: Callable[[], None]) -> None:
        """Do nothing: nerdctl gives no hints."""

    async def get_state(self) -> ExecutionState:
        try:
            listing = (await self._cli.listings.get()).get()
        except RuntimeFailed:
            return NERDCTL_UNREADABLE
        found = listing.by_id.get(self._container)
        return found.state if found is not None else FAILED_LOST

    def pause(self) -> float:
        return POLL_INTERVAL

    def close(self) -> None:
        """Do nothing: the getter has no resources."""


class ContainerdRuntime(ContainerRuntime):
    name = "containerd"
    _cli: NerdctlCli

    def __init__(self, cli: NerdctlCli) -> None:
        super().__init__(cli)
        self._targets: dict[WorkloadId, CheckTarget] = {}

    def start_checker(self, spec: WorkloadSpec, workload: WorkloadId, sink: StateSink) -> StateChecker:
        return self._checkers.start(spec.instance_name, NerdctlStateGetter(self._cli, workload), sink)

    async def delete_workload(self, workload: WorkloadId) -> None:
        await self._cli.remove(workload)
        self._targets.pop(workload, None)

    async def check_target(self, workload: WorkloadId, container: str | None = None) -> CheckTarget:
        del container
        return self._known_target(workload) or self._listed_target(workload, await self._cli.listings.get())

    def _known_target(self, workload: WorkloadId) -> CheckTarget | None:
        """Return the process of an earlier call, so that checks do not depend on a nerdctl that hangs."""
        known = self._targets.get(workload)
        return known if known is not None and process_start(known.pid) == known.start else None

    def _listed_target(self, workload: WorkloadId, loaded: Loaded[Listing]) -> CheckTarget:
        found = loaded.get().by_id.get(workload)
        target = self._targets[workload] = check_target_of(found.pid if found is not None else None)
        return target

    async def image_check(self, workload: WorkloadId) -> ExecCheck | None:
        raise Unsupported("the HEALTHCHECK of an image cannot be used with containerd, declare a check")

    def processes(self, workload: WorkloadId) -> list[int]:
        known = self._known_target(workload)
        newest = self._cli.listings.newest()
        if known is None and newest is not None:
            with suppress(RuntimeFailed):
                known = self._listed_target(workload, newest)
        return [known.pid] if known is not None else []

    async def was_out_of_memory(self, workload: WorkloadId) -> bool:
        """The runtime does not report out-of-memory kills."""
        del workload
        return False

    async def close(self) -> None:
        self._checkers.close()
        await self._cli.close()
