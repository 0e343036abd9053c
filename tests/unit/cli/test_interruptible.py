"""Work that a signal may end; the signals are real and sent to this process."""

import os
import select
import signal
from typing import cast

import pytest

from ankaios.cli.interruptible import ENDING_SIGNALS, until_signal
from ankaios.cli.session import Session
from ankaios.grpc.blocking_call import WaitInterrupted


class FakeSession:
    """Waits only for the watched descriptor, because there is no server."""

    def __init__(self) -> None:
        self.watched: int | None = None

    def watch(self, descriptor: int | None) -> None:
        self.watched = descriptor

    def wait(self) -> None:
        assert self.watched is not None
        assert select.select([self.watched], [], [], 10)[0]
        raise WaitInterrupted


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in ENDING_SIGNALS]


def test_work_that_ends_restores_the_signal_handlers() -> None:
    session, before, done = FakeSession(), handlers(), []
    assert until_signal(cast(Session, session), lambda: done.append(session.watched)) is None
    assert done[0] is not None
    assert session.watched is None
    assert handlers() == before


@pytest.mark.parametrize("number", ENDING_SIGNALS)
def test_a_signal_ends_the_work_where_it_waits_and_the_next_one_would_end_the_process(number: int) -> None:
    session, before, seen = FakeSession(), handlers(), []

    def work() -> None:
        os.kill(os.getpid(), number)
        seen.append(signal.getsignal(number))  # half done things are finished
        session.wait()

    assert until_signal(cast(Session, session), work) == number
    assert seen == [signal.SIG_DFL]
    assert session.watched is None
    assert handlers() == before


def test_a_failure_of_the_work_is_passed_on() -> None:
    before = handlers()

    def work() -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        until_signal(cast(Session, FakeSession()), work)
    assert handlers() == before
