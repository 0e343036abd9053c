from ankaios.storage.leader_election import Leadership, SoleElection


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_leadership_is_valid_until_its_time_is_over_even_without_an_end() -> None:
    clock = Clock()
    leadership = Leadership(3, clock, 101.5)
    assert (leadership.is_valid, leadership.seconds_left) == (True, 1.5)
    clock.now = 101.5
    assert (leadership.is_valid, leadership.seconds_left) == (False, 0.0)
    assert not leadership.lost.is_set()


async def test_a_leadership_can_be_extended_but_not_shortened() -> None:
    clock = Clock()
    leadership = Leadership(3, clock, 101.0)
    leadership.extend(103.0)
    leadership.extend(102.0)
    assert leadership.seconds_left == 3.0


async def test_an_extension_that_comes_too_late_does_not_count() -> None:
    clock = Clock()
    leadership = Leadership(3, clock, 101.0)
    clock.now = 101.0
    leadership.extend(103.0)
    assert not leadership.is_valid


async def test_a_leadership_that_has_ended_stays_so_and_the_first_reason_counts() -> None:
    leadership = Leadership(3, Clock(), 200.0)
    leadership.end("first")
    leadership.end("second")
    leadership.extend(300.0)
    assert (leadership.is_valid, leadership.reason, leadership.lost.is_set()) == (False, "first", True)


async def test_a_server_without_others_always_leads() -> None:
    election = SoleElection()
    leadership = await election.campaign()
    assert leadership.is_valid
    assert election.leadership is leadership
    await election.resign()
    assert not leadership.is_valid
