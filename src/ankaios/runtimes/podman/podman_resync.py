"""Lists all containers periodically and after podman stored a state, so that no change is missed.

Input: hints of the watch that podman stored a state, and a timer. Output: new listings. Some states, such as paused,
are visible only in a listing. The module owns the listing task, which runs while containers are watched. Its interval
grows with the duration of a listing, so that its cost is bounded by a small, fixed share of a processor.
"""

import asyncio
import logging
from contextlib import suppress

from ankaios.common.supervision import keep_running
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_watch import PodmanWatch

SHARE_OF_TIME = 1 / 300
# One command of podman stores states several times. The resync waits for calls of the agent, but only for a short time.
WRITTEN_PAUSE, OWN_CALLS_LIMIT = 0.2, 0.7
SHORTEST_INTERVAL = 0.6

_log = logging.getLogger(__name__)


class PodmanResync:
    def __init__(self, cli: PodmanCli, watch: PodmanWatch) -> None:
        self._cli = cli
        self._watch = watch
        self._task: asyncio.Task[None] | None = None
        cli.listings.on_new(watch.hint_all)

    def begin(self) -> None:
        """Start the task if it does not run. Called whenever a watch starts."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(keep_running("the podman resync", self._run), name="podman resync")

    async def _run(self) -> None:
        took = 0.0
        while True:
            await self._wait_for_reason(max(self._cli.settings.resync, took / SHARE_OF_TIME))
            if not self._watch.watching:
                return
            self._watch.states_written.clear()
            loaded = await self._cli.listings.get(not_before=self._watch.now())
            took = loaded.took
            self._watch.watch_folders()
            if isinstance(loaded.value, Exception):
                _log.warning("cannot list containers: %s", loaded.value)
            await asyncio.sleep(max(SHORTEST_INTERVAL, 2 * took))

    async def _wait_for_reason(self, longest: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._watch.states_written.wait()
            await asyncio.sleep(WRITTEN_PAUSE)
            async with asyncio.timeout(OWN_CALLS_LIMIT):
                while self._cli.calls_under_way:  # noqa: ASYNC110 - when one call ends, others may still run
                    await asyncio.sleep(WRITTEN_PAUSE / 2)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
