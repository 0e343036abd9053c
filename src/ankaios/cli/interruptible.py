"""Runs work until it ends or a signal arrives. The first signal ends the work cleanly, a second one immediately."""

import os
import signal
from collections.abc import Callable
from types import FrameType

from ankaios.cli.session import Session
from ankaios.grpc.blocking_call import WaitInterrupted

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)


def until_signal(session: Session, work: Callable[[], None]) -> int | None:
    """Run the work. Returns the number of the signal that ended it, or None if it came to its end.

    The signal handler only writes to a pipe. The session watches the pipe while it waits for the server or for the
    reader of our output, so the work is interrupted only there.
    """
    received: list[int] = []
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def wake(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        received.append(number)
        os.write(writer, b"!")

    previous = {number: signal.signal(number, wake) for number in ENDING_SIGNALS}
    session.watch(reader)
    try:
        work()
    except WaitInterrupted:
        return received[0]
    finally:
        session.watch(None)
        for number, handler in previous.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
    return None


def run_until_killed(session: Session, work: Callable[[], None]) -> None:
    """Run the work. If a signal ends it, the process ends by that signal after the work has restored the terminal."""
    number = until_signal(session, work)
    if number is not None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
