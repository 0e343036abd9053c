"""All calls of the program nerdctl.

Input: calls of the containerd connector. Output: ids and listings, or `CommandFailed`.
"""

import json

from ankaios.common.execution_state import (
    FAILED_EXEC_FAILED,
    FAILED_UNKNOWN,
    PENDING_STARTING,
    RUNNING_OK,
    STOPPING,
    ExecutionState,
    exited,
)
from ankaios.runtimes.command import CommandFailed
from ankaios.runtimes.container_cli import ContainerCli
from ankaios.runtimes.container_listing import Container, Listing, integer, text_labels
from ankaios.runtimes.program_settings import ProgramSettings
from ankaios.runtimes.runtime_connector import RuntimeFailed

NERDCTL_UNREADABLE = FAILED_UNKNOWN.because("Error getting state from Nerdctl.")
LIST_CONTAINERS = ("ps", "--all", "--quiet", "--no-trunc")
_WITH_PROCESS = ("running", "paused")  # the process id of other containers can be that of an earlier process


class NerdctlSettings(ProgramSettings, frozen=True):
    program: str = "nerdctl"
    calls_at_a_time: int = 2


class NerdctlCli(ContainerCli):
    def __init__(self, settings: NerdctlSettings = NerdctlSettings()) -> None:  # noqa: B008 - it is frozen
        super().__init__(settings)

    async def remove(self, container: str) -> None:
        for arguments in (["stop", container], ["rm", container]):
            try:
                await self._stop(arguments)
            except CommandFailed as fault:
                if "no such container" not in fault.why.lower():
                    raise

    async def _list(self) -> Listing:
        ids = parse_ids(await self._call_now(LIST_CONTAINERS, self.settings.query_limit))
        return Listing(await self._inspect(ids) if ids else [])

    async def _inspect(self, ids: list[str]) -> list[Container]:
        """A container that was removed meanwhile is missing in the result: the call fails, but prints the others."""
        try:
            return parse_containers(await self._call_now(["inspect", *ids], self.settings.query_limit))
        except CommandFailed as fault:
            found = parse_containers(fault.output) if fault.output else []
            missing = set(ids) - {container.id for container in found}
            if all(f"no such object {each}" in fault.why for each in missing):
                return found
            raise


def parse_ids(text: str) -> list[str]:
    """Lines that are no id are skipped; if all are, `RuntimeFailed` is raised."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ids = [line for line in lines if line.isalnum()]
    if lines and not ids:
        raise RuntimeFailed(f"cannot read the list of containers: {lines[0][:200]}")
    return ids


def parse_containers(text: str) -> list[Container]:
    """Parse one JSON array, or one array for each container: nerdctl 1.x prints several."""
    entries: list[object] = []
    rest = text.strip()
    while True:
        try:
            part, end = json.JSONDecoder().raw_decode(rest)
        except (ValueError, RecursionError) as fault:
            raise RuntimeFailed(f"cannot read the states of containers: {fault}") from fault
        if not isinstance(part, list):
            raise RuntimeFailed("cannot read the states of containers: it is not a JSON array")
        entries += part
        rest = rest[end:].lstrip()
        if not rest:
            return [container for entry in entries if (container := _container(entry))]


def _container(entry: object) -> Container | None:
    match entry:
        case {"Id": str(container), **more}:
            state, pid = _state_and_process(more.get("State"))
            config = more.get("Config")
            labels = text_labels(config.get("Labels") if isinstance(config, dict) else None)
            return Container(container, state, pid, labels=labels)
    return None


def _state_and_process(state: object) -> tuple[ExecutionState, int]:
    match state:
        case {"Status": str(word), **more}:
            pid = integer(more.get("Pid")) if word.lower() in _WITH_PROCESS else None
            return nerdctl_state(word, integer(more.get("ExitCode"))), pid or 0
    return FAILED_UNKNOWN, 0


def nerdctl_state(word: str, exit_code: int | None) -> ExecutionState:
    match word.lower():
        case "created" | "restarting":
            return PENDING_STARTING.because(word)
        case "running":
            return RUNNING_OK
        case "exited" if exit_code is not None:
            return exited(exit_code)
        case "dead":  # failed, independently of the exit code
            return FAILED_EXEC_FAILED.because(f"Exit code: '{exit_code or 0}'")
        case "removing":
            return STOPPING.because(word)
    return FAILED_UNKNOWN.because(word)
