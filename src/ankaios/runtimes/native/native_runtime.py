"""Runs workloads as processes of the host.

Input: workloads with a command. Output: states and logs. Each workload has a small keeper process, which outlives the
agent, and a folder below the given one, by which the agent finds the workload again. The id of a workload is its
instance name.
"""

import asyncio
import hashlib
import logging
import marshal
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cached_property
from pathlib import Path

from ankaios.common.execution_state import ENDED_WITHOUT_CODE, FAILED_LOST, ExecutionState
from ankaios.common.health import ExecCheck
from ankaios.common.trusted_path import owner_fault
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.call_slots import CallSlots
from ankaios.runtimes.command import CommandFailed, probe_command, run_command
from ankaios.runtimes.exit_watch import ExitWatch, watch_exit
from ankaios.runtimes.generic_polling_state_checker import POLL_INTERVAL, StateCheckers
from ankaios.runtimes.native.cgroup_places import CgroupHierarchy, hierarchies_of_this_machine, plan_cgroups
from ankaios.runtimes.native.cgroups import remove_cgroups
from ankaios.runtimes.native.ending import end_processes
from ankaios.runtimes.native.folders import clear_folder, make_private_folder, remove_folder, start_lock
from ankaios.runtimes.native.mounts import remove_mount_point
from ankaios.runtimes.native.order import NativeConfig, cgroup_limits, make_order
from ankaios.runtimes.native.processes import NativeFolder
from ankaios.runtimes.native.users import look_up_user
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

# The shim is imported and not run as a script, so that its compiled form is used.
SHIM = "import sys; sys.path.append(sys.argv[1]); from ankaios.runtimes.native import shim as s; sys.exit(s.main())"
CHECK = "import sys; sys.path.append(sys.argv[1]); from ankaios.runtimes.native import check as c; sys.exit(c.main())"
PACKAGES = Path(__file__).parents[3]
START_LIMIT = 30.0
STOP_TIME = 10.0
FOLDER_INTERVAL = 2.0
CHECK_OVERHEAD = 5.0
CHECKS_AT_A_TIME, MAX_CHECKS = 4, 1000
MAX_CHECK_OUTPUT = 64 * 1024
# The keeper writes the exit code about a millisecond after the process has ended.
EXIT_CODE_PAUSES = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3)

_log = logging.getLogger(__name__)


class NativeStateGetter:
    """Watches a process by its descriptor."""

    def __init__(self, folder: NativeFolder) -> None:
        self._folder = folder
        self._watch: ExitWatch | None = None

    def open(self, hint: Callable[[], None]) -> None:
        if found := self._folder.processes():
            self._watch = watch_exit(found[0].pid, found[0].is_it, hint)

    async def get_state(self) -> ExecutionState:
        for pause in EXIT_CODE_PAUSES:
            await asyncio.sleep(pause)
            state = self._folder.state()
            if state != ENDED_WITHOUT_CODE:
                break
        self._state = state
        return state

    def pause(self) -> float | None:
        """Poll the process if it has no descriptor. After its end, poll only for the removal of its folder."""
        if self._state == FAILED_LOST or (self._watch is not None and self._watch.open):
            return None
        return POLL_INTERVAL if self._state.state == "Running" else FOLDER_INTERVAL

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()


