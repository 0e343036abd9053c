"""Merges several log outputs into one without splitting lines.

Input: named sources of bytes. Output: whole lines, prefixed with the name of the source if there are several sources.
A separate task reads each source. A bounded queue limits its speed to the speed of the reader.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

from msgspec import Struct

from ankaios.common.supervision import internal_error
from ankaios.runtimes.runtime_connector import RuntimeFailed

MAX_LINE = 1024 * 1024
_WAITING_PIECES = 16


class LogSource(Struct, frozen=True):
    name: str
    pieces: AsyncIterator[bytes]


async def merged_logs(sources: list[LogSource]) -> AsyncIterator[bytes]:
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING_PIECES)
    marked = len(sources) > 1
    tasks = [asyncio.create_task(_forward(source, marked, queue), name=f"logs of {source.name}") for source in sources]
    try:
        open_sources = len(tasks)
        while open_sources:
            piece = await queue.get()
            if piece is None:
                open_sources -= 1
            else:
                yield piece
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _forward(source: LogSource, marked: bool, queue: asyncio.Queue[bytes | None]) -> None:
    mark = f"{source.name}: ".encode() if marked else b""
    rest = b""
    try:
        async with aclosing(cast(AsyncGenerator[bytes, None], source.pieces)) as pieces:
            async for piece in pieces:
                lines, rest = _split(rest + piece)
                if lines:
                    await queue.put(b"".join(mark + line for line in lines))
    except RuntimeFailed as fault:
        rest += f"{fault}\n".encode()
    except Exception as error:  # the reader waits for the end of each source
        rest += f"{internal_error(f'the logs of {source.name}', error)}\n".encode()
    if rest:
        await queue.put(mark + rest)
    await queue.put(None)


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the whole lines and the rest. A line longer than `MAX_LINE` is forwarded without its end."""
    whole, end, rest = data.rpartition(b"\n")
    lines = [line + b"\n" for line in whole.split(b"\n")] if end else []
    if len(rest) > MAX_LINE:
        return [*lines, rest], b""
    return lines, rest
