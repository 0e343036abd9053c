"""Reads details about the end of a workload: exit code, last lines of output, and out-of-memory kills.

Input: the runtime and the id of a failed workload. Output: details for its record. If the runtime does not answer in
time, details are omitted.
"""

import asyncio
import logging
from typing import Any

from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.execution_state import ExecutionState, exit_code_of
from ankaios.runtimes.runtime_connector import LogOptions, RuntimeConnector, WorkloadId

LAST_LINES = 10
_LONGEST_LINE = 300
_MOST_BYTES = 64 * 1024
_TIME_LIMIT = 2.0
_KILLED = 137  # 128 + SIGKILL, which the kernel sends if memory is exhausted

log = logging.getLogger(__name__)


async def read_exit_details(connector: RuntimeConnector, workload: WorkloadId, state: ExecutionState) -> dict[str, Any]:
    """Return the attributes of a `StateRecord` that describe the end."""
    code = exit_code_of(state)
    details: dict[str, Any] = {"exit_code": code}
    try:
        async with asyncio.timeout(_TIME_LIMIT):
            if code == _KILLED:
                details["out_of_memory"] = await connector.was_out_of_memory(workload)
            details["output"] = await _last_lines(connector, workload)
    except (Rejected, Unavailable, TimeoutError) as error:
        log.debug("some details about the end of '%s' are missing: %s", workload, error)
    return details


async def _last_lines(connector: RuntimeConnector, workload: WorkloadId) -> tuple[str, ...]:
    data = b""
    logs = connector.logs(workload, LogOptions(tail=LAST_LINES))
    try:
        async for piece in logs:
            data = (data + piece)[-_MOST_BYTES:]
    finally:
        close = getattr(logs, "aclose", None)
        if close is not None:
            await close()
    lines = data.decode(errors="replace").splitlines()[-LAST_LINES:]
    return tuple(line[:_LONGEST_LINE] for line in lines)
