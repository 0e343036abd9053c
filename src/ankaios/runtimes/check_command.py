"""Runs the commands of health checks in containers, and reads the HEALTHCHECK of an image.

Input: a command, its time limit and the program that runs it in a container. Output: the exit code and the end of the
output. A command that exceeds its time limit is killed with all its descendants.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ankaios.common.durations import format_duration
from ankaios.common.health import ExecCheck
from ankaios.runtimes.command import probe_command
from ankaios.runtimes.exit_watch import process_start
from ankaios.runtimes.marked_processes import end_marked_processes, new_mark
from ankaios.runtimes.runtime_connector import CheckTarget, CommandResult, RuntimeFailed

_MILLISECOND = 1_000_000  # nanoseconds


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
        raise RuntimeFailed("cannot find the process of the workload")
    return CheckTarget(pid, start)


def parse_image_healthcheck(text: str) -> ExecCheck | None:
    """Parse the output of `podman inspect --format '{{json .Config.Healthcheck}}'`. None: the image has no check.

    Times are in nanoseconds; 0 or an unreadable number means the default of Docker.
    """
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise RuntimeFailed(f"cannot read the HEALTHCHECK of the image: {fault}") from fault
    command = _command(found.get("Test")) if isinstance(found, dict) else None
    if command is None:
        return None
    numbers = (found.get(key) for key in ("Interval", "Timeout", "StartPeriod", "Retries"))
    interval, timeout, start_period, retries = (number if type(number) is int else 0 for number in numbers)
    return ExecCheck(
        command=command,
        interval=_duration(interval or 30_000 * _MILLISECOND),
        timeout=_duration(timeout or 30_000 * _MILLISECOND),
        start_period=_duration(start_period),
        failures=retries or 3,
    )


def _command(test: object) -> tuple[str, ...] | None:
    match [word for word in test if isinstance(word, str)] if isinstance(test, list) else []:
        case ["CMD-SHELL", text]:
            return ("/bin/sh", "-c", text)
        case ["CMD", *arguments] if arguments:
            return tuple(arguments)
        case [single] if single not in ("NONE", ""):
            return ("/bin/sh", "-c", single)
    return None


def _duration(nanoseconds: int) -> str:
    return format_duration(min(max(nanoseconds, 0) // _MILLISECOND, 24 * 3_600_000))
