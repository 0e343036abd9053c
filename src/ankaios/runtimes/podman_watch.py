"""Detects state changes of containers without calls of podman.

Input: ids of containers to watch. Output: facts (alive, ended with a code), and hints that a listing is needed. The
first process of a container is watched by its process descriptor. Its exit code is read from the file that the
container monitor writes. Changes in the folders of podman show removals and restarts. The paths of these files are
taken from the command line of a monitor. All of it is optional: without it, states are polled.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from ankaios.common.execution_state import FAILED_LOST, RUNNING_OK, ExecutionState, exited
from ankaios.common.supervision import run_once
from ankaios.runtimes.exit_watch import ExitWatch, command_line, parent_of, watch_exit
from ankaios.runtimes.inotify import Inotify
from ankaios.runtimes.podman_places import Monitor, Places, exit_code, number_in, read_monitor, stamp_of

_log = logging.getLogger(__name__)

# The exit file is written about a millisecond after the end of the process; podman removes it much later.
EXIT_FILE_PAUSES = (0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128)


class ContainerWatch:
    """Watches one container for one checker. `fact` is the newest state that needs no call of podman, `since` its time.

    Without a fact, only a listing that started after `since` is valid. `seen_ending` is the process whose end was
    detected. Podman can report it as running until it has recorded the end.
    """

    def __init__(self, hub: "PodmanWatch", container: str, exits_are_final: bool, on_hint: Callable[[], None]) -> None:
        self.container = container
        self.began = hub.now()
        self.fact: ExecutionState | None = None
        self.since = 0.0
        self.seen_ending = 0
        self._hub = hub
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
        pid = pid or self._hub.pid_of(self.container)
        if not pid or self._closed:
            return False
        monitor: list[Monitor] = []
        self._process = watch_exit(pid, lambda pid: self._is_ours(pid, monitor), self._ended)
        if self._process is None:
            return False
        self._auto_remove = monitor[0].auto_remove
        self._old_exit_file = stamp_of(self._hub.exit_file(self.container))
        self.seen_ending = 0
        self._set_fact(RUNNING_OK)
        return True

    def _is_ours(self, pid: int, found: list[Monitor]) -> bool:
        """Check that the parent of the process is the monitor of the container, which has its id as an argument."""
        parent = parent_of(pid)
        monitor = read_monitor(command_line(parent), self.container) if parent else None
        if monitor is None:
            return False
        self._hub.update_places(monitor, self.container)
        found.append(monitor)
        return True

    def _changed(self, fact: ExecutionState | None) -> None:
        self._set_fact(fact)
        self._hub.on_change()

    def _set_fact(self, fact: ExecutionState | None) -> None:
        self.fact = fact
        self.since = self._hub.now()

    def update(self, fact: ExecutionState | None, asked: float) -> None:
        """Take over the state of a listing that started at `asked`, unless the process is watched."""
        if not self.alive:
            self.fact, self.since, self.seen_ending = fact, asked, 0

    def hint(self) -> None:
        if not self._closed and not self._hub.is_quiet(self.container):
            self._on_hint()

    def invalidate(self) -> None:
        """Drop the fact after an event, and give a hint."""
        if not self._closed:
            self._changed(None)
            self.hint()

    def _ended(self) -> None:
        self.seen_ending = self._process.pid if self._process else 0
        if self._auto_remove and self._exits_are_final:
            # Podman removes the container now; its exit code is never reported.
            self._changed(FAILED_LOST)
            self.hint()
        elif self._exits_are_final:
            self._changed(None)
            name = f"the reading of the exit code of {self.container[:12]}"
            self._reading = asyncio.create_task(run_once(name, self._read_exit, self._unread), name=name)
        else:
            asyncio.get_running_loop().call_later(self._hub.restart_pause, self.look_for_restart)

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
        path = self._hub.exit_file(self.container)
        code = exit_code(path, self._old_exit_file) if path and self.seen_ending and self._exits_are_final else None
        if code is None:
            return False
        self._changed(exited(code))
        self._hub.watch_restart(self.container)
        return True

    def close(self) -> None:
        self._closed = True
        if self._process is not None:
            self._process.close()
        if self._reading is not None:
            self._reading.cancel()
        self._hub.forget(self)


class PodmanWatch:
    """All watched containers of one podman. Owns the descriptor for folder changes.

    `on_change` is called after an event that earlier listings do not contain. `on_states_written` is called when podman
    stored the state of any container: some states, such as paused, are visible only in a listing.
    """

    restart_pause = 0.3
    folders_pause = 0.05  # the module for folder changes is slow to load, so the states are reported first

    def __init__(self, on_change: Callable[[], None], now: Callable[[], float] = time.monotonic) -> None:
        self.on_change = on_change
        self.on_states_written: Callable[[], None] = lambda: None
        self.now = now
        self._places = Places()
        self._watches: dict[str, list[ContainerWatch]] = {}
        self._quiet: set[str] = set()
        self._folders: Inotify | None = None
        self._folders_later: asyncio.TimerHandle | None = None
        self._no_folders = False

    def watch(self, container: str, exits_are_final: bool, on_hint: Callable[[], None]) -> ContainerWatch:
        watch = ContainerWatch(self, container, exits_are_final, on_hint)
        self._watches.setdefault(container, []).append(watch)
        self._quiet.discard(container)
        return watch

    def forget(self, watch: ContainerWatch) -> None:
        watches = self._watches.get(watch.container, [])
        if watch in watches:
            watches.remove(watch)
        if not watches:
            self._watches.pop(watch.container, None)
            self._quiet.discard(watch.container)
            self._unwatch_restart(watch.container)

    def is_quiet(self, container: str) -> bool:
        return container in self._quiet

    def suspend_reports(self, container: str) -> None:
        """Give no hints for the container, because the agent is deleting it."""
        if container in self._watches:
            self._quiet.add(container)

    def resume_reports(self, container: str) -> None:
        self._quiet.discard(container)
        self._invalidate(container)

    def update_places(self, monitor: Monitor, container: str) -> None:
        if monitor.pid_file != self._places.pid_file(container) or monitor.exit_folder != self._places.exit_folder:
            self._places.update_from(monitor, container)
            if self._folders_later is None:
                loop = asyncio.get_running_loop()
                self._folders_later = loop.call_later(self.folders_pause, self._watch_containers)

    def _watch_containers(self) -> None:
        self._folders_later = None
        if folder := self._places.containers_folder:
            self._watch_folder(folder)
        if self._folders is not None:
            for path in self._places.state_files:
                with suppress(OSError):
                    self._folders.add_file(path)

    def pid_of(self, container: str) -> int:
        path = self._places.pid_file(container)
        return (number_in(path) if path else None) or 0

    def processes_of(self, containers: Iterable[str]) -> list[int]:
        """Return the first processes of the containers that are known to run."""
        watches = (watch for container in containers for watch in self._watches.get(container, ())[:1])
        return [pid for watch in watches if (pid := watch.pid)]

    def exit_file(self, container: str) -> str | None:
        return self._places.exit_file(container)

    def watch_restart(self, container: str) -> None:
        """Watch for a restart of the ended container by a user or by podman."""
        if path := self._places.pid_file(container):
            self._watch_folder(os.path.dirname(path))  # noqa: PTH120

    def _unwatch_restart(self, container: str) -> None:
        if self._folders is not None and (path := self._places.pid_file(container)):
            self._folders.remove(os.path.dirname(path))  # noqa: PTH120

    def _watch_folder(self, folder: str) -> None:
        if self._no_folders:
            return
        try:
            self._folders = self._folders or Inotify(self._changed)
            self._folders.add(folder)
        except FileNotFoundError:
            pass
        except OSError as fault:
            self._no_folders = True
            _log.warning("cannot watch '%s': %s; removed containers are detected later", folder, fault)

    def _changed(self, folder: str, name: str) -> None:
        if not name:
            for container in list(self._watches):
                self._invalidate(container)
        elif f"{folder}/{name}" in self._places.state_files:
            self.on_states_written()
        elif folder == self._places.containers_folder:
            self._invalidate(name)
        elif self._places.pid_file_pattern and name == os.path.basename(self._places.pid_file_pattern[1]):  # noqa: PTH119
            self._restarted(folder)

    def _restarted(self, folder: str) -> None:
        assert self._places.pid_file_pattern
        container = folder[len(self._places.pid_file_pattern[0]) :].partition("/")[0]
        for watch in list(self._watches.get(container, ())):
            watch.look_for_restart()

    def _invalidate(self, container: str) -> None:
        for watch in list(self._watches.get(container, ())):
            watch.invalidate()

    def hint_all(self) -> None:
        """Hint all watches after a new listing."""
        for watches in list(self._watches.values()):
            for watch in list(watches):
                watch.hint()

    @property
    def watching(self) -> bool:
        return bool(self._watches)

    def close(self) -> None:
        for watches in list(self._watches.values()):
            for watch in list(watches):
                watch.close()
        if self._folders_later is not None:
            self._folders_later.cancel()
        if self._folders is not None:
            self._folders.close()
            self._folders = None
