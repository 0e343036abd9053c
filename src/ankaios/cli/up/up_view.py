"""The view of `ank up`: workloads, devices and suggested next commands.

Input: a blocking session with the server. Output: lines. Owns the rows of the last refresh.
"""

import shlex
import shutil
import sys
from collections.abc import Collection
from math import inf
from pathlib import Path
from time import monotonic
from typing import Self

from ankaios.cli.followed_workloads import FollowedWorkloads
from ankaios.cli.session import Session
from ankaios.cli.terminal.live_display import LiveDisplay
from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.terminal.table import styled_table
from ankaios.cli.up.up_logs import FollowedLogs
from ankaios.cli.views.device_rows import DEVICES_HEADER, device_rows
from ankaios.cli.views.workload_rows import WorkloadRow, instance_of, workload_instances, workload_table

DEVICES_SECONDS = 1.0
"""The age at which devices are requested again: the server reports only changes of workloads by itself."""
SETTLE_SECONDS = 1.5
WAITING_SETTLE_SECONDS = 5.0
"""The time without changes after which the cluster has settled; longer if a workload waits for another one."""
_MOVING = ("Pending(Initial)", "Pending(Starting)", "Stopping")
_WAITING = "Pending(WaitingToStart)"


class ClusterView:
    """`ank` is the command that connects to this cluster. With `follow`, the output of the workloads is printed."""

    def __init__(self, output: CliOutput, session: Session, ank: str, *, follow: bool = False) -> None:
        self._output = output
        self._session = session
        self._ank = ank
        self._display = LiveDisplay(output)
        self._logs = FollowedLogs(output, session) if follow else None
        session.on_response = self._logs.print if self._logs else None
        self._workloads = FollowedWorkloads(session)
        self._devices: list[tuple[str, ...]] = []
        self._devices_time = 0.0
        self._changed = monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.on_response = None
        self._display.__exit__()

    def refresh(self, seconds: float | None = None) -> None:
        """Request everything, or wait so many seconds for changes."""
        if seconds is None:
            changed = list(workload_instances(self._workloads.request().workloadStates))
        else:
            states = self._session.next_states(seconds)
            changed = [(instance_of(state.instanceName), state.executionState) for state in states]
            self._workloads.update(states)
        if changed:
            self._changed = monotonic()
        if self._logs:
            self._logs.follow(changed)
        if changed or monotonic() - self._devices_time > DEVICES_SECONDS:
            self._devices = device_rows(self._session.complete_state("deviceInstances").deviceInstances)
            self._devices_time = monotonic()

    @property
    def is_settled(self) -> bool:
        return monotonic() - self._changed > settle_seconds(self._workloads.rows.values())

    def show(self, *, with_next_steps: bool) -> None:
        self._display.show(self._tables(), self._next_steps() if with_next_steps else ())

    def print(self) -> None:
        self._output.line("\n".join(self._tables()))

    def _tables(self) -> list[str]:
        lines = workload_table(self._output, self._workloads.rows.values())
        return [*lines, "", *styled_table(self._output, DEVICES_HEADER, self._devices)] if self._devices else lines

    def _next_steps(self) -> list[str]:
        steps = next_steps(self._workloads.rows.values(), bool(self._devices))
        commands = [line for step in steps for line in command_lines(self._ank, step, self._output.width)]
        return ["", "Try next, in another terminal:", *commands, "Ctrl+C here stops and removes everything."]


def settle_seconds(rows: Collection[WorkloadRow]) -> float:
    """The time without changes after which these rows have settled; infinite while a workload starts or stops."""
    if any(row.state.startswith(_MOVING) for row in rows):
        return inf
    return WAITING_SETTLE_SECONDS if any(row.state == _WAITING for row in rows) else SETTLE_SECONDS


def next_steps(rows: Collection[WorkloadRow], with_devices: bool) -> list[str]:
    """Three commands to try. The logs are those of a running workload, if there is one."""
    running = [row.name for row in rows if row.state.startswith("Running")]
    names = sorted(running or [row.name for row in rows])
    return [
        "get workloads --watch",
        f"logs -f {names[-1]}" if names else "apply MANIFEST.yaml",
        "get devices" if with_devices else "get events",
    ]


def command_lines(ank: str, arguments: str, width: int) -> list[str]:
    """The command on one line or, if that is too long, on two lines that can be copied into a shell."""
    line = f"  {ank} {arguments}"
    return [line] if len(line) <= width else [f"  {ank} \\", f"    {arguments}"]


def own_command() -> str:
    """`ank` if the shell finds this program under that name, else its path, which works in every folder."""
    program = Path(sys.argv[0])
    if program.name != "ank":
        return f"{shlex.quote(sys.executable)} -m ankaios"
    found = shutil.which("ank")
    return "ank" if found and Path(found).samefile(program) else shlex.quote(str(program.resolve()))