class NativeRuntime:
    name = "native"

    def __init__(
        self,
        folder: Path,
        stop_time: float = STOP_TIME,
        hierarchies: Callable[[], list[CgroupHierarchy]] = hierarchies_of_this_machine,
    ) -> None:
        self._folder = folder
        self._stop_time = stop_time
        self._find_hierarchies = hierarchies
        self._checkers = StateCheckers()
        self._check_slots = CallSlots(CHECKS_AT_A_TIME, waiting=MAX_CHECKS)

    @cached_property
    def _hierarchies(self) -> list[CgroupHierarchy]:
        found = self._find_hierarchies()
        if not found:
            _log.info("cannot create cgroups: processes of native workloads are found by their parents")
        return found

    def _of(self, workload: WorkloadId) -> NativeFolder:
        return NativeFolder(self._folder / workload)

    def _check(self) -> None:
        """Check the owner of the folder: files of another user could make the agent kill any process of the host."""
        try:
            found = self._folder.lstat()
        except OSError:
            return  # the folder does not exist, or its use fails later
        if fault := owner_fault(found, os.geteuid()):
            advice = "remove it or choose another folder with --run-folder"
            raise RuntimeFailed(f"cannot use '{self._folder}': it {fault}, {advice}")

    async def existing_workloads(self, agent: str) -> list[Existing]:
        self._check()
        try:
            names = [InstanceName.parse(entry.name) for entry in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as fault:
            raise RuntimeFailed(f"cannot list '{self._folder}': {fault.strerror}") from fault
        ours = sorted(name for name in names if name is not None and name.agent == agent)
        return [Existing(name, self._of(str(name)).state(), str(name)) for name in ours]

    async def workload_id(self, name: InstanceName) -> WorkloadId | None:
        self._check()
        return str(name) if self._of(str(name)).path.exists() else None

    # -- starting

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> WorkloadId:
        config = NativeConfig.parse(spec.runtime_config)
        self._check()
        workload = str(spec.instance_name)
        folder = self._of(workload)
        token = os.urandom(8).hex()
        try:
            make_private_folder(self._folder)
            folder.path.mkdir(exist_ok=True)
        except OSError as fault:
            raise RuntimeFailed(f"cannot prepare '{folder.path}': {fault.strerror}") from fault
        async with start_lock(folder):  # two processes of a workload must never run at the same time
            await self._end(folder)
            clear_folder(folder.path, token, keeps_log=extras.reuse == workload)
        try:
            await self._start(folder, config, extras, token)
        except (RuntimeFailed, Unsupported):
            await self._clean_up(folder, keeps_folder=extras.reuse is not None)
            raise
        return workload

    async def _clean_up(self, folder: NativeFolder, *, keeps_folder: bool) -> None:
        """End everything that a failed start left: after its time limit, the keeper may still start the process."""
        try:
            async with start_lock(folder):
                await self._end(folder)
                if keeps_folder:
                    clear_folder(folder.path, token="", keeps_log=True)
                else:
                    remove_folder(folder.path)
        except RuntimeFailed as fault:
            _log.warning("cannot clean up after the failed start of '%s': %s", folder.path.name, fault)

    async def _start(self, folder: NativeFolder, config: NativeConfig, extras: Extras, token: str) -> None:
        user = await look_up_user(config.user, START_LIMIT) if config.user else None
        # Agents with the same name can have different run folders.
        place = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:8]
        cgroups = plan_cgroups(self._hierarchies, f"{place}.{folder.path.name}", cgroup_limits(config))
        order = make_order(config, extras, str(folder.path), user, os.environ, cgroups, token)
        try:
            await run_command(
                sys.executable,
                ["-I", "-S", "-c", SHIM, str(PACKAGES)],
                limit=START_LIMIT,
                stdin=marshal.dumps(order),
            )
        except CommandFailed as fault:
            raise RuntimeFailed(f"cannot start '{config.command[0]}': {fault.why}") from fault

    # -- watching

    def start_checker(self, spec: WorkloadSpec, workload: WorkloadId, sink: StateSink) -> StateChecker:
        return self._checkers.start(spec.instance_name, NativeStateGetter(self._of(workload)), sink)

    # -- health checks

    async def check_target(self, workload: WorkloadId, container: str | None = None) -> CheckTarget:
        del container
        found = self._of(workload).processes()
        if found is None or not found[0].alive:
            raise RuntimeFailed("cannot find the process of the workload")
        return CheckTarget(found[0].pid, found[0].start)

    async def run_check(
        self, workload: WorkloadId, command: Sequence[str], limit: float, container: str | None = None
    ) -> CommandResult:
        """The helper process enforces `limit`, and ends earlier if the agent ends."""
        target = await self.check_target(workload, container)
        order = marshal.dumps({"process": target.pid, "start": target.start, "command": list(command), "limit": limit})
        async with self._check_slots.slot():
            code, output = await probe_command(
                sys.executable,
                ["-I", "-S", "-c", CHECK, str(PACKAGES)],
                limit=limit + CHECK_OVERHEAD,
                stdin=b"%d\n%s" % (len(order), order),
                keep=MAX_CHECK_OUTPUT,
                grace=CHECK_OVERHEAD,
            )
        return _command_result(code, output)

    async def image_check(self, workload: WorkloadId) -> ExecCheck | None:
        raise Unsupported("native processes have no image, declare a check")

    def processes(self, workload: WorkloadId) -> list[int]:
        found = self._of(workload).processes()
        return [found[0].pid] if found is not None and found[0].alive else []

    def logs(self, workload: WorkloadId, options: LogOptions) -> AsyncIterator[bytes]:
        folder = self._of(workload)
        from ankaios.runtimes.native.log import read_log  # loaded late, so that the agent starts faster

        return read_log(folder.path, options, lambda: not folder.keeper_alive)

    # -- stopping

    async def delete_workload(self, workload: WorkloadId) -> None:
        """Send SIGTERM to the process group, and SIGKILL after the stop time."""
        self._check()
        folder = self._of(workload)
        if not folder.path.exists():
            return
        async with start_lock(folder):
            await self._end(folder)
            remove_folder(folder.path)

    async def _end(self, folder: NativeFolder) -> None:
        if found := folder.processes():
            await end_processes(*found, self._stop_time)
        left = [cgroup for cgroup in folder.cgroups() if os.path.exists(cgroup)]  # noqa: PTH110
        if left and not await asyncio.to_thread(remove_cgroups, left):
            raise RuntimeFailed(f"cannot end all processes of '{folder.path.name}': they still run after SIGKILL")
        for path in folder.mount_points():  # already removed, unless the keeper was killed
            remove_mount_point(path)

    async def was_out_of_memory(self, workload: WorkloadId) -> bool:
        """Only with a memory limit: the kernel does not count other kills."""
        return self._of(workload).was_out_of_memory

    async def close(self) -> None:
        self._checkers.close()


def _command_result(code: int | None, output: bytes) -> CommandResult:
    """Parse the result that the helper process reports."""
    if code is None:
        return CommandResult(None)
    try:
        result = marshal.loads(output)
        return CommandResult(result["code"], result["output"].decode(errors="replace"))
    except (ValueError, EOFError, TypeError, KeyError) as fault:
        text = output.decode(errors="replace")
        raise RuntimeFailed(f"cannot run the command: {text or f'exit code {code}'}") from fault
