"""All calls of the program podman, and the last listing of all its containers.

Input: calls of the podman connectors. Output: ids, listings and the data of volumes, or `CommandFailed`. Each call has
a time limit, few calls run at the same time, and one listing serves all requests that arrive at about the same time.
[impl->swdd~podman-uses-podman-cli~1]
[impl->swdd~podman-kube-uses-podman-cli~1]
"""

import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from ankaios.common.health import ExecCheck
from ankaios.runtimes.call_slots import CallSlots
from ankaios.runtimes.check_command import parse_image_healthcheck, run_in_container
from ankaios.runtimes.child_process import ChildProcess
from ankaios.runtimes.command import CommandFailed, command_text, finish_command, run_command, stream_command
from ankaios.runtimes.podman.early_listing import EarlyListing
from ankaios.runtimes.podman.environment import options_take_environment, settings_take_environment
from ankaios.runtimes.podman.listing import Listing, parse_listing, parse_pod_names, parse_pods, parse_volumes
from ankaios.runtimes.podman.podman_settings import LIST_CONTAINERS, PodmanSettings
from ankaios.runtimes.runtime_connector import CommandResult
from ankaios.runtimes.state_cache import StateCache

MAX_CHECKS = 1000

_log = logging.getLogger(__name__)


class PodmanCli:
    """Shared by both podman connectors, so that they share the listing and the limit of concurrent calls."""

    def __init__(
        self,
        settings: PodmanSettings = PodmanSettings(),  # noqa: B008 - it is frozen
        early: EarlyListing | None = None,
    ) -> None:
        self.settings = settings
        self._environment = settings.call_environment()
        self._plain_environment = settings.plain_environment()
        self._slots = CallSlots(settings.calls_at_a_time)
        self._stop_slots = CallSlots(settings.stops_at_a_time)
        self._check_slots = CallSlots(settings.calls_at_a_time, waiting=MAX_CHECKS)
        self.calls_under_way = 0  # calls that may change the state of containers
        self.listings: StateCache[Listing] = StateCache(self._list)
        self._list_limit = min(settings.list_limit, settings.query_limit)
        if early is not None and (process := early.take()):
            self.listings.begin(early.asked, partial(self._finish_listing, process))

    async def _call(
        self, arguments: Sequence[str], limit: float, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> str:
        async with self._slots.slot():
            with self._counted():
                return await self._call_now(arguments, limit, stdin, environment)

    async def _stop(self, arguments: Sequence[str], stdin: str = "") -> None:
        """Stops mostly wait for workloads to end. They have separate slots, so that other calls do not wait."""
        async with self._stop_slots.slot():
            with self._counted():
                await self._call_now(arguments, self.settings.stop_limit, stdin)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.calls_under_way += 1
        try:
            yield
        finally:
            self.calls_under_way -= 1

    async def _call_now(
        self, arguments: Sequence[str], limit: float, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> str:
        program, environ = self.settings.program, environment or self._environment
        return await run_command(program, arguments, limit=limit, stdin=stdin.encode(), env=environ)

    # -- containers

    async def start(self, arguments: Sequence[str], options: Sequence[str] = ()) -> str:
        """Call `run`, whose arguments include the given options of the user, or `start`.

        Return the id of the container. Earlier listings do not contain it, so they are invalidated.
        """
        plain = self._plain_environment
        copied = options_take_environment(options) or settings_take_environment(plain)
        environment = plain if copied else self._environment
        try:
            container = (await self._call(arguments, self.settings.run_limit, environment=environment)).strip()
        finally:
            self.listings.reset()  # [impl->swdd~podman-state-getter-reset-cache~1]
        if not container:
            raise CommandFailed(command_text(self.settings.program, arguments), "podman printed no container id")
        return container.rsplit(maxsplit=1)[-1]

    async def remove(self, container: str) -> None:
        """Stop and remove a container by id or name. A container that does not exist counts as removed.

        One call does both: podman sends the stop signal, waits as `podman stop` does, and removes the container.
        [impl->swdd~podman-workload-stops-container~1]
        [impl->swdd~podman-workload-deletes-container~1]
        """
        try:
            await self._stop(["rm", "--force", "--ignore", container])
        finally:
            self.listings.reset()

    def logs(self, arguments: Sequence[str]) -> AsyncIterator[bytes]:
        return stream_command(self.settings.program, arguments, self._environment)

    async def was_out_of_memory(self, container: str) -> bool:
        arguments = ["container", "inspect", "--format", "{{.State.OOMKilled}}", container]
        return (await self._call(arguments, self.settings.query_limit)).strip() == "true"

    # -- health checks

    async def run_check(self, container: str, command: Sequence[str], limit: float) -> CommandResult:
        """Checks have separate slots, so that other calls do not wait for a check that hangs."""
        async with self._check_slots.slot():
            after = (container, *command)
            return await run_in_container(self.settings.program, ["exec"], after, limit, self._environment)

    async def image_check(self, container: str) -> ExecCheck | None:
        arguments = ["inspect", "--type=container", "--format={{json .Config.Healthcheck}}", container]
        return parse_image_healthcheck(await self._call(arguments, self.settings.query_limit))

    # -- states

    async def _list(self) -> Listing:
        """List all containers. Uses no slot: only one listing runs at a time, and it must not wait for slow starts.

        All checkers wait for a listing, so the time limit of the first attempt is short. After a timeout the next
        attempt has a longer limit, because podman may only be slow.
        """
        limit, began = self._list_limit, time.monotonic()
        self._list_limit = min(2 * limit, self.settings.query_limit)
        listing = parse_listing(await self._call_now(LIST_CONTAINERS, limit))
        self._adapt_limit(time.monotonic() - began)
        return listing

    def _adapt_limit(self, took: float) -> None:
        """Set the limit of the next listing to a multiple of the last duration."""
        self._list_limit = min(max(self.settings.list_limit, 3 * took), self.settings.query_limit)

    async def _finish_listing(self, process: ChildProcess) -> Listing:
        text = command_text(self.settings.program, LIST_CONTAINERS)
        return parse_listing(await finish_command(process, text, limit=self._list_limit))

    # -- manifests

    async def kube_play(self, general: Sequence[str], options: Sequence[str], manifest: str) -> list[str]:
        """Return the ids of the pods. Earlier listings do not contain their containers, so they are invalidated.

        [impl->swdd~podman-kube-state-getter-reset-cache~1]
        """
        arguments = [*general, "kube", "play", "--quiet", *options, "-"]
        try:
            return parse_pods(await self._call(arguments, self.settings.run_limit, manifest))
        finally:
            self.listings.reset()

    async def kube_down(self, options: Sequence[str], manifest: str) -> None:
        try:
            await self._stop(["kube", "down", *options, "-"], manifest)
        finally:
            self.listings.reset()

    async def pods(self) -> dict[str, str]:
        """Return the name of each pod by its id."""
        return parse_pod_names(await self._call(["pod", "ps", "--format=json"], self.settings.query_limit))

    async def remove_pods(self, pods: Sequence[str]) -> None:
        """Remove pods. Pods that do not exist count as removed."""
        try:
            await self._stop(["pod", "rm", "--force", "--ignore", *pods])
        finally:
            self.listings.reset()

    # -- volumes that store data

    async def stored(self, pattern: str) -> dict[str, str | None]:
        """Return the texts in the volumes whose names match the regular expression; None for an unreadable text."""
        arguments = ["volume", "ls", "--filter", f"name={pattern}", "--format=json"]
        return parse_volumes(await self._call(arguments, self.settings.query_limit))

    async def store(self, volume: str, data: str) -> None:
        """Store the text in a label of the volume, as base64 without padding. An older volume is replaced."""
        import base64  # loaded late: only podman-kube needs it

        await self.forget(volume)
        encoded = base64.b64encode(data.encode()).decode().rstrip("=")
        await self._call(["volume", "create", f"--label=data={encoded}", volume], self.settings.query_limit)

    async def forget(self, volume: str) -> bool:
        """Remove the volume. Return whether it existed and was removed."""
        try:
            await self._call(["volume", "rm", volume], self.settings.query_limit)
        except CommandFailed as fault:
            _log.debug("volume not removed: %s", fault)
            return False
        return True

    async def close(self) -> None:
        await self.listings.close()
