"""Runs one program of a runtime until it ends, or streams its output.

Input: a program with its arguments, its standard input and a time limit. Output: its standard output, or a
`CommandFailed` with command, exit code and error output. The module owns nothing: no child process outlives its call.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress

from ankaios.common.concurrent_work import run_concurrently
from ankaios.runtimes.child_process import ChildProcess
from ankaios.runtimes.exit_watch import wait_for_exit
from ankaios.runtimes.runtime_connector import RuntimeFailed

MAX_OUTPUT = 64 * 1024 * 1024
MAX_ERROR_TEXT = 64 * 1024
LOG_PIECE = 64 * 1024
_END_LIMIT = 5.0
_LAST_OUTPUT = 0.2  # descendants of the program can keep its output open


class CommandFailed(RuntimeFailed):
    """`exit_code` is None if the program did not start or did not end in time, negative if a signal ended it.

    `output` is the standard output of a program that ended.
    """

    def __init__(self, command: str, why: str, exit_code: int | None = None, output: str = "") -> None:
        super().__init__(f"{why}. Execution of '{command}'")
        self.command = command
        self.why = why
        self.exit_code = exit_code
        self.output = output


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
    """Return the standard output of the program if it ends with 0 within `limit` seconds."""
    text = command_text(program, arguments)
    return await finish_command(_spawn(program, arguments, text, env), text, limit=limit, stdin=stdin)


async def finish_command(process: ChildProcess, text: str, *, limit: float, stdin: bytes = b"") -> str:
    """Do the same as `run_command` for a started program; `text` is its command for messages."""
    try:
        async with asyncio.timeout(limit):
            out, err = await _communicate(process, text, stdin)
    except TimeoutError:
        raise CommandFailed(text, f"No response within {limit:g} s") from None
    finally:
        await _end(process)
    if process.exit_code:
        raise CommandFailed(text, _reason(err, process.exit_code), process.exit_code, out.decode(errors="replace"))
    try:
        return out.decode()
    except UnicodeDecodeError as fault:
        raise CommandFailed(text, f"The output is not UTF-8 at byte {fault.start}", 0) from fault


async def stream_command(
    program: str, arguments: Sequence[str], env: Mapping[str, str] | None = None
) -> AsyncIterator[bytes]:
    """Yield standard output and error output, merged, as they arrive; closing the iterator kills the program."""
    text = command_text(program, arguments)
    process = _spawn(program, arguments, text, env, merge=True)
    try:
        process.close_stdin()
        while piece := await _piece(process.stdout):
            yield piece
    finally:
        await _end(process)


async def probe_command(
    program: str,
    arguments: Sequence[str],
    *,
    limit: float,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    keep: int = 2048,
    grace: float = 0.0,
) -> tuple[int | None, bytes]:
    """Return the exit code and the last `keep` bytes of the output. The code is None if the program exceeded `limit`.

    The standard input stays open until then. If `grace` is set, the program is expected to end within `grace` seconds
    after its standard input is closed.
    """
    process = _spawn(program, arguments, command_text(program, arguments), env, merge=True)
    output = bytearray()
    loop = asyncio.get_running_loop()
    reading = loop.create_task(_keep_end(process.stdout, output, keep), name=f"output of {program}")
    try:
        async with asyncio.timeout(limit):
            await _feed(process, stdin)
            await wait_for_exit(process.pid, process.has_ended)
            await asyncio.wait([reading], timeout=_LAST_OUTPUT)
    except TimeoutError:
        return None, bytes(output)
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        await _end_gracefully(process, grace)
    return process.exit_code, bytes(output)


async def _end_gracefully(process: ChildProcess, grace: float) -> None:
    try:
        if grace and not process.has_ended():
            process.close_stdin()
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await wait_for_exit(process.pid, process.has_ended)
    finally:
        await _end(process)


async def _keep_end(descriptor: int, output: bytearray, keep: int) -> None:
    while piece := await _piece(descriptor):
        output += piece
        del output[:-keep]


def _spawn(
    program: str, arguments: Sequence[str], text: str, env: Mapping[str, str] | None, *, merge: bool = False
) -> ChildProcess:
    try:
        return ChildProcess(program, arguments, env, merge=merge)
    except (OSError, ValueError) as fault:
        raise CommandFailed(text, f"Could not spawn command: {fault}") from fault


async def _communicate(process: ChildProcess, text: str, stdin: bytes) -> tuple[bytes, bytes]:
    async def run() -> bytes:
        await _feed(process, stdin)
        process.close_stdin()
        await wait_for_exit(process.pid, process.has_ended)
        return b""

    out, err, _ = await run_concurrently(
        {
            "read standard output": _read(process.stdout, text),
            "read error output": _read(process.stderr, text),
            "write standard input": run(),
        }
    )
    return out, err


async def _read(descriptor: int, text: str) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := await _piece(descriptor):
        size += len(piece)
        if size > MAX_OUTPUT:
            raise CommandFailed(text, f"More than {MAX_OUTPUT} bytes of output")
        pieces.append(piece)
    return b"".join(pieces)


async def _piece(descriptor: int) -> bytes:
    """Return the next piece of output, empty at the end."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.read(descriptor, LOG_PIECE)
        except BlockingIOError:
            await _ready(descriptor, loop.add_reader, loop.remove_reader)


async def _feed(process: ChildProcess, data: bytes) -> None:
    loop = asyncio.get_running_loop()
    rest = memoryview(data)
    with suppress(BrokenPipeError):  # a program can end without reading its standard input
        while rest:
            try:
                rest = rest[os.write(process.stdin, rest) :]
            except BlockingIOError:
                await _ready(process.stdin, loop.add_writer, loop.remove_writer)


async def _ready(descriptor: int, watch: Callable[..., None], unwatch: Callable[[int], bool]) -> None:
    """Wait until the descriptor is readable or writable, depending on the function `watch` of the loop."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch(descriptor, _resolve, ready)
    try:
        await ready
    finally:
        unwatch(descriptor)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _reason(err: bytes, exit_code: int) -> str:
    text = err[:MAX_ERROR_TEXT].decode(errors="replace").strip()
    if text:
        return text
    return f"Ended by signal {-exit_code}" if exit_code < 0 else f"Ended with exit code {exit_code}"


async def _end(process: ChildProcess) -> None:
    """Close the pipes, and kill the program if it still runs."""
    process.close()
    if not process.has_ended():
        process.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_LIMIT):
                await wait_for_exit(process.pid, process.has_ended)
