"""Detects state changes of all watched containers without calls of podman.

Input: ids of containers to watch. Output: hints that a listing is needed. The module owns the watches of the containers
and the descriptor for folder changes. Changes in the folders of podman show removals and restarts. Their paths are
taken from the command line of a container monitor. All of it is optional: without it, states are polled.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from ankaios.runtimes.podman.container_watch import ContainerWatch
from ankaios.runtimes.podman.inotify import Inotify
from ankaios.runtimes.podman.places import Monitor, Places, number_in

_log = logging.getLogger(__name__)


class PodmanWatch:
    """All watched containers of one podman.

    `on_change` is called after an event that earlier listings do not contain. `states_written` is set when podman
    stored the state of any container: some states, such as paused, are visible only in a listing.
    """

    restart_pause = 0.3
    folders_pause = 0.05  # the module for folder changes is slow to load, so the states are reported first

    def __init__(self, on_change: Callable[[], None], now: Callable[[], float] = time.monotonic) -> None:
        self.on_change = on_change
        self.states_written = asyncio.Event()
        self.now = now
        self.places = Places()
        self._watches: dict[str, list[ContainerWatch]] = {}
        self._folders: Inotify | None = None
        self._folders_later: asyncio.TimerHandle | None = None
        self._no_folders = False

    def watch(self, container: str, exits_are_final: bool, on_hint: Callable[[], None]) -> ContainerWatch:
        watch = ContainerWatch(self, container, exits_are_final, on_hint)
        self._watches.setdefault(container, []).append(watch)
        return watch

    def forget(self, watch: ContainerWatch) -> None:
        watches = self._watches.get(watch.container, [])
        if watch in watches:
            watches.remove(watch)
        if not watches:
            self._watches.pop(watch.container, None)
            self._unwatch_restart(watch.container)

    def suspend_reports(self, container: str) -> None:
        """Give no hints for the container, because the agent is deleting it."""
        for watch in self._watches.get(container, ()):
            watch.is_quiet = True

    def resume_reports(self, container: str) -> None:
        for watch in self._watches.get(container, ()):
            watch.is_quiet = False
        self._invalidate(container)

    def update_places(self, monitor: Monitor, container: str) -> None:
        if monitor.pid_file != self.places.pid_file(container) or monitor.exit_folder != self.places.exit_folder:
            self.places.update_from(monitor, container)
            if self._folders_later is None:
                loop = asyncio.get_running_loop()
                self._folders_later = loop.call_later(self.folders_pause, self.watch_folders)

    def watch_folders(self) -> None:
        """Watch the folder and the files of podman, again if the kernel dropped a watch because they were removed."""
        self._folders_later = None
        if folder := self.places.containers_folder:
            self._watch_folder(folder)
        if self._folders is not None:
            for path in self.places.state_files:
                with suppress(OSError):
                    self._folders.add_file(path)

    def pid_of(self, container: str) -> int:
        path = self.places.pid_file(container)
        return (number_in(path) if path else None) or 0

    def processes_of(self, containers: Iterable[str]) -> list[int]:
        """Return the first processes of the containers that are known to run."""
        watches = (watch for container in containers for watch in self._watches.get(container, ())[:1])
        return [pid for watch in watches if (pid := watch.pid)]

    def watch_restart(self, container: str) -> None:
        """Watch for a restart of the ended container by a user or by podman."""
        if path := self.places.pid_file(container):
            self._watch_folder(os.path.dirname(path))  # noqa: PTH120

    def _unwatch_restart(self, container: str) -> None:
        if self._folders is not None and (path := self.places.pid_file(container)):
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
            for watch in self._all():
                watch.invalidate()
        elif f"{folder}/{name}" in self.places.state_files:
            self.states_written.set()
        elif folder == self.places.containers_folder:
            self._invalidate(name)
        elif self.places.pid_file_pattern and name == os.path.basename(self.places.pid_file_pattern[1]):  # noqa: PTH119
            self._restarted(folder)

    def _restarted(self, folder: str) -> None:
        assert self.places.pid_file_pattern
        container = folder[len(self.places.pid_file_pattern[0]) :].partition("/")[0]
        for watch in list(self._watches.get(container, ())):
            watch.look_for_restart()

    def _invalidate(self, container: str) -> None:
        for watch in list(self._watches.get(container, ())):
            watch.invalidate()

    def hint_all(self) -> None:
        """Hint all watches after a new listing."""
        for watch in self._all():
            watch.hint()

    def _all(self) -> list[ContainerWatch]:
        return [watch for watches in self._watches.values() for watch in watches]

    @property
    def watching(self) -> bool:
        return bool(self._watches)

    def close(self) -> None:
        for watch in self._all():
            watch.close()
        if self._folders_later is not None:
            self._folders_later.cancel()
        if self._folders is not None:
            self._folders.close()
            self._folders = None
