"""Ends the processes of native workloads.

Input: the process of a workload and its keeper. Output: both have ended, or `RuntimeFailed`. The module owns nothing.
"""

import asyncio
import logging
import os
import signal
from contextlib import suppress

from ankaios.runtimes.exit_watch import wait_for_exit
from ankaios.runtimes.native.processes import NativeProcess
from ankaios.runtimes.runtime_connector import RuntimeFailed

KILL_TIME = 5.0

_log = logging.getLogger(__name__)


async def end_processes(process: NativeProcess, keeper: NativeProcess, stop_time: float) -> None:
    """Send SIGTERM to the process group, and SIGKILL after the stop time."""
    if not await _signalled(process, signal.SIGTERM, stop_time):
        _log.warning("process %d did not end within %g s, killing it", process.pid, stop_time)
        if not await _signalled(process, signal.SIGKILL, KILL_TIME):
            raise RuntimeFailed(f"cannot end process {process.pid}: it still runs after SIGKILL")
    if not await _ended(keeper, KILL_TIME):
        await _signalled(keeper, signal.SIGKILL, KILL_TIME)


async def _signalled(process: NativeProcess, number: signal.Signals, limit: float) -> bool:
    """Send a signal to the group of the process. Return whether the process ended within `limit` seconds."""
    if process.alive:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return True
        except PermissionError as fault:
            raise RuntimeFailed(f"cannot end process {process.pid}: {fault.strerror}") from fault
    return await _ended(process, limit)


async def _ended(process: NativeProcess, limit: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(limit):
            await wait_for_exit(process.pid, lambda: not process.alive)
    return not process.alive
