"""A silent peer is asked, then given up; a fake clock tells the time."""

from collections.abc import Callable

from ankaios.middleware.keepalive import Heartbeat, Keepalive, Vigil


class FakeTimer:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[FakeTimer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None], /) -> FakeTimer:
        self.timers.append(FakeTimer(when, callback))
        return self.timers[-1]

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := sorted(
            (timer for timer in self.timers if timer.when <= end and not timer.cancelled), key=lambda t: t.when
        ):
            self.now = max(self.now, due[0].when)
            self.timers.remove(due[0])
            due[0].callback()
        self.now = end


class Watch:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.asked: list[float] = []
        self.given_up: list[float] = []
        self.heartbeat = Heartbeat(self.clock, Keepalive(1.0, 2.0), self._ask, self._give_up)
        self.heartbeat.start()

    def _ask(self) -> None:
        self.asked.append(self.clock.now)

    def _give_up(self) -> None:
        self.given_up.append(self.clock.now)


def test_a_silent_peer_is_asked_once_and_then_given_up() -> None:
    watch = Watch()
    watch.clock.advance(10)
    assert watch.asked == [101.0]
    assert watch.given_up == [103.0]


def test_a_peer_that_answers_is_asked_again_after_the_interval() -> None:
    watch = Watch()
    watch.clock.advance(1.5)
    watch.heartbeat.heard()
    watch.clock.advance(1.5)
    assert watch.asked == [101.0, 102.5]
    assert watch.given_up == []


def test_a_peer_that_dies_right_after_its_answer_is_noticed_in_interval_plus_timeout() -> None:
    watch = Watch()
    watch.clock.advance(1.0)
    watch.heartbeat.heard()
    watch.clock.advance(10)
    assert watch.given_up == [104.0]


def test_a_peer_that_talks_is_never_asked() -> None:
    watch = Watch()
    for _ in range(100):
        watch.clock.advance(0.9)
        watch.heartbeat.heard()
    assert watch.asked == []


def test_after_a_stall_of_this_process_the_peer_still_gets_its_time() -> None:
    watch = Watch()
    watch.clock.now += 50
    watch.clock.advance(0)
    assert watch.asked == [150.0]
    watch.clock.advance(1.9)
    assert watch.given_up == []


def test_a_stopped_watch_does_nothing_more() -> None:
    watch = Watch()
    watch.heartbeat.stop()
    watch.heartbeat.heard()
    watch.clock.advance(100)
    assert watch.asked == []


def test_a_vigil_asks_gives_up_and_starts_again_when_something_is_heard() -> None:
    vigil = Vigil(Keepalive(1.0, 2.0), 100.0)
    assert vigil.due == 101.0
    assert vigil.step(105.0)  # we were busy ourselves: the peer still gets its full time
    assert (vigil.asked, vigil.due) == (True, 107.0)
    vigil.heard(106.0)
    assert (vigil.asked, vigil.due) == (False, 107.0)
    assert vigil.step(107.0)
    assert not vigil.step(109.0)
