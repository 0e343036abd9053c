"""The interface between an agent and its runtimes.

Input: rendered workloads, with their files, control interface and grants. Output: runtime ids, execution states and log
lines. All connectors pass the same contract tests.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.execution_state import ExecutionState
from ankaios.common.health import ExecCheck
from ankaios.common.workload import InstanceName, WorkloadSpec

WorkloadId = str
StateSink = Callable[[ExecutionState], None]


class Unsupported(Rejected):
    """The runtime cannot run this workload as written: do not retry."""


class RuntimeFailed(Unavailable):
    """A call of the runtime failed; the text contains the call and the reason. A retry may succeed."""


class Extras(Struct, frozen=True):
    """The files, grants and variables that the agent prepared for one start of a workload."""

    control_interface: Path | None = None
    files: Mapping[Path, str] = field(default_factory=dict)  # file on the host -> mount point
    reuse: WorkloadId | None = None  # restart this one instead of creating a new one
    grants: tuple[DeviceGrant, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)  # additional variables of native processes


class Existing(Struct, frozen=True):
    """A workload found in the runtime. Without `id` it cannot be reused."""

    instance_name: InstanceName
    state: ExecutionState
    id: WorkloadId | None = None


class LogOptions(Struct, frozen=True):
    follow: bool = False
    tail: int | None = None
    since: str | None = None
    until: str | None = None


class CheckTarget(Struct, frozen=True):
    """The process in whose namespaces a workload is checked; `start` distinguishes it from a later one with its id."""

    pid: int
    start: int


class CommandResult(Struct, frozen=True):
    """`exit_code` is None if the command exceeded its time limit; `output` is the end of its output."""

    exit_code: int | None
    output: str = ""


class StateChecker(Protocol):
    """Watches one workload and calls the sink with each new state, the first time immediately.

    After `stop` has returned, the sink is not called any more.
    """

    def stop(self) -> None: ...


class RuntimeConnector(Protocol):
    """All calls of an agent to a runtime.

    Raises `Unsupported` if a retry cannot succeed, and `RuntimeFailed` for all other failures.
    [impl->swdd~functions-required-by-runtime-connector~1]
    """

    name: str

    async def existing_workloads(self, agent: str) -> list[Existing]: ...

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> WorkloadId:
        """Start the workload; the caller then starts a checker for the id."""
        ...

    async def workload_id(self, name: InstanceName) -> WorkloadId | None:
        """Return None if the workload does not exist."""
        ...

    def start_checker(self, spec: WorkloadSpec, workload: WorkloadId, sink: StateSink) -> StateChecker: ...

    async def delete_workload(self, workload: WorkloadId) -> None:
        """Stop and remove the workload. A workload that does not exist counts as deleted."""
        ...

    def processes(self, workload: WorkloadId) -> list[int]:
        """Return the first process of each container, as far as known without a call of the runtime."""
        ...

    def logs(self, workload: WorkloadId, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the output of the workload in pieces of any size; closing the iterator ends the collection.

        Raises `Unsupported` if the runtime has no logs.
        """
        ...

    async def was_out_of_memory(self, workload: WorkloadId) -> bool:
        """Return whether the kernel killed the ended workload because of its memory limit; False if unknown."""
        ...

    async def check_target(self, workload: WorkloadId, container: str | None = None) -> CheckTarget:
        """Return the process of the given container. Called for each check, so it must be fast."""
        ...

    async def run_check(
        self, workload: WorkloadId, command: Sequence[str], limit: float, container: str | None = None
    ) -> CommandResult:
        """Run a command inside the workload; after `limit` seconds it is killed with all its descendants."""
        ...

    async def image_check(self, workload: WorkloadId) -> ExecCheck | None:
        """Return the HEALTHCHECK of the image of the workload.

        Raises `Unsupported` if the runtime has no images.
        """
        ...

    async def close(self) -> None:
        """End helper tasks. Workloads keep running."""
        ...
