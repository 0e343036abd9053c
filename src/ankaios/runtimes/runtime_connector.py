"""What an agent asks of a runtime, and what it gives and gets.

In come rendered workloads and what they need from the host; out come runtime ids, execution states and log lines. Every
connector passes the same contract tests.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.execution_state import ExecutionState
from ankaios.common.health import ExecCheck
from ankaios.common.workload import InstanceName, WorkloadSpec

WorkloadId = str
StateSink = Callable[[ExecutionState], None]


class Unsupported(Rejected):
    """The runtime can never run this workload as written: do not try again."""


class RuntimeFailed(Unavailable):
    """A call to the runtime failed; the text says which call and why. Trying again may help."""


class Extras(Struct, frozen=True):
    """What the agent prepared on the host for one start of one workload."""

    control_interface: Path | None = None
    files: Mapping[Path, str] = field(default_factory=dict)  # file on the host -> mount point
    reuse: WorkloadId | None = None  # start this one again instead of creating a new one
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
    """The process in whose namespaces a workload is checked; `start` tells it from later ones with the same id."""

    pid: int
    start: int


class CommandResult(Struct, frozen=True):
    """`exit_code` is None if the command did not end in time, `output` the end of what it printed."""

    exit_code: int | None
    output: str = ""


class StateChecker(Protocol):
    """Watches one workload and tells its sink each new state, the first one at once.

    After `stop` returned, the sink is never called again.
    """

    def stop(self) -> None: ...


class RuntimeConnector(Protocol):
    """All an agent asks of a runtime.

    Raises `Unsupported` for what can never work and `RuntimeFailed` for everything else that goes wrong.
    [impl->swdd~functions-required-by-runtime-connector~1]
    """

    name: str

    async def existing_workloads(self, agent: str) -> list[Existing]: ...

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> WorkloadId:
        """Start it; the caller starts a checker for the id next."""
        ...

    async def workload_id(self, name: InstanceName) -> WorkloadId | None:
        """None: no such workload exists (any more)."""
        ...

    def start_checker(self, name: InstanceName, workload: WorkloadId, sink: StateSink) -> StateChecker: ...

    async def delete_workload(self, workload: WorkloadId) -> None:
        """Stop and remove it. One that is gone already counts as deleted."""
        ...

    def processes(self, workload: WorkloadId) -> list[int]:
        """The first process of each container, as far as they are known without a call of the runtime."""
        ...

    def logs(self, workload: WorkloadId, options: LogOptions) -> AsyncIterator[bytes]:
        """Raw output of the workload in pieces of any size; closing the iterator ends the collection.

        Raises `Unsupported` if the runtime has no logs.
        """
        ...

    async def was_out_of_memory(self, workload: WorkloadId) -> bool:
        """Whether the kernel killed the ended workload because its memory was exhausted; False if that is unknown."""
        ...

    async def check_target(self, workload: WorkloadId, container: str | None = None) -> CheckTarget:
        """Of the given container, if the workload has several. It is asked for at each check, so it is cheap."""
        ...

    async def run_check(
        self, workload: WorkloadId, command: Sequence[str], limit: float, container: str | None = None
    ) -> CommandResult:
        """Run a command inside the workload; after `limit` seconds it is ended with everything it started."""
        ...

    async def image_check(self, workload: WorkloadId) -> ExecCheck | None:
        """The check that the image of the workload brings along.

        Raises `Unsupported` if the runtime has no images.
        """
        ...

    async def close(self) -> None:
        """End helper tasks. Workloads keep running."""
        ...


@runtime_checkable
class SuccessorConnector(Protocol):
    """A runtime that can create a workload without starting it."""

    async def prepare_workload(self, spec: WorkloadSpec) -> WorkloadId:
        """It is started later by `create_workload` with this id as `reuse`."""
        ...
