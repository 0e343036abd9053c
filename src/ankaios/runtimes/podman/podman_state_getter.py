"""Determines the state of a podman workload from process descriptors, exit files and the listing of podman.

Input: a watch for each container and the shared listing. Output: execution states. The newest source takes precedence.
Podman is called only if no other source has the state.
[impl->swdd~podman-implements-runtime-state-getter~1]
[impl->swdd~podman-kube-implements-runtime-state-getter~1]
"""

from collections.abc import Awaitable, Callable, Sequence
from math import inf

from ankaios.common.execution_state import FAILED_EXEC_FAILED, RUNNING_OK, SUCCEEDED_OK, ExecutionState
from ankaios.runtimes.container_listing import Container, Listing
from ankaios.runtimes.generic_polling_state_checker import POLL_INTERVAL
from ankaios.runtimes.podman.container_watch import ContainerWatch
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_watch import PodmanWatch
from ankaios.runtimes.podman.states import (
    LOST,
    METADATA_UNREADABLE,
    PODMAN_UNREADABLE,
    PODS_UNREADABLE,
    pods_state,
)
from ankaios.runtimes.runtime_connector import RuntimeFailed
from ankaios.runtimes.state_cache import MAX_AGE, Loaded

RECORD_LIMIT = 5.0  # seconds

_ENDED = (SUCCEEDED_OK, FAILED_EXEC_FAILED)


def is_final(state: ExecutionState) -> bool:
    return any(state.is_same(end) for end in _ENDED)


class ContainerView:
    """Combines the watch and the listing of one container."""

    def __init__(self, watch: ContainerWatch) -> None:
        self.watch = watch

    def state(self, loaded: Loaded[Listing] | None) -> ExecutionState | None:
        """Return None if a new listing is needed.

        [impl->swdd~podman-state-getter-uses-podmancli~1]
        """
        watch = self.watch
        if watch.fact is None and watch.read_exit_now():
            return watch.fact
        if loaded is not None and loaded.asked >= watch.since:
            if isinstance(loaded.value, RuntimeFailed):
                return self._without_podman()
            return self._as_listed(loaded.value.by_id.get(watch.container), loaded.asked)
        return watch.fact or (RUNNING_OK if watch.attach() else None)

    def _without_podman(self) -> ExecutionState:
        """Without a listing, a process that is alive counts as running.

        [impl->swdd~podman-state-getter-returns-unknown-state~1]
        """
        return RUNNING_OK if self.watch.attach() else self.watch.fact or PODMAN_UNREADABLE

    def _as_listed(self, container: Container | None, asked: float) -> ExecutionState | None:
        """[impl->swdd~podman-state-getter-returns-removed-state~1]"""
        if container is None:
            self.watch.update(LOST, asked)
            return LOST
        state = container.state
        running = state == RUNNING_OK and self.watch.attach(container.pid)
        if not running and self._end_is_not_recorded(container, asked):
            return self.watch.fact or RUNNING_OK
        if state == RUNNING_OK and not running and container.pid and asked < self.watch.began:
            # The listing is older than the watch, and the process cannot be watched: it may have ended since.
            self.watch.update(None, self.watch.began)
            return None
        self.watch.update(state if is_final(state) else None, asked)
        return state

    def _end_is_not_recorded(self, container: Container, asked: float) -> bool:
        """Return whether the watch has seen the end of the process but podman has not recorded it yet.

        That can take long if many containers end at the same time.
        """
        ended = self.watch.seen_ending
        if not ended or (self.watch.fact is None and asked > self.watch.since + RECORD_LIMIT):
            return False
        return container.state.state == "Stopping" or (container.state == RUNNING_OK and container.pid == ended)

    @property
    def settled(self) -> bool:
        """Whether the next change is detected without a listing."""
        return self.watch.alive or self.watch.fact is not None


class _Pause:
    """The time until the next listing. It grows, because a container can stay in an unusual state forever."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._next = POLL_INTERVAL

    def after(self, state: ExecutionState, settled: bool) -> float | None:
        if settled or state == LOST or is_final(state):
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
        self._state = LOST

    def open(self, hint: Callable[[], None]) -> None:
        self._view = ContainerView(self._watches.watch(self._container, self._exits_are_final, hint))

    async def get_state(self) -> ExecutionState:
        state = self._view.state(_known_listing(self._cli, self._view.settled))
        while state is None:
            state = self._view.state(await self._cli.listings.get(not_before=self._view.watch.since))
        self._state = state
        return state

    def pause(self) -> float | None:
        return self._pause.after(self._state, self._view.settled)

    def close(self) -> None:
        self._view.watch.close()


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
        self._views: dict[str, ContainerView] = {}
        self._members: dict[str, list[str]] | None = None
        self._pause = _Pause(cli.settings.resync)
        self._state = LOST

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
                return pods_state(states) if states else LOST
            if loaded is not None and isinstance(loaded.value, RuntimeFailed):
                return PODS_UNREADABLE
            newest_fact = max((view.watch.since for view in self._views.values()), default=0.0)
            loaded = await self._cli.listings.get(not_before=newest_fact)

    def _update_members(self, pods: Sequence[str], listing: Listing) -> None:
        self._members = {pod: [container.id for container in listing.of_pod(pod)] for pod in pods}
        present = {container for members in self._members.values() for container in members}
        for container in present - self._views.keys():
            self._views[container] = ContainerView(self._watches.watch(container, self._exits_are_final, self._hint))
        for container in self._views.keys() - present:
            self._views.pop(container).watch.close()

    def _container_states(self, loaded: Loaded[Listing] | None) -> list[list[ExecutionState]] | None:
        """Return None if a newer listing is needed."""
        if self._members is None:
            return None
        found: list[list[ExecutionState]] = []
        for members in self._members.values():
            states = [self._views[container].state(loaded) for container in members]
            known = [state for state in states if state is not None]
            if len(known) < len(states):
                return None
            found.append(known)
        return found

    def containers(self) -> list[str]:
        return list(self._views)

    @property
    def _settled(self) -> bool:
        return bool(self._views) and all(view.settled for view in self._views.values())

    def pause(self) -> float | None:
        return self._pause.after(self._state, self._settled)

    def close(self) -> None:
        for view in self._views.values():
            view.watch.close()
