"""Runs one program of a runtime to its end, or reads its output as it comes.

In come a program with its arguments, what it reads and a time limit; out comes its standard output, or a
`CommandFailed` that keeps command, exit code and error output. Nothing is owned: no child process outlives its call.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

from ankaios.runtimes.runtime_connector import RuntimeFailed

MAX_OUTPUT = 64 * 1024 * 1024
MAX_ERROR_TEXT = 64 * 1024
LOG_PIECE = 64 * 1024
_END_LIMIT = 5.0


class CommandFailed(RuntimeFailed):
    """`exit_code` is None if the program did not start or did not end in time, negative if a signal ended it."""

    def __init__(self, command: str, why: str, exit_code: int | None = None) -> None:
        super().__init__(f"{why}. Execution of '{command}'")
        self.command = command
        self.why = why
        self.exit_code = exit_code


def command_text(program: str, arguments: Sequence[str]) -> str:
    return " ".join([program, *(f'"{argument}"' for argument in arguments)])


async def run_command(
    program: str,
    arguments: Sequence[str],
    *,
    limit: float,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> str:
    """Return what the program prints if it ends with 0 within `limit` seconds."""
    text = command_text(program, arguments)
    process = await _spawn(program, arguments, text, asyncio.subprocess.PIPE, env)
    try:
        async with asyncio.timeout(limit):
            out, err = await _communicate(process, stdin)
    except TimeoutError:
        raise CommandFailed(text, f"No answer within {limit:g} s, given up") from None
    except _TooMuch:
        raise CommandFailed(text, f"More than {MAX_OUTPUT} bytes of output") from None
    finally:
        await end_process(process)
    if process.returncode:
        raise CommandFailed(text, _reason(err, process.returncode), process.returncode)
    try:
        return out.decode()
    except UnicodeDecodeError as fault:
        raise CommandFailed(text, f"The output is not UTF-8 at byte {fault.start}", 0) from fault


async def stream_command(
    program: str, arguments: Sequence[str], env: Mapping[str, str] | None = None
) -> AsyncIterator[bytes]:
    """Yield standard output and error output, merged, in pieces as they come; closing ends the program."""
    text = command_text(program, arguments)
    process = await _spawn(program, arguments, text, asyncio.subprocess.STDOUT, env)
    try:
        assert process.stdout
        while piece := await process.stdout.read(LOG_PIECE):
            yield piece
    finally:
        await end_process(process)


class _TooMuch(Exception):
    pass


async def _spawn(
    program: str, arguments: Sequence[str], text: str, stderr: int, env: Mapping[str, str] | None
) -> asyncio.subprocess.Process:
    try:
        # The own group keeps a Ctrl-C meant for the agent from the call, and names what is to be ended. An own session
        # would do so as well, but Linux schedules sessions apart: on a busy machine the call took half as long again.
        return await asyncio.create_subprocess_exec(
            program,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=env,
            process_group=0,
        )
    except (OSError, ValueError) as fault:
        raise CommandFailed(text, f"Could not spawn command: {fault}") from fault


async def _communicate(process: asyncio.subprocess.Process, stdin: bytes) -> tuple[bytes, bytes]:
    assert process.stdin and process.stdout and process.stderr
    try:
        async with asyncio.TaskGroup() as group:
            out = group.create_task(_read(process.stdout, MAX_OUTPUT), name="read standard output")
            err = group.create_task(_read(process.stderr, MAX_OUTPUT), name="read error output")
            group.create_task(_feed(process.stdin, stdin), name="write standard input")
            group.create_task(process.wait(), name="wait for the end")
    except* _TooMuch as faults:
        raise faults.exceptions[0] from None
    return out.result(), err.result()


async def _read(stream: asyncio.StreamReader, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := await stream.read(LOG_PIECE):
        size += len(piece)
        if size > most:
            raise _TooMuch
        pieces.append(piece)
    return b"".join(pieces)


async def _feed(stream: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # a program may end without reading what it is given
        if data:
            stream.write(data)
            await stream.drain()
        stream.close()
        await stream.wait_closed()


def _reason(err: bytes, exit_code: int) -> str:
    text = err[:MAX_ERROR_TEXT].decode(errors="replace").strip()
    if text:
        return text
    return f"Ended by signal {-exit_code}" if exit_code < 0 else f"Ended with exit code {exit_code}"


async def end_process(process: asyncio.subprocess.Process) -> None:
    """Kill the program and all it started in its group, if anything is left."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_LIMIT):
            await process.wait()
