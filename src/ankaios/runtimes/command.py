"""Runs one program of a runtime to its end, or reads its output as it comes.

In come a program with its arguments, what it reads and a time limit; out comes its standard output, or a
`CommandFailed` that keeps command, exit code and error output. Nothing is owned: no child process outlives its call.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress

from ankaios.runtimes.child_process import ChildProcess
from ankaios.runtimes.runtime_connector import RuntimeFailed

MAX_OUTPUT = 64 * 1024 * 1024
MAX_ERROR_TEXT = 64 * 1024
LOG_PIECE = 64 * 1024
_END_LIMIT = 5.0
_LAST_OUTPUT = 0.2  # whatever a program left behind may keep its output open
# Only where the system has no process descriptors: how long to wait between two looks whether a program has ended.
_LOOKS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032)


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
    return await finish_command(_spawn(program, arguments, text, env), text, limit=limit, stdin=stdin)


async def finish_command(process: ChildProcess, text: str, *, limit: float, stdin: bytes = b"") -> str:
    """The same for a program that runs already; `text` is its command for messages."""
    try:
        async with asyncio.timeout(limit):
            out, err = await _communicate(process, stdin)
    except TimeoutError:
        raise CommandFailed(text, f"No answer within {limit:g} s, given up") from None
    except _TooMuch:
        raise CommandFailed(text, f"More than {MAX_OUTPUT} bytes of output") from None
    finally:
        await _end(process)
    if process.exit_code:
        raise CommandFailed(text, _reason(err, process.exit_code), process.exit_code)
    try:
        return out.decode()
    except UnicodeDecodeError as fault:
        raise CommandFailed(text, f"The output is not UTF-8 at byte {fault.start}", 0) from fault


async def stream_command(
    program: str, arguments: Sequence[str], env: Mapping[str, str] | None = None
) -> AsyncIterator[bytes]:
    """Yield standard output and error output, merged, in pieces as they come; closing ends the program."""
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
    """The exit code, None if the program did not end in time, and the end of its output, however much it prints.

    The standard input stays open until then. A program with `grace` ends by itself when its standard input is closed.
    """
    process = _spawn(program, arguments, command_text(program, arguments), env, merge=True)
    output = bytearray()
    loop = asyncio.get_running_loop()
    reading = loop.create_task(_keep_end(process.stdout, output, keep), name=f"output of {program}")
    try:
        async with asyncio.timeout(limit):
            if stdin:
                os.write(process.stdin, stdin)  # a pipe has room for it
            await _ended(process)
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
                    await _ended(process)
    finally:
        await _end(process)


async def _keep_end(descriptor: int, output: bytearray, keep: int) -> None:
    while piece := await _piece(descriptor):
        output += piece
        del output[:-keep]


class _TooMuch(Exception):
    pass


def _spawn(
    program: str, arguments: Sequence[str], text: str, env: Mapping[str, str] | None, *, merge: bool = False
) -> ChildProcess:
    try:
        return ChildProcess(program, arguments, env, merge=merge)
    except (OSError, ValueError) as fault:
        raise CommandFailed(text, f"Could not spawn command: {fault}") from fault


async def _communicate(process: ChildProcess, stdin: bytes) -> tuple[bytes, bytes]:
    try:
        async with asyncio.TaskGroup() as group:
            out = group.create_task(_read(process.stdout, MAX_OUTPUT), name="read standard output")
            err = group.create_task(_read(process.stderr, MAX_OUTPUT), name="read error output")
            await _feed(process, stdin)
            await _ended(process)
    except BaseExceptionGroup as faults:
        # Not `except*`: what is raised in there comes out as a group in Python 3.11.2, that of Debian 12.
        if faults.split(_TooMuch)[1] is not None:
            raise
        raise _TooMuch from None
    return out.result(), err.result()


async def _read(descriptor: int, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := await _piece(descriptor):
        size += len(piece)
        if size > most:
            raise _TooMuch
        pieces.append(piece)
    return b"".join(pieces)


async def _piece(descriptor: int) -> bytes:
    """Empty at the end."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.read(descriptor, LOG_PIECE)
        except BlockingIOError:
            await _ready(descriptor, loop.add_reader, loop.remove_reader)


async def _feed(process: ChildProcess, data: bytes) -> None:
    loop = asyncio.get_running_loop()
    rest = memoryview(data)
    with suppress(BrokenPipeError):  # a program may end without reading what it is given
        while rest:
            try:
                rest = rest[os.write(process.stdin, rest) :]
            except BlockingIOError:
                await _ready(process.stdin, loop.add_writer, loop.remove_writer)
    process.close_stdin()


async def _ended(process: ChildProcess) -> None:
    """Until the program has ended and that was taken notice of."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (OSError, AttributeError):  # the last one: built for an old system
        await _ended_at_a_look(process)
        return
    loop = asyncio.get_running_loop()
    try:
        while not process.has_ended():
            await _ready(descriptor, loop.add_reader, loop.remove_reader)
    finally:
        os.close(descriptor)


async def _ended_at_a_look(process: ChildProcess) -> None:
    pauses = iter(_LOOKS)
    while not process.has_ended():  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(next(pauses, _LOOKS[-1]))


async def _ready(descriptor: int, watch: Callable[..., None], unwatch: Callable[[int], bool]) -> None:
    """Until something can be read or written, depending on what the loop is asked to watch."""
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
    """Whatever happened: the program is gone afterwards, unless the system cannot even kill it."""
    process.close()
    if not process.has_ended():
        process.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_LIMIT):
                await _ended(process)
