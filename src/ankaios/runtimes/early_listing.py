"""The first listing of containers, begun while the rest of the agent is still being loaded.

In come the settings of podman; out goes a listing under way, which the podman connectors finish. It is the same call
that they would make later, so it may fail in any way: then they ask again, and what they are told counts. Owned is the
process until somebody takes it.
"""

from __future__ import annotations

import fcntl
import time

from ankaios.runtimes.child_process import ChildProcess
from ankaios.runtimes.podman_settings import LIST_CONTAINERS, PodmanSettings

# What a few hundred containers need: nobody reads at first, and podman shall not wait for it.
PIPE_SIZE = 1024 * 1024
END_LIMIT = 1.0  # seconds; what is killed ends at once, unless the kernel itself waits for something


class EarlyListing:
    """`asked` is when it began, by the monotonic clock."""

    def __init__(self, settings: PodmanSettings) -> None:
        self.asked = time.monotonic()
        self._process: ChildProcess | None = None
        try:
            environ = settings.call_environment()
            self._process = ChildProcess(settings.program, LIST_CONTAINERS, environ, at_leisure=True)
            fcntl.fcntl(self._process.stdout, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        except (OSError, ValueError):
            return

    def take(self) -> ChildProcess | None:
        """From now on the process is the business of who took it."""
        process, self._process = self._process, None
        return process

    def drop(self) -> None:
        """Nobody wants it: it must not outlive us, nor be left as a zombie."""
        if (process := self.take()) is not None:
            process.close()
            process.kill()
            until = time.monotonic() + END_LIMIT
            while not process.has_ended() and time.monotonic() < until:
                time.sleep(0.001)
