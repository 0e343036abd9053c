"""Observes which simulated servers lead, and with which term.

Input: the leaderships that the real election grants, and the commands of the real servers. Output: violations as text.
Owns the leaderships that were granted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from ankaios.common.messages import ToAgent
from ankaios.server.shell import ServerShell
from ankaios.simulation.virtual_time import SimulatedProcess, current_process
from ankaios.storage.etcd.etcd_election import EtcdElection
from ankaios.storage.leader_election import Leadership


class _Granted(Struct, frozen=True):
    process: SimulatedProcess
    leadership: Leadership

    @property
    def is_effective(self) -> bool:
        return self.process.alive and self.leadership.is_valid


class ObservedLeaders:
    """`report` is called with each violation."""

    def __init__(self, report: Callable[[str], None], note: Callable[[str, str], None]) -> None:
        self._report = report
        self._note = note
        self._granted: list[_Granted] = []

    def replaced(self) -> list[tuple[Any, str, Any]]:
        """What has to be replaced while the simulation runs."""
        start, perform = EtcdElection._start_keeper, ServerShell._perform

        def start_keeper(election: EtcdElection, leadership: Leadership) -> None:
            start(election, leadership)
            self._note_leader(leadership)

        def checked_perform(shell: ServerShell, effects: Iterable[Any]) -> None:
            effects = list(effects)
            if self._granted and shell._may_command() and any(isinstance(effect, ToAgent) for effect in effects):
                self._check_command()
            perform(shell, effects)

        return [(EtcdElection, "_start_keeper", start_keeper), (ServerShell, "_perform", checked_perform)]

    def _note_leader(self, leadership: Leadership) -> None:
        process = current_process()
        assert process is not None, "only servers lead"
        self._note(process.host, f"leads with term {leadership.term}")
        for other in self._granted:
            if other.leadership.term >= leadership.term:
                self._report(f"{process.host} leads with term {leadership.term} after term {other.leadership.term}")
            if other.process is not process and other.is_effective:
                self._report(f"{process.host} leads while {other.process.host} leads")
        self._granted = [other for other in self._granted if other.process.alive and other.process is not process]
        self._granted.append(_Granted(process, leadership))

    def _check_command(self) -> None:
        """Only the newest leader may send commands to agents."""
        process, newest = current_process(), self._granted[-1]
        if process is not None and process is not newest.process:
            self._report(f"{process.host} commands agents although {newest.process.host} leads")
