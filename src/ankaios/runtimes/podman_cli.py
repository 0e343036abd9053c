"""All calls of the program podman, and the last listing of all its containers.

In come what the podman connectors want done; out come ids, listings and volumes' data, or `CommandFailed`. Each call
has a time limit, few are under way at a time, and one listing serves all who ask at about the same time.
[impl->swdd~podman-uses-podman-cli~1]
[impl->swdd~podman-kube-uses-podman-cli~1]
"""

import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Any

from ankaios.common.health import ExecCheck
from ankaios.runtimes.call_slots import CallSlots
from ankaios.runtimes.check_command import parse_image_healthcheck, run_in_container
from ankaios.runtimes.child_process import ChildProcess
from ankaios.runtimes.command import CommandFailed, command_text, finish_command, run_command, stream_command
from ankaios.runtimes.early_listing import EarlyListing
from ankaios.runtimes.podman_environment import options_take_environment, settings_take_environment
from ankaios.runtimes.podman_listing import Listing, parse_listing
from ankaios.runtimes.podman_settings import LIST_CONTAINERS, PodmanSettings
from ankaios.runtimes.runtime_connector import CommandResult, RuntimeFailed
from ankaios.runtimes.state_cache import MAX_AGE, Loaded, StateCache

MAX_CHECKS = 1000

_log = logging.getLogger(__name__)


