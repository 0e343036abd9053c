"""All calls of the program podman.

Input: calls of the podman connectors. Output: ids, listings and the data of volumes, or `CommandFailed`.
[impl->swdd~podman-uses-podman-cli~1]
[impl->swdd~podman-kube-uses-podman-cli~1]
"""

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial

from ankaios.common.health import ExecCheck
from ankaios.runtimes.check_command import parse_image_healthcheck
from ankaios.runtimes.child_process import ChildProcess
from ankaios.runtimes.command import CommandFailed, command_text, finish_command
from ankaios.runtimes.container_cli import ContainerCli
from ankaios.runtimes.container_listing import Listing
from ankaios.runtimes.podman.early_listing import EarlyListing
from ankaios.runtimes.podman.environment import options_take_environment, settings_take_environment
from ankaios.runtimes.podman.listing import parse_listing, parse_pod_names, parse_pods, parse_volumes
from ankaios.runtimes.podman.podman_settings import LIST_CONTAINERS, PodmanSettings

_log = logging.getLogger(__name__)


class PodmanCli(ContainerCli):
    """Shared by both podman connectors, so that they share the listing and the limit of concurrent calls."""

    settings: PodmanSettings

    def __init__(
        self,
        settings: PodmanSettings = PodmanSettings(),  # noqa: B008 - it is frozen
        early: EarlyListing | None = None,
    ) -> None:
        super().__init__(settings)
        self._plain_environment = settings.plain_environment()
        self._list_limit = min(settings.list_limit, settings.query_limit)
        if early is not None and (process := early.take()):
            self.listings.begin(early.asked, partial(self._finish_listing, process))

    # -- containers

    def _start_environment(self, options: Sequence[str]) -> Mapping[str, str] | None:
        plain = self._plain_environment
        copied = options_take_environment(options) or settings_take_environment(plain)
        return plain if copied else self._environment

    async def remove(self, container: str) -> None:
        """One call does both: podman sends the stop signal, waits as `podman stop` does, and removes the container.

        [impl->swdd~podman-workload-stops-container~1]
        [impl->swdd~podman-workload-deletes-container~1]
        """
        await self._stop(["rm", "--force", "--ignore", container])

    async def was_out_of_memory(self, container: str) -> bool:
        arguments = ["container", "inspect", "--format", "{{.State.OOMKilled}}", container]
        return (await self._call(arguments)).strip() == "true"

    async def image_check(self, container: str) -> ExecCheck | None:
        arguments = ["inspect", "--type=container", "--format={{json .Config.Healthcheck}}", container]
        return parse_image_healthcheck(await self._call(arguments))

    # -- states

    async def _list(self) -> Listing:
        """All checkers wait for a listing, so the time limit of the first attempt is short.

        After a timeout the next attempt has a longer limit, because podman may only be slow. After a success the limit
        is at least three times the last duration.
        """
        limit, began = self._list_limit, time.monotonic()
        self._list_limit = min(2 * limit, self.settings.query_limit)
        listing = parse_listing(await self._call_now(LIST_CONTAINERS, limit))
        took = time.monotonic() - began
        self._list_limit = min(max(self.settings.list_limit, 3 * took), self.settings.query_limit)
        return listing

    async def _finish_listing(self, process: ChildProcess) -> Listing:
        text = command_text(self.settings.program, LIST_CONTAINERS)
        return parse_listing(await finish_command(process, text, limit=self._list_limit))

    # -- manifests

    async def kube_play(self, general: Sequence[str], options: Sequence[str], manifest: str) -> list[str]:
        """Return the ids of the pods.

        [impl->swdd~podman-kube-state-getter-reset-cache~1]
        """
        return parse_pods(await self._run([*general, "kube", "play", "--quiet", *options, "-"], manifest))

    async def kube_down(self, options: Sequence[str], manifest: str) -> None:
        await self._stop(["kube", "down", *options, "-"], manifest)

    async def pods(self) -> dict[str, str]:
        """Return the name of each pod by its id."""
        return parse_pod_names(await self._call(["pod", "ps", "--format=json"]))

    async def remove_pods(self, pods: Sequence[str]) -> None:
        """Remove pods. Pods that do not exist count as removed."""
        await self._stop(["pod", "rm", "--force", "--ignore", *pods])

    # -- volumes that store data

    async def stored(self, pattern: str) -> dict[str, str | None]:
        """Return the texts in the volumes whose names match the regular expression; None for an unreadable text."""
        arguments = ["volume", "ls", "--filter", f"name={pattern}", "--format=json"]
        return parse_volumes(await self._call(arguments))

    async def store(self, volume: str, data: str) -> None:
        """Store the text in a label of the volume, as base64 without padding. An older volume is replaced."""
        import base64  # loaded late: only podman-kube needs it

        await self.forget(volume)
        encoded = base64.b64encode(data.encode()).decode().rstrip("=")
        await self._call(["volume", "create", f"--label=data={encoded}", volume])

    async def forget(self, volume: str) -> bool:
        """Remove the volume. Return whether it existed and was removed."""
        try:
            await self._call(["volume", "rm", volume])
        except CommandFailed as fault:
            _log.debug("volume not removed: %s", fault)
            return False
        return True
