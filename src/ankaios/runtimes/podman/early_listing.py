"""Starts the first listing of containers while the rest of the agent is still being loaded.

Input: the settings of podman. Output: the running process of the listing, whose output the podman connectors read. They
repeat the call if it fails. The module owns the process until `take` or `drop` is called.
"""

from __future__ import annotations

import fcntl
import time

from ankaios.runtimes.child_process import ChildProcess
from ankaios.runtimes.podman.podman_settings import LIST_CONTAINERS, PodmanSettings

# Enough for a few hundred containers: the output is read later, and podman must not block on a full pipe.
PIPE_SIZE = 1024 * 1024
END_LIMIT = 1.0  # seconds; a killed process ends immediately unless it is in uninterruptible sleep


class EarlyListing:
    """`asked` is the start time by the monotonic clock."""

    def __init__(self, settings: PodmanSettings) -> None:
        self.asked = time.monotonic()
        self._process: ChildProcess | None = None
        try:
            environ = settings.call_environment()
            self._process = ChildProcess(settings.program, LIST_CONTAINERS, environ)
            fcntl.fcntl(self._process.stdout, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        except (OSError, ValueError):
            return

    def take(self) -> ChildProcess | None:
        """Return the process, which the caller owns from now on."""
        process, self._process = self._process, None
        return process

    def drop(self) -> None:
        """Kill and reap the process if it was not taken."""
        if (process := self.take()) is not None:
            process.close()
            process.kill()
            until = time.monotonic() + END_LIMIT
            while not process.has_ended() and time.monotonic() < until:
                time.sleep(0.001)