class PodmanCli:
    """One for both podman connectors, so they share the listing and the bound on calls."""

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
        self.calls_under_way = 0  # those that may change something
        self._states: StateCache[Listing] = StateCache(self._list)
        self._patience = min(settings.list_limit, settings.query_limit)
        if early is not None and (process := early.take()):
            self._states.begin(early.asked, partial(self._finish_listing, process))

    async def _call(
        self, arguments: Sequence[str], limit: float, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> str:
        async with self._slots.slot():
            with self._counted():
                return await self._call_now(arguments, limit, stdin, environment)

    async def _stop(self, arguments: Sequence[str], stdin: str = "") -> None:
        """These mostly wait for workloads to end, and nothing else shall wait for that."""
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
        """`run`, with these options of the user among its arguments, or `start`.

        Returns the id of the container, which no listing asked for before can show.
        [impl->swdd~podman-state-getter-reset-cache~1]
        """
        plain = self._plain_environment
        copied = options_take_environment(options) or settings_take_environment(plain)
        environment = plain if copied else self._environment
        try:
            container = (await self._call(arguments, self.settings.run_limit, environment=environment)).strip()
        finally:
            self._states.reset()
        if not container:
            raise RuntimeFailed(f"podman told no container id. Execution of 'podman {' '.join(arguments)}'")
        return container.rsplit(maxsplit=1)[-1]

    async def remove(self, container: str) -> None:
        """Stop and remove a container by id or name; one that does not exist is fine.

        One call does both: podman sends the stop signal, waits as `podman stop` does, and removes the container.
        [impl->swdd~podman-workload-stops-container~1]
        [impl->swdd~podman-workload-deletes-container~1]
        """
        try:
            await self._stop(["rm", "--force", "--ignore", container])
        finally:
            self._states.reset()

    def logs(self, arguments: Sequence[str]) -> AsyncIterator[bytes]:
        return stream_command(self.settings.program, arguments, self._environment)

    async def was_out_of_memory(self, container: str) -> bool:
        arguments = ["container", "inspect", "--format", "{{.State.OOMKilled}}", container]
        return (await self._call(arguments, self.settings.query_limit)).strip() == "true"

    # -- health checks

    async def run_check(self, container: str, command: Sequence[str], limit: float) -> CommandResult:
        """Checks have their own bound, so that no other call waits for one that hangs."""
        async with self._check_slots.slot():
            after = (container, *command)
            return await run_in_container(self.settings.program, ["exec"], after, limit, self._environment)

    async def image_check(self, container: str) -> ExecCheck | None:
        arguments = ["inspect", "--type=container", "--format={{json .Config.Healthcheck}}", container]
        return parse_image_healthcheck(await self._call(arguments, self.settings.query_limit))

    # -- states

    async def _list(self) -> Listing:
        """Not bounded by the slots: there is never more than one, and states must not wait for slow starts.

        All wait for it, so a podman that hangs is given up soon; one that is just slow gets more time the next time.
        """
        limit, began = self._patience, time.monotonic()
        self._patience = min(2 * limit, self.settings.query_limit)
        listing = parse_listing(await self._call_now(LIST_CONTAINERS, limit))
        self._be_patient(time.monotonic() - began)
        return listing

    def _be_patient(self, took: float) -> None:
        """What took long today may take long again."""
        self._patience = min(max(self.settings.list_limit, 3 * took), self.settings.query_limit)

    async def _finish_listing(self, process: ChildProcess) -> Listing:
        text = command_text(self.settings.program, LIST_CONTAINERS)
        return parse_listing(await finish_command(process, text, limit=self._patience))

    async def listing(self, not_before: float = 0.0, max_age: float = MAX_AGE) -> Loaded[Listing]:
        """All containers, as podman told at most `max_age` seconds ago and not before the given moment."""
        return await self._states.get(max_age, not_before)

    def newest_listing(self, max_age: float = inf) -> Loaded[Listing] | None:
        """What podman told last, without asking."""
        return self._states.newest(max_age)

    def outdate_listing(self) -> None:
        """Something changed: what podman told before is not asked any more."""
        self._states.reset()

    def on_new_listing(self, listener: Callable[[], None]) -> None:
        self._states.on_new(listener)

    # -- manifests

    async def kube_play(self, general: Sequence[str], options: Sequence[str], manifest: str) -> list[str]:
        """Returns the ids of the pods, whose containers no listing asked for before can show.

        [impl->swdd~podman-kube-state-getter-reset-cache~1]
        """
        arguments = [*general, "kube", "play", "--quiet", *options, "-"]
        try:
            return parse_pods(await self._call(arguments, self.settings.run_limit, manifest))
        finally:
            self._states.reset()

    async def kube_down(self, options: Sequence[str], manifest: str) -> None:
        try:
            await self._stop(["kube", "down", *options, "-"], manifest)
        finally:
            self._states.reset()

    async def pods(self) -> dict[str, str]:
        """The name of each pod by its id."""
        return parse_pod_names(await self._call(["pod", "ps", "--format=json"], self.settings.query_limit))

    async def remove_pods(self, pods: Sequence[str]) -> None:
        """Pods that do not exist are fine."""
        try:
            await self._stop(["pod", "rm", "--force", "--ignore", *pods])
        finally:
            self._states.reset()

    # -- volumes that keep data

    async def stored(self, pattern: str) -> dict[str, str | None]:
        """The texts kept in the volumes whose names match the regular expression; None where it is unreadable."""
        arguments = ["volume", "ls", "--filter", f"name={pattern}", "--format=json"]
        return parse_volumes(await self._call(arguments, self.settings.query_limit))

    async def store(self, volume: str, data: str) -> None:
        """Keep the text in a label of the volume, base64 without padding; an older volume is replaced."""
        import base64  # only pods need it

        await self.forget(volume)
        encoded = base64.b64encode(data.encode()).decode().rstrip("=")
        await self._call(["volume", "create", f"--label=data={encoded}", volume], self.settings.query_limit)

    async def forget(self, volume: str) -> bool:
        """Whether the volume was there and is removed."""
        try:
            await self._call(["volume", "rm", volume], self.settings.query_limit)
        except CommandFailed as fault:
            _log.debug("volume not removed: %s", fault)
            return False
        return True

    async def close(self) -> None:
        await self._states.close()


def parse_pods(text: str) -> list[str]:
    """The non-empty lines after each `Pod:` up to the next line that ends in a colon."""
    pods: list[str] = []
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.endswith(":"):
            inside = line == "Pod:"
        elif inside and line:
            pods.append(line)
    return pods


def _parse_list(text: str, what: str) -> list[Any]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise RuntimeFailed(f"cannot read the list of {what}: {fault}") from fault
    if entries is not None and not isinstance(entries, list):
        raise RuntimeFailed(f"cannot read the list of {what}: it is not a JSON array")
    return entries or []


def parse_pod_names(text: str) -> dict[str, str]:
    found = {}
    for entry in _parse_list(text, "pods"):
        match entry:
            case {"Id": str(pod), "Name": str(name)}:
                found[pod] = name
    return found


def parse_volumes(text: str) -> dict[str, str | None]:
    """The data in each volume of a listing."""
    found: dict[str, str | None] = {}
    for entry in _parse_list(text, "volumes"):
        match entry:
            case {"Name": str(name), "Labels": {"data": str(data)}}:
                found[name] = decode_unpadded(data)
            case {"Name": str(name)}:
                found[name] = None
    return found


def decode_unpadded(data: str) -> str | None:
    """Base64 that must come without padding."""
    import base64

    if data.endswith("="):
        return None
    try:
        return base64.b64decode(data + "=" * (-len(data) % 4), validate=True).decode()
    except ValueError:
        return None
