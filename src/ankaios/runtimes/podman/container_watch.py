"""Determines the state of one container from its process descriptor, its exit file and the listing of podman.

Input: the container, the watch of all containers of podman, and listings. Output: the state, and hints that it may have
changed. The first process of a container is watched by its process descriptor, and its exit code is read from the file
that the container monitor writes. The newest source takes precedence. The module owns the process descriptor.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ankaios.common.execution_state import FAILED_LOST, RUNNING_OK, ExecutionState, exited
from ankaios.common.supervision import run_once
from ankaios.runtimes.container_listing import Container, Listing
from ankaios.runtimes.exit_watch import ExitWatch, command_line, parent_of, watch_exit
from ankaios.runtimes.podman.places import exit_code, read_monitor, stamp_of
from ankaios.runtimes.podman.states import PODMAN_UNREADABLE, is_final
from ankaios.runtimes.runtime_connector import RuntimeFailed
from ankaios.runtimes.state_cache import Loaded

if TYPE_CHECKING:
    from ankaios.runtimes.podman.podman_watch import PodmanWatch

# The exit file is written about a millisecond after the end of the process; podman removes it much later.
EXIT_FILE_PAUSES = (0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128)
RECORD_LIMIT = 5.0  # seconds


class ContainerWatch:
    """Watches one container for one checker. `fact` is the newest state that needs no call of podman, `since` its time.

    Without a fact, only a listing that started after `since` is valid. `_seen_ending` is the process whose end was
    detected. Podman can report it as running until it has recorded the end. If `is_quiet`, no hints are given.
    """

    def __init__(
        self, watches: "PodmanWatch", container: str, exits_are_final: bool, on_hint: Callable[[], None]
    ) -> None:
        self.container = container
        self._began = watches.now()
        self.fact: ExecutionState | None = None
        self.since = 0.0
        self._seen_ending = 0
        self.is_quiet = False
        self._watches = watches
        self._exits_are_final = exits_are_final
        self._on_hint = on_hint
        self._process: ExitWatch | None = None
        self._auto_remove = False
        self._old_exit_file: int | None = None
        self._reading: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.open

    @property
    def pid(self) -> int:
        """The first process of the container; 0 if it does not run or is not watched."""
        return self._process.pid if self._process is not None and self._process.open else 0

    def attach(self, pid: int = 0) -> bool:
        """Watch the process with the given id, or else the id in the pid file. Return whether a process is watched."""
        if self.alive:
            return True
        pid = pid or self._watches.pid_of(self.container)
        if not pid or self._closed:
            return False
        self._process = watch_exit(pid, self._is_ours, self._ended)
        if self._process is None:
            return False
        self._old_exit_file = stamp_of(self._watches.places.exit_file(self.container))
        self._seen_ending = 0
        self._set_fact(RUNNING_OK)
        return True

    def _is_ours(self, pid: int) -> bool:
        """Check that the parent of the process is the monitor of the container, which has its id as an argument."""
        parent = parent_of(pid)
        monitor = read_monitor(command_line(parent), self.container) if parent else None
        if monitor is None:
            return False
        self._watches.update_places(monitor, self.container)
        self._auto_remove = monitor.auto_remove
        return True

    def _changed(self, fact: ExecutionState | None) -> None:
        self._set_fact(fact)
        self._watches.on_change()

    def _set_fact(self, fact: ExecutionState | None) -> None:
        self.fact = fact
        self.since = self._watches.now()

    def hint(self) -> None:
        if not self._closed and not self.is_quiet:
            self._on_hint()

    def invalidate(self) -> None:
        """Drop the fact after an event, and give a hint."""
        if not self._closed:
            self._changed(None)
            self.hint()

    def _ended(self) -> None:
        self._seen_ending = self._process.pid if self._process else 0
        if self._auto_remove and self._exits_are_final:
            # Podman removes the container now; its exit code is never reported.
            self._changed(FAILED_LOST)
            self.hint()
        elif self._exits_are_final:
            self._changed(None)
            name = f"the reading of the exit code of {self.container[:12]}"
            self._reading = asyncio.create_task(run_once(name, self._read_exit, self._unread), name=name)
        else:
            asyncio.get_running_loop().call_later(self._watches.restart_pause, self.look_for_restart)

    def look_for_restart(self) -> None:
        """Check whether podman restarted the container; the pid file has the new process."""
        if self.attach():
            self.hint()
        else:
            self.invalidate()

    async def _read_exit(self) -> None:
        for pause in EXIT_FILE_PAUSES:
            await asyncio.sleep(pause)
            if self.read_exit_now():
                break
        self.hint()

    def _unread(self, why: str) -> None:
        """Give a hint, so that podman is called instead."""
        del why
        self.hint()

    def read_exit_now(self) -> bool:
        """Read the exit code of the process whose end was detected. Return whether it is available."""
        path = self._watches.places.exit_file(self.container)
        code = exit_code(path, self._old_exit_file) if path and self._seen_ending and self._exits_are_final else None
        if code is None:
            return False
        self._changed(exited(code))
        self._watches.watch_restart(self.container)
        return True

    # -- with the listing

    def state(self, loaded: Loaded[Listing] | None) -> ExecutionState | None:
        """Return None if a new listing is needed.

        [impl->swdd~podman-state-getter-uses-podmancli~1]
        [impl->swdd~podman-state-getter-returns-unknown-state~1]
        """
        if self.fact is None and self.read_exit_now():
            return self.fact
        if loaded is None or loaded.asked < self.since:
            return self.fact or (RUNNING_OK if self.attach() else None)
        if isinstance(loaded.value, RuntimeFailed):
            return RUNNING_OK if self.attach() else self.fact or PODMAN_UNREADABLE
        return self._as_listed(loaded.value.by_id.get(self.container), loaded.asked)

    def _as_listed(self, listed: Container | None, asked: float) -> ExecutionState | None:
        """[impl->swdd~podman-state-getter-returns-removed-state~1]"""
        if listed is None:
            self.update(FAILED_LOST, asked)
            return FAILED_LOST
        running = listed.state == RUNNING_OK and self.attach(listed.pid)
        if not running and self._end_is_not_recorded(listed, asked):
            return self.fact or RUNNING_OK
        if listed.state == RUNNING_OK and not running and listed.pid and asked < self._began:
            # The listing is older than the watch, and the process cannot be watched: it may have ended since.
            self.update(None, self._began)
            return None
        self.update(listed.state if is_final(listed.state) else None, asked)
        return listed.state

    def _end_is_not_recorded(self, listed: Container, asked: float) -> bool:
        """Return whether the end of the process was detected but podman has not recorded it yet.

        That can take long if many containers end at the same time.
        """
        ended = self._seen_ending
        if not ended or (self.fact is None and asked > self.since + RECORD_LIMIT):
            return False
        return listed.state.state == "Stopping" or (listed.state == RUNNING_OK and listed.pid == ended)

    @property
    def settled(self) -> bool:
        """Whether the next change is detected without a listing."""
        return self.alive or self.fact is not None

    def update(self, fact: ExecutionState | None, asked: float) -> None:
        """Take over the state of a listing that started at `asked`, unless the process is watched."""
        if not self.alive:
            self.fact, self.since, self._seen_ending = fact, asked, 0

    def close(self) -> None:
        self._closed = True
        if self._process is not None:
            self._process.close()
        if self._reading is not None:
            self._reading.cancel()
        self._watches.forget(self)
