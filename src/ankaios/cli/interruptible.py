"""Commands that go on until somebody has seen enough: a signal ends them politely, a second one at once."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from ankaios.grpc.blocking_call import WaitInterrupted

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from ankaios.cli.connection import Session

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)


def until_signal(session: Session, work: Callable[[], None]) -> bool:
    """Do the work. True if it came to its end, False if a signal ended it.

    A signal only fills a pipe that the session looks at while it waits for the server, or for a reader of our output,
    so nothing is torn that is half done.
    """
    told, teller = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.write(teller, b"!")

    before = {number: signal.signal(number, end) for number in ENDING_SIGNALS}
    session.watch(told)
    try:
        work()
    except WaitInterrupted:
        return False
    finally:
        session.watch(None)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(told)
        os.close(teller)
    return True
