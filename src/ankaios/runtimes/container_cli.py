"""The calls that the programs podman and nerdctl have in common, and the last listing of all their containers.

Input: arguments. Output: ids and texts, or `CommandFailed`. Each call has a time limit, few calls run at the same time,
and one listing serves all requests that arrive at about the same time.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from ankaios.runtimes.call_slots import CallSlots
from ankaios.runtimes.check_command import run_in_container
from ankaios.runtimes.command import CommandFailed, command_text, run_command, stream_command
from ankaios.runtimes.container_listing import Listing
from ankaios.runtimes.program_settings import ProgramSettings
from ankaios.runtimes.runtime_connector import CommandResult
from ankaios.runtimes.state_cache import StateCache

MAX_CHECKS = 1000


class ContainerCli(ABC):
    """Every call that changes containers invalidates earlier listings."""

    def __init__(self, settings: ProgramSettings) -> None:
        self.settings = settings
        self.listings: StateCache[Listing] = StateCache(self._list)
        self.calls_under_way = 0  # calls that may change the state of containers
        self._environment = settings.call_environment()
        self._slots = CallSlots(settings.calls_at_a_time)
        self._stop_slots = CallSlots(settings.stops_at_a_time)
        self._check_slots = CallSlots(settings.calls_at_a_time, waiting=MAX_CHECKS)

    @abstractmethod
    async def _list(self) -> Listing:
        """List all containers. Uses no slot: only one listing runs at a time, and it must not wait for slow starts."""

    async def _call_now(
        self, arguments: Sequence[str], limit: float, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> str:
        program, environ = self.settings.program, environment or self._environment
        return await run_command(program, arguments, limit=limit, stdin=stdin.encode(), env=environ)

    async def _call_in(
        self,
        slots: CallSlots,
        arguments: Sequence[str],
        limit: float,
        stdin: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> str:
        async with slots.slot():
            self.calls_under_way += 1
            try:
                return await self._call_now(arguments, limit, stdin, environment)
            finally:
                self.calls_under_way -= 1

    async def _call(self, arguments: Sequence[str]) -> str:
        return await self._call_in(self._slots, arguments, self.settings.query_limit)

    async def _run(
        self, arguments: Sequence[str], stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> str:
        try:
            return await self._call_in(self._slots, arguments, self.settings.run_limit, stdin, environment)
        finally:
            self.listings.reset()  # [impl->swdd~podman-state-getter-reset-cache~1]

    async def _stop(self, arguments: Sequence[str], stdin: str = "") -> None:
        """Stops mostly wait for workloads to end. They have separate slots, so that other calls do not wait."""
        try:
            await self._call_in(self._stop_slots, arguments, self.settings.stop_limit, stdin)
        finally:
            self.listings.reset()

    async def start(self, arguments: Sequence[str], options: Sequence[str] = ()) -> str:
        """Call `run`, whose arguments include the given options of the user, or `start`. Return the container id."""
        container = (await self._run(arguments, environment=self._start_environment(options))).strip()
        if not container:
            program = self.settings.program
            raise CommandFailed(command_text(program, arguments), f"{Path(program).name} printed no container id")
        return container.rsplit(maxsplit=1)[-1]

    def _start_environment(self, options: Sequence[str]) -> Mapping[str, str] | None:
        """Return the environment for `start`; None: the one of all calls."""
        del options
        return None

    @abstractmethod
    async def remove(self, container: str) -> None:
        """Stop and remove a container by id or name. A container that does not exist counts as removed."""

    async def run_check(self, container: str, command: Sequence[str], limit: float) -> CommandResult:
        """Checks have separate slots, so that other calls do not wait for a check that hangs."""
        async with self._check_slots.slot():
            after = (container, *command)
            return await run_in_container(self.settings.program, ["exec"], after, limit, self._environment)

    def logs(self, arguments: Sequence[str]) -> AsyncIterator[bytes]:
        return stream_command(self.settings.program, arguments, self._environment)

    async def close(self) -> None:
        await self.listings.close()
