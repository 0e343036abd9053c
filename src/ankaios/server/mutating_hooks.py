"""Mutating hooks: programs that see every change of workloads before it is made, and may change or refuse it.

Each hook reads an encoded `UpdateWorkload` from its standard input and writes the one to use to its standard output;
the next hook sees that. Exit code 0 accepts, anything else refuses. A hook that does not end in time has failed: the
update is refused and the server goes on.
"""

import asyncio
import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from ankaios.common.config import CONFIG_CONTEXT
from ankaios.common.dataclass import dataclass
from ankaios.common.errors import StartupFailed
from ankaios.common.pb.grpc_api_pb2 import UpdateWorkload
from ankaios.server.core.update_rejected import HookFailed, HookVeto, InvalidState

DEFAULT_DIRECTORY = "/usr/libexec/ankaios/hooks"
DEFAULT_TIME_LIMIT = 30
# Seconds for a killed process to vanish.
_KILL_LIMIT = 5


@dataclass(frozen=True, slots=True)
class MutatingHook:
    """The executable `<path>/<name>`; lower `prio` comes first."""

    name: str
    prio: int = 0
    path: str = DEFAULT_DIRECTORY
    time_limit: int = DEFAULT_TIME_LIMIT

    @property
    def executable(self) -> str:
        return str(Path(self.path) / self.name)


def read_hooks(entries: Any) -> tuple[MutatingHook, ...]:
    """The `[[mutating_hooks]]` of the config file in the order in which they are to run."""
    if not isinstance(entries, list):
        raise StartupFailed(CONFIG_CONTEXT, "'mutating_hooks' must be a list of tables")
    return tuple(sorted(map(_read_hook, entries), key=lambda hook: hook.prio))


def _read_hook(entry: Any) -> MutatingHook:
    if not isinstance(entry, dict):
        raise StartupFailed(CONFIG_CONTEXT, "each of 'mutating_hooks' must be a table")
    return MutatingHook(
        name=_text(entry, "name"),
        prio=_number(entry, "prio", 0, 0, 255),
        path=_text(entry, "path", DEFAULT_DIRECTORY),
        time_limit=_number(entry, "time_limit", DEFAULT_TIME_LIMIT, 1, 3600),
    )


def _text(entry: dict[str, Any], key: str, default: str | None = None) -> str:
    value = entry.get(key, default)
    if not isinstance(value, str) or not value:
        raise StartupFailed(CONFIG_CONTEXT, f"'{key}' of a mutating hook must be a string, found '{value}'")
    return value


def _number(entry: dict[str, Any], key: str, default: int, least: int, most: int) -> int:
    value = entry.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        reason = f"'{key}' of a mutating hook must be a whole number from {least} to {most}, found '{value}'"
        raise StartupFailed(CONFIG_CONTEXT, reason)
    return value


async def run_hooks(hooks: Sequence[MutatingHook], update: UpdateWorkload) -> UpdateWorkload | None:
    """What the hooks want instead, or None if they change nothing. Raises what the requester is to be told."""
    shown = update.SerializeToString()
    wanted = shown
    for hook in hooks:
        wanted = await _run(hook, wanted)
    if wanted == shown:
        return None
    try:
        return UpdateWorkload.FromString(wanted)
    except DecodeError as fault:
        raise InvalidState(f"the output of the mutating hooks {_names(hooks)} is no update: {fault}") from fault


def _names(hooks: Iterable[MutatingHook]) -> str:
    return ", ".join(f"'{hook.name}'" for hook in hooks)


async def _run(hook: MutatingHook, shown: bytes) -> bytes:
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            hook.executable, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
    except OSError as fault:
        raise HookFailed(hook.name, f"cannot start '{hook.executable}': {fault.strerror}") from fault
    try:
        async with asyncio.timeout(hook.time_limit):
            wanted, said = await process.communicate(shown)
    except TimeoutError as fault:
        raise HookFailed(hook.name, f"no answer within {hook.time_limit} s") from fault
    finally:
        await _end(process)
    if process.returncode != 0:
        raise HookVeto(hook.name, said.decode(errors="replace").strip())
    return wanted


async def _end(process: asyncio.subprocess.Process) -> None:
    """Also what the hook started; its session is its own."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_KILL_LIMIT):
            await process.wait()
