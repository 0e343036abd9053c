"""Runs the commands of health checks in containers, and reads the HEALTHCHECK of an image.

Input: a command, its time limit and the program that runs it in a container. Output: the exit code and the end of the
output. A command that exceeds its time limit is killed with all its descendants.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ankaios.common.durations import format_duration
from ankaios.common.health import ExecCheck
from ankaios.runtimes.command import probe_command
from ankaios.runtimes.exit_watch import process_start
from ankaios.runtimes.marked_processes import end_marked_processes, new_mark
from ankaios.runtimes.runtime_connector import CheckTarget, CommandResult, RuntimeFailed

_MILLISECOND = 1_000_000  # nanoseconds
_NAMED_BY_SHELL = "CMD-SHELL"


async def run_in_container(
    program: str, before: Sequence[str], after: Sequence[str], limit: float, env: Mapping[str, str] | None
) -> CommandResult:
    """`before` and `after` are the arguments before and after the option that marks the processes of the check."""
    mark = new_mark()
    finished = False
    try:
        code, output = await probe_command(program, [*before, f"--env={mark}", *after], limit=limit, env=env)
        finished = code is not None
    finally:
        if not finished:
            await asyncio.shield(asyncio.to_thread(end_marked_processes, mark))
    return CommandResult(code, output.decode(errors="replace"))


def check_target_of(pid: int | None) -> CheckTarget:
    """Raises `RuntimeFailed` if the process does not exist."""
    start = process_start(pid) if pid else None
    if not pid or start is None:
        raise RuntimeFailed("its process is not found")
    return CheckTarget(pid, start)


class ImageHealthcheck(Struct, frozen=True):
    """HEALTHCHECK of a Dockerfile as podman stores it; times are in nanoseconds, 0 means the default of Docker."""

    test: tuple[str, ...] = ()
    interval: int = 0
    timeout: int = 0
    start_period: int = 0
    retries: int = 0

    def as_check(self) -> ExecCheck | None:
        """None: the image has no check."""
        match self.test:
            case [word, text] if word == _NAMED_BY_SHELL:
                command: tuple[str, ...] = ("/bin/sh", "-c", text)
            case ["CMD", *arguments] if arguments:
                command = tuple(arguments)
            case [single] if single not in ("NONE", ""):
                command = ("/bin/sh", "-c", single)
            case _:
                return None
        return ExecCheck(
            command=command,
            interval=_text(self.interval or 30_000 * _MILLISECOND),
            timeout=_text(self.timeout or 30_000 * _MILLISECOND),
            start_period=_text(self.start_period),
            failures=self.retries or 3,
        )


def _text(nanoseconds: int) -> str:
    return format_duration(min(max(nanoseconds, 0) // _MILLISECOND, 24 * 3_600_000))


def parse_image_healthcheck(text: str) -> ExecCheck | None:
    """Parse the output of `podman inspect --format '{{json .Config.Healthcheck}}'`."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise RuntimeFailed(f"cannot read the HEALTHCHECK of the image: {fault}") from fault
    if not isinstance(found, dict):
        return None
    test = found.get("Test")
    words = tuple(word for word in test if isinstance(word, str)) if isinstance(test, list) else ()
    numbers = (found.get(key) for key in ("Interval", "Timeout", "StartPeriod", "Retries"))
    return ImageHealthcheck(words, *(number if type(number) is int else 0 for number in numbers)).as_check()
