"""Mutating hooks: programs that see which workloads an update of the desired state changes, to alter or refuse it.

Each hook reads an encoded `UpdateWorkload` from its standard input and writes the one to use to its standard output;
the next hook sees that. Exit code 0 accepts, anything else refuses. A hook that does not end in time has failed: the
update is refused and the server continues. A hook ends when the server ends, also if the server is killed.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from msgspec import Struct

from ankaios.common.config import CONFIG_CONTEXT
from ankaios.common.errors import StartupFailed
from ankaios.common.pb.grpc_api_pb2 import UpdateWorkload
from ankaios.server.core.update_rejected import HookFailed, HookVeto, InvalidState

DEFAULT_DIRECTORY = "/usr/libexec/ankaios/hooks"
DEFAULT_TIME_LIMIT = 30
# Seconds until a killed process has ended.
_KILL_LIMIT = 5
_PR_SET_PDEATHSIG = 1


class MutatingHook(Struct, frozen=True):
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
    """Return the update as the hooks changed it, or None if they change nothing. Raises the error for the requester."""
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
    process = await _start(hook)
    try:
        async with asyncio.timeout(hook.time_limit):
            wanted, errors = await process.communicate(shown)
    except TimeoutError as fault:
        await _end(process)
        raise HookFailed(hook.name, f"no answer within {hook.time_limit} s") from fault
    except BaseException:
        await _end(process)
        raise
    if process.returncode != 0:
        raise HookVeto(hook.name, errors.decode(errors="replace").strip())
    return wanted


async def _start(hook: MutatingHook) -> asyncio.subprocess.Process:
    """If the caller is cancelled during the start, the started process is ended."""
    starting = asyncio.create_task(_launch(hook), name=f"start of hook '{hook.name}'")
    try:
        return await asyncio.shield(starting)
    except OSError as fault:
        raise HookFailed(hook.name, f"cannot start '{hook.executable}': {fault.strerror}") from fault
    except asyncio.CancelledError:
        with suppress(OSError):
            await _end(await starting)
        raise


async def _launch(hook: MutatingHook) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        hook.executable,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
        preexec_fn=_ends_with_the_server(),  # takes no locks, so other threads of the server do not matter
    )


def _ends_with_the_server() -> Callable[[], None]:
    """Return a function for the child process: the kernel ends the hook even if the server is killed."""
    import ctypes

    prctl, server = ctypes.CDLL(None).prctl, os.getpid()

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            os._exit(1)

    return prepare


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the hook and the processes it started, which may still run; all of them are in one session."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_KILL_LIMIT):
            await process.wait()
