"""Compares all that is known with podman's own listing.

Podman is asked soon after it stored a state, which includes states that are seen nowhere else, such as paused, and from
time to time in any case. Owned is the task that asks. It runs while something is watched, and asks the less often the
longer podman takes, so being sure never costs more than a small, fixed part of a processor.
"""

import asyncio
import logging
from contextlib import suppress

from ankaios.common.supervision import keep_running
from ankaios.runtimes.podman_cli import PodmanCli
from ankaios.runtimes.podman_watch import PodmanWatch

SHARE_OF_TIME = 1 / 300
# One command of podman stores states several times. What the agent itself does is waited for, but not for long.
WRITTEN_PAUSE, OWN_CALLS_LIMIT = 0.2, 0.7
SHORTEST_INTERVAL = 0.6

_log = logging.getLogger(__name__)


class PodmanResync:
    def __init__(self, cli: PodmanCli, watch: PodmanWatch) -> None:
        self._cli = cli
        self._watch = watch
        self._task: asyncio.Task[None] | None = None
        self._written = asyncio.Event()
        cli.on_new_listing(watch.hint_all)
        watch.on_states_written = self._written.set

    def begin(self) -> None:
        """Called whenever a watch begins."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(keep_running("the podman resync", self._run), name="podman resync")

    async def _run(self) -> None:
        took = 0.0
        while True:
            await self._wait_for_reason(max(self._cli.settings.resync, took / SHARE_OF_TIME))
            if not self._watch.watching:
                return
            self._written.clear()
            loaded = await self._cli.listing(not_before=self._watch.now())
            took = loaded.took
            if isinstance(loaded.value, Exception):
                _log.warning("cannot list containers: %s", loaded.value)
            await asyncio.sleep(max(SHORTEST_INTERVAL, 2 * took))

    async def _wait_for_reason(self, longest: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._written.wait()
            await asyncio.sleep(WRITTEN_PAUSE)
            async with asyncio.timeout(OWN_CALLS_LIMIT):
                while self._cli.calls_under_way:  # noqa: ASYNC110 - the end of a call says nothing about the next one
                    await asyncio.sleep(WRITTEN_PAUSE / 2)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
