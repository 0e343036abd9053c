"""The net under all hints: from time to time podman is asked for everything, and all checkers compare.

Owned is the task that asks. It runs while something is watched, and asks the less often the longer podman takes, so
being sure never costs more than a small, fixed part of a processor.
"""

import asyncio
import logging

from ankaios.common.supervision import keep_running
from ankaios.runtimes.podman_cli import PodmanCli
from ankaios.runtimes.podman_watch import PodmanWatch

SHARE_OF_TIME = 1 / 300

_log = logging.getLogger(__name__)


class PodmanResync:
    def __init__(self, cli: PodmanCli, watch: PodmanWatch) -> None:
        self._cli = cli
        self._watch = watch
        self._task: asyncio.Task[None] | None = None
        cli.on_new_listing(watch.hint_all)

    def begin(self) -> None:
        """Called whenever a watch begins."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(keep_running("the podman resync", self._run), name="podman resync")

    async def _run(self) -> None:
        took = 0.0
        while True:
            await asyncio.sleep(max(self._cli.settings.resync, took / SHARE_OF_TIME))
            if not self._watch.watching:
                return
            loaded = await self._cli.listing(not_before=self._watch.now())
            took = loaded.took
            if isinstance(loaded.value, Exception):
                _log.warning("cannot list containers: %s", loaded.value)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
