"""The number of frames of each connection that are processed in a slice of time."""

from ankaios.grpc.frame_budget import SLICE, TOTAL_SECONDS, FrameBudget

FRAME = 50e-6
ALL = round(TOTAL_SECONDS / FRAME)


def spend(budget: FrameBudget, connection: object, frames: int) -> None:
    budget.spend(connection, frames, frames * FRAME)


def a_budget_of_ten_busy_connections() -> FrameBudget:
    budget = FrameBudget()
    for connection in range(10):
        budget.allowance(connection, 0.0)
        spend(budget, connection, 100)
    return budget


def test_a_connection_can_use_the_budget_and_gets_it_again_in_the_next_slice() -> None:
    budget = FrameBudget()
    assert budget.allowance("a", 0.0) == ALL
    spend(budget, "a", ALL - 1)
    assert budget.allowance("a", 0.05) == 1
    spend(budget, "a", 2)
    assert budget.allowance("a", 0.09) == 0
    assert budget.slice_end == SLICE
    assert budget.allowance("a", SLICE) == ALL


def test_many_connections_share_the_budget_equally() -> None:
    budget = a_budget_of_ten_busy_connections()
    assert budget.allowance(0, 0.05) == 0
    assert budget.allowance("idle", 0.05) in (ALL // 10, ALL // 10 - 1)
    assert {budget.allowance(connection, SLICE) for connection in range(10)} <= {ALL // 10, ALL // 10 - 1}


def test_every_connection_keeps_a_smallest_share() -> None:
    budget = FrameBudget()
    for connection in range(1000):
        budget.allowance(connection, 0.0)
        spend(budget, connection, 1)
    assert budget.allowance("another", 0.05) in (9, 10)


def test_after_an_idle_slice_the_share_is_full_again() -> None:
    budget = a_budget_of_ten_busy_connections()
    assert budget.allowance(0, 3 * SLICE) >= ALL - 1


def test_the_number_of_frames_follows_the_time_that_they_take() -> None:
    budget = FrameBudget()
    for _ in range(100):
        budget.spend("a", 100, 0.001)
    assert budget.allowance("b", 1.0) in range(ALL * 5 - 20, ALL * 5 + 1)


def test_frames_that_take_no_measurable_time_keep_the_budget_usable() -> None:
    """A clock with large steps shows no time for thousands of frames; found by the simulation."""
    budget = FrameBudget()
    for _ in range(10_000):
        budget.spend("a", 1, 0.0)
    assert budget.allowance("a", 0.0) >= ALL
