"""Determines the state of a podman workload from process descriptors, exit files and the listing of podman.

Input: a watch for each container and the shared listing. Output: execution states. The newest source takes precedence.
Podman is called only if no other source has the state.
[impl->swdd~podman-implements-runtime-state-getter~1]
[impl->swdd~podman-kube-implements-runtime-state-getter~1]
"""

from collections.abc import Awaitable, Callable, Sequence
from math import inf

from ankaios.common.execution_state import FAILED_LOST, RUNNING_OK, SUCCEEDED_OK, ExecutionState
from ankaios.runtimes.container_listing import Listing
from ankaios.runtimes.generic_polling_state_checker import POLL_INTERVAL
from ankaios.runtimes.podman.container_watch import ContainerWatch
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_watch import PodmanWatch
from ankaios.runtimes.podman.states import METADATA_UNREADABLE, PODS_UNREADABLE, is_final, pods_state
from ankaios.runtimes.runtime_connector import RuntimeFailed
from ankaios.runtimes.state_cache import MAX_AGE, Loaded


class _WatchedContainers:
    """The watches of the containers of one workload, and the time until its next listing."""

    def __init__(self, cli: PodmanCli, watches: PodmanWatch, exits_are_final: bool) -> None:
        self._cli = cli
        self._podman_watch = watches
        self._exits_are_final = exits_are_final
        self._watches: dict[str, ContainerWatch] = {}
        self._state = FAILED_LOST
        self._next_pause = POLL_INTERVAL

    def open(self, hint: Callable[[], None]) -> None:
        self._hint = hint

    def _watch(self, container: str) -> ContainerWatch:
        watch = self._watches[container] = self._podman_watch.watch(container, self._exits_are_final, self._hint)
        return watch

    @property
    def _settled(self) -> bool:
        """Whether the next change is detected without a listing."""
        return bool(self._watches) and all(watch.settled for watch in self._watches.values())

    def _known_listing(self) -> Loaded[Listing] | None:
        """While changes are detected by watches, the age of a listing does not matter."""
        return self._cli.listings.newest(inf if self._settled else MAX_AGE)

    def pause(self) -> float | None:
        """Return a pause that grows, because a container can stay in an unusual state forever."""
        if self._settled or self._state == FAILED_LOST or is_final(self._state):
            self._next_pause = POLL_INTERVAL
            return None
        if self._state == RUNNING_OK:
            return POLL_INTERVAL  # its end can only be detected by polling
        pause, self._next_pause = self._next_pause, min(self._next_pause * 2, self._cli.settings.resync)
        return pause

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()


class PodmanStateGetter(_WatchedContainers):
    """The state of one container."""

    def __init__(self, cli: PodmanCli, watches: PodmanWatch, container: str, exits_are_final: bool) -> None:
        super().__init__(cli, watches, exits_are_final)
        self._container = container

    def open(self, hint: Callable[[], None]) -> None:
        super().open(hint)
        self._watch(self._container)

    async def get_state(self) -> ExecutionState:
        watch = self._watches[self._container]
        state = watch.state(self._known_listing())
        while state is None:
            state = watch.state(await self._cli.listings.get(not_before=watch.since))
        self._state = state
        return state


class PodmanKubeStateGetter(_WatchedContainers):
    """The combined state of all containers of all pods of a workload.

    `find_pods` returns the ids of the pods, None if they are unknown; it may call podman.
    [impl->swdd~podman-kube-state-getter-uses-container-states~1]
    """

    def __init__(
        self,
        cli: PodmanCli,
        watches: PodmanWatch,
        find_pods: Callable[[], Awaitable[Sequence[str] | None]],
        exits_are_final: bool,
    ) -> None:
        super().__init__(cli, watches, exits_are_final)
        self._find_pods = find_pods
        self._members: dict[str, list[str]] | None = None

    async def get_state(self) -> ExecutionState:
        try:
            pods = await self._find_pods()
        except RuntimeFailed:
            self._state = METADATA_UNREADABLE
            return self._state
        self._state = SUCCEEDED_OK if pods is None else await self._pods_state(pods)
        return self._state

    async def _pods_state(self, pods: Sequence[str]) -> ExecutionState:
        loaded = self._known_listing()
        while True:
            if loaded is not None and isinstance(loaded.value, Listing):
                self._update_members(pods, loaded.value)
            states = self._container_states(loaded)
            if states is not None:
                return pods_state(states)
            if loaded is not None and isinstance(loaded.value, RuntimeFailed):
                return PODS_UNREADABLE
            newest_fact = max((watch.since for watch in self._watches.values()), default=0.0)
            loaded = await self._cli.listings.get(not_before=newest_fact)

    def _update_members(self, pods: Sequence[str], listing: Listing) -> None:
        self._members = {pod: [container.id for container in listing.of_pod(pod)] for pod in pods}
        present = {container for members in self._members.values() for container in members}
        for container in present - self._watches.keys():
            self._watch(container)
        for container in self._watches.keys() - present:
            self._watches.pop(container).close()

    def _container_states(self, loaded: Loaded[Listing] | None) -> list[list[ExecutionState]] | None:
        """Return None if a newer listing is needed."""
        if self._members is None:
            return None
        found: list[list[ExecutionState]] = []
        for members in self._members.values():
            states = [self._watches[container].state(loaded) for container in members]
            known = [state for state in states if state is not None]
            if len(known) < len(states):
                return None
            found.append(known)
        return found

    def containers(self) -> list[str]:
        return list(self._watches)
