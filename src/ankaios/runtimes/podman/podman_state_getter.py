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


class _Pause:
    """The time until the next listing. It grows, because a container can stay in an unusual state forever."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._next = POLL_INTERVAL

    def after(self, state: ExecutionState, settled: bool) -> float | None:
        if settled or state == FAILED_LOST or is_final(state):
            self._next = POLL_INTERVAL
            return None
        if state == RUNNING_OK:
            return POLL_INTERVAL  # its end can only be detected by polling
        pause, self._next = self._next, min(self._next * 2, self._longest)
        return pause


def _known_listing(cli: PodmanCli, settled: bool) -> Loaded[Listing] | None:
    """While changes are detected by watches, the age of a listing does not matter."""
    return cli.listings.newest(inf if settled else MAX_AGE)


class PodmanStateGetter:
    """The state of one container."""

    def __init__(self, cli: PodmanCli, watches: PodmanWatch, container: str, exits_are_final: bool) -> None:
        self._cli = cli
        self._watches = watches
        self._container = container
        self._exits_are_final = exits_are_final
        self._pause = _Pause(cli.settings.resync)
        self._state = FAILED_LOST

    def open(self, hint: Callable[[], None]) -> None:
        self._watch = self._watches.watch(self._container, self._exits_are_final, hint)

    async def get_state(self) -> ExecutionState:
        state = self._watch.state(_known_listing(self._cli, self._watch.settled))
        while state is None:
            state = self._watch.state(await self._cli.listings.get(not_before=self._watch.since))
        self._state = state
        return state

    def pause(self) -> float | None:
        return self._pause.after(self._state, self._watch.settled)

    def close(self) -> None:
        self._watch.close()


class PodmanKubeStateGetter:
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
        self._cli = cli
        self._watches = watches
        self._find_pods = find_pods
        self._exits_are_final = exits_are_final
        self._by_container: dict[str, ContainerWatch] = {}
        self._members: dict[str, list[str]] | None = None
        self._pause = _Pause(cli.settings.resync)
        self._state = FAILED_LOST

    def open(self, hint: Callable[[], None]) -> None:
        self._hint = hint

    async def get_state(self) -> ExecutionState:
        try:
            pods = await self._find_pods()
        except RuntimeFailed:
            self._state = METADATA_UNREADABLE
            return self._state
        self._state = SUCCEEDED_OK if pods is None else await self._pods_state(pods)
        return self._state

    async def _pods_state(self, pods: Sequence[str]) -> ExecutionState:
        loaded = _known_listing(self._cli, self._settled)
        while True:
            if loaded is not None and isinstance(loaded.value, Listing):
                self._update_members(pods, loaded.value)
            states = self._container_states(loaded)
            if states is not None:
                return pods_state(states)
            if loaded is not None and isinstance(loaded.value, RuntimeFailed):
                return PODS_UNREADABLE
            newest_fact = max((watch.since for watch in self._by_container.values()), default=0.0)
            loaded = await self._cli.listings.get(not_before=newest_fact)

    def _update_members(self, pods: Sequence[str], listing: Listing) -> None:
        self._members = {pod: [container.id for container in listing.of_pod(pod)] for pod in pods}
        present = {container for members in self._members.values() for container in members}
        for container in present - self._by_container.keys():
            self._by_container[container] = self._watches.watch(container, self._exits_are_final, self._hint)
        for container in self._by_container.keys() - present:
            self._by_container.pop(container).close()

    def _container_states(self, loaded: Loaded[Listing] | None) -> list[list[ExecutionState]] | None:
        """Return None if a newer listing is needed."""
        if self._members is None:
            return None
        found: list[list[ExecutionState]] = []
        for members in self._members.values():
            states = [self._by_container[container].state(loaded) for container in members]
            known = [state for state in states if state is not None]
            if len(known) < len(states):
                return None
            found.append(known)
        return found

    def containers(self) -> list[str]:
        return list(self._by_container)

    @property
    def _settled(self) -> bool:
        return bool(self._by_container) and all(watch.settled for watch in self._by_container.values())

    def pause(self) -> float | None:
        return self._pause.after(self._state, self._settled)

    def close(self) -> None:
        for watch in self._by_container.values():
            watch.close()
