"""What somebody sees of a small cluster that runs in this terminal: its workloads, its devices and what to try next.

In comes a session with the server, whose calls block; out go lines. Owns what was heard of the cluster last.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Collection
from math import inf
from pathlib import Path
from time import monotonic

from ankaios.cli.commands.get_workloads import MASKS, table_of, updated
from ankaios.cli.connection import Session
from ankaios.cli.device_rows import DEVICES_HEADER, device_rows
from ankaios.cli.output import Output
from ankaios.cli.plain_table import plain_lines
from ankaios.cli.screen import Screen
from ankaios.cli.workload_rows import Instance, Row, rows_of

DEVICES_SECONDS = 1.0
"""How old devices may be: the server tells changes of workloads by itself, and of devices when it is asked."""
CALM_SECONDS = 1.5
WAITING_SECONDS = 5.0
"""How long nothing changes before that counts as the end of the story; longer if something waits for something else."""
_MOVING = ("Pending(Initial)", "Pending(Starting)", "Stopping")
_WAITING = "Pending(WaitingToStart)"


class ClusterView:
    """`ank` is the command that reaches this cluster."""

    def __init__(self, output: Output, session: Session, ank: str) -> None:
        self._output = output
        self._session = session
        self._ank = ank
        self._screen = Screen(output)
        self._rows: dict[Instance, Row] = {}
        self._devices: list[tuple[str, ...]] = []
        self._devices_seen = 0.0
        self._changed = monotonic()

    def look(self, seconds: float | None = None) -> None:
        """At everything, or for so long at what changes."""
        states = [] if seconds is None else self._session.next_states(seconds)
        if states:
            self._changed = monotonic()
        if seconds is None or not all(updated(self._rows, state) for state in states):
            self._rows = rows_of(self._session.complete_state(*MASKS))
        if states or monotonic() - self._devices_seen > DEVICES_SECONDS:
            self._devices = device_rows(self._session.complete_state("deviceInstances").deviceInstances)
            self._devices_seen = monotonic()

    @property
    def is_settled(self) -> bool:
        return monotonic() - self._changed > calm_needed(self._rows.values())

    def draw(self, with_hints: bool) -> None:
        self._screen.draw(self._tables(), self._next_steps() if with_hints else ())

    def print(self) -> None:
        self._output.line("\n".join(self._tables()))

    def _tables(self) -> list[str]:
        lines = table_of(self._output, self._rows.values())
        return [*lines, "", *plain_lines(self._output, DEVICES_HEADER, self._devices)] if self._devices else lines

    def _next_steps(self) -> list[str]:
        steps = [f"  {self._ank} {step}" for step in next_steps(self._rows.values(), bool(self._devices))]
        return ["", "Try next, in another terminal:", *steps, "Ctrl+C here stops and removes everything."]


def calm_needed(rows: Collection[Row]) -> float:
    """Seconds; infinity while something moves."""
    if any(row.state.startswith(_MOVING) for row in rows):
        return inf
    return WAITING_SECONDS if any(row.state == _WAITING for row in rows) else CALM_SECONDS


def next_steps(rows: Collection[Row], with_devices: bool) -> list[str]:
    """Three of them. Logs are best of something that still runs, if there is anything."""
    running = [row.name for row in rows if row.state.startswith("Running")]
    names = sorted(running or [row.name for row in rows])
    return [
        "get workloads --watch",
        f"logs -f {names[-1]}" if names else "apply MANIFEST.yaml",
        "get devices" if with_devices else "get events",
    ]


def own_command() -> str:
    """`ank` if that finds this very program, else where it is: it can be copied, whatever folder one is in."""
    program = Path(sys.argv[0])
    if program.name != "ank":
        return f"{shlex.quote(sys.executable)} -m ankaios"
    found = shutil.which("ank")
    return "ank" if found and Path(found).samefile(program) else shlex.quote(str(program.resolve()))
