"""Keeps a simulation apart from the process in which it runs: its log, and what is left of it at the end.

Input: the event loop and the folder of a simulation. Output: nothing of it stays: no tasks, log handlers or open files.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ankaios.simulation.virtual_time import VirtualTimeLoop, forget_killed

_collect = gc.collect  # programs in a simulation do not collect, see `determinism.py`


class InternalErrors(logging.Handler):
    """Collects what the supervisor logs, which no fault of the environment may cause."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def in_callback(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The handler of the event loop for what no task catches."""
        error = context.get("exception")
        place = _last_place(error) if error is not None else ""
        self.texts.append(f"{context['message']}: {error!r}{place}")

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "ankaios.common.supervision":
            self.texts.append(record.getMessage())


def _last_place(error: BaseException) -> str:
    """Where it was raised; the traceback itself would keep everything alive."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {frames[-1].name} in {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""


@contextmanager
def quiet(handler: logging.Handler) -> Iterator[None]:
    """Only the handler receives log lines: the log of a simulation is its record."""
    logger = logging.getLogger("ankaios")
    propagate, level = logger.propagate, logger.level
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
        logger.setLevel(level)


def close(loop: VirtualTimeLoop, folder: Path) -> None:
    """Drop the tasks of killed processes and close their files, which are in the folder.

    What the cleanup code of these tasks raises or warns about is of no interest.
    """
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # about coroutines that were not started yet
            _drop_tasks(loop)
            _close_files(folder.resolve())
    finally:
        logging.disable(logging.NOTSET)
        sys.unraisablehook = hook


def _drop_tasks(loop: VirtualTimeLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        with suppress(Exception, GeneratorExit, BaseExceptionGroup):
            task.get_coro().close()
    loop.close()
    forget_killed()
    _collect()


def _close_files(folder: Path) -> None:
    """Killed processes leave open files, such as the locks of their databases."""
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):  # that of the listing is closed
            if descriptor.readlink().is_relative_to(folder):
                os.close(int(descriptor.name))
