"""An event loop on virtual time, and the processes that run on it.

Input: coroutines that use asyncio as usual. Output: the same results, without waiting: when nothing is ready, the clock
is set to the next timer. Connections are made through a simulated network. Owns the clock and the simulated processes.

A simulated process is a context variable. Tasks, timers and callbacks inherit it, so all of them stop at once when the
process is killed: no cleanup code runs, as with `kill -9`.
"""

from __future__ import annotations

import asyncio
import os
import selectors
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Coroutine

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

_PROCESS: ContextVar[SimulatedProcess | None] = ContextVar("simulated process", default=None)


class NothingToDo(RuntimeError):
    """Every task waits, and no timer is set: the simulation would wait for ever."""


class EndlessWork(RuntimeError):
    """The programs work without a pause: virtual time does not advance any more."""


# More steps of the event loop than any cluster needs in so many virtual seconds.
MOST_STEPS, STEP_SECONDS = 100_000, 5.0


class SimulatedProcess:
    """Everything that runs in its context ends when it is killed."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.alive = True
        # Called with the process when it ends, in the order of registration; the kernel closes its sockets and files.
        self.at_end: list[Callable[[SimulatedProcess], None]] = []
        # Open files of this process that it waits for.
        self.descriptors: set[int] = set()
        # Tasks of a killed process must not be collected: that would run their cleanup code.
        self.tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run the work in this process."""
        context = copy_context()
        context.run(_PROCESS.set, self)
        return asyncio.get_running_loop().create_task(work, name=self.name, context=context)

    def kill(self) -> None:
        if self.alive:
            self.alive = False
            _KILLED.append(self)
            for end in self.at_end:
                end(self)


_KILLED: list[SimulatedProcess] = []
_ALWAYS = SimulatedProcess("no process", "")


def forget_killed() -> None:
    """At the end of a simulation: drop the tasks of killed processes."""
    _KILLED.clear()


def current_process() -> SimulatedProcess | None:
    return _PROCESS.get()


class StreamNetwork(Protocol):
    """Makes connections; see `network.py`."""

    async def create_connection(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> Any: ...


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The clock is public so that a simulation can be compared with its own time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.network: StreamNetwork | None = None
        self._selector_on_virtual_time = _VirtualSelector(self)
        self._writers: set[int] = set()
        super().__init__(self._selector_on_virtual_time)
        self.set_task_factory(_new_task)

    def time(self) -> float:
        return self.now

    @property
    def timer_count(self) -> int:
        """Timers that are set; those that were cancelled are removed later."""
        return sum(not timer.cancelled() for timer in self._scheduled)  # type: ignore[attr-defined]

    # The arguments are those of the base class.

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        context = copy_context() if context is None else context
        process = context.get(_PROCESS)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(_call_if_alive, process, callback, args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        process = context.get(_PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        return super().call_at(when, _call_if_alive, process, callback, args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], R], *args: *Ts) -> asyncio.Future[R]:
        """Threads would make the order of events depend on the machine: the function is called immediately."""
        future: asyncio.Future[R] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def add_signal_handler(self, sig: int, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """A simulated process receives no signals of the real one."""

    def add_reader(self, fd: Any, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        if hasattr(fd, "set_reader"):  # a simulated socket
            fd.set_reader(lambda: callback(*args))
        else:
            super().add_reader(fd, _call_if_alive, *self._owned(fd, callback, args))

    def remove_reader(self, fd: Any) -> bool:
        if not hasattr(fd, "set_reader"):
            if (process := current_process()) is not None and fd not in self._writers:
                process.descriptors.discard(fd)
            return super().remove_reader(fd)
        fd.set_reader(None)
        return True

    def add_writer(self, fd: Any, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        self._writers.add(fd)
        super().add_writer(fd, _call_if_alive, *self._owned(fd, callback, args))

    def remove_writer(self, fd: Any) -> bool:
        self._writers.discard(fd)
        return super().remove_writer(fd)

    def _owned(self, fd: int, callback: Any, args: Any) -> tuple[Any, Any, Any]:
        """The kernel closes the descriptors of a killed process, here those that it waits for."""
        process = current_process()
        if process is None:
            return _ALWAYS, callback, args
        process.descriptors.add(fd)
        if self._close_descriptors not in process.at_end:
            process.at_end.append(self._close_descriptors)
        return process, callback, args

    def _close_descriptors(self, process: SimulatedProcess) -> None:
        for fd in process.descriptors:
            super().remove_reader(fd)
            self.remove_writer(fd)
            with suppress(OSError):
                os.close(fd)
        process.descriptors.clear()

    async def connect_accepted_socket(self, protocol_factory: Any, sock: Any, **options: Any) -> Any:
        protocol = protocol_factory()
        sock.transport.open(protocol)
        return sock.transport, protocol

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        assert self.network is not None, "the loop has no network"
        return await self.network.create_connection(protocol_factory, host, port)


def _new_task(
    loop: asyncio.AbstractEventLoop, work: Any, context: Context | None = None, **options: Any
) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context, **options)
    process = _PROCESS.get() if context is None else context.get(_PROCESS)
    if process is not None:
        process.tasks.add(task)
        task.add_done_callback(process.tasks.discard)
    return task


def _call_if_alive(process: SimulatedProcess, callback: Callable[[*Ts], object], args: tuple[*Ts]) -> None:
    if process.alive:
        callback(*args)


class _VirtualSelector(selectors.SelectSelector):
    """Never waits: instead of waiting for the timeout it sets the clock. Pipes and FIFOs of this process still work."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop
        self._steps = 0
        self._counted_since = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self._steps += 1
        if self._steps == MOST_STEPS:
            self._check_steps()
        if timeout == 0:  # callbacks are ready; files are looked at before the clock is set
            return []
        # One descriptor is the loop's own, for signals and threads.
        if len(self.get_map()) > 1 and (ready := super().select(0)):
            return ready
        if timeout is None:
            raise NothingToDo
        if timeout > 0:
            self._loop.now += timeout
        return []

    def _check_steps(self) -> None:
        seconds = self._loop.now - self._counted_since
        if seconds < STEP_SECONDS:
            raise EndlessWork(f"{MOST_STEPS} steps of the event loop in {seconds:.3f} s")
        self._steps, self._counted_since = 0, self._loop.now
