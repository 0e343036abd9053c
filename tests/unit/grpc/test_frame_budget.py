"""How much the frames of each connection and of all together may cost in a slice of time."""

from ankaios.grpc.frame_budget import SLICE, FrameBudget


def a_budget() -> FrameBudget:
    return FrameBudget(of_connection=400, total=500)


def test_a_connection_can_use_its_share_and_gets_it_again_in_the_next_slice() -> None:
    budget = a_budget()
    assert budget.allowance("a", 0.0) == 400
    budget.spend("a", 300)
    assert budget.allowance("a", 0.05) == 100
    budget.spend("a", 100)
    assert budget.allowance("a", 0.09) == 0
    assert budget.slice_end == SLICE
    assert budget.allowance("a", SLICE) == 400


def test_many_connections_share_the_budget_equally() -> None:
    budget = a_budget()
    for connection in range(10):
        budget.allowance(connection, 0.0)
        budget.spend(connection, 100)
    assert budget.allowance(0, 0.05) == 0
    assert budget.allowance("quiet", 0.05) == 50
    assert {budget.allowance(connection, SLICE) for connection in range(10)} == {50}


def test_every_connection_keeps_a_smallest_share() -> None:
    budget = a_budget()
    for connection in range(1000):
        budget.allowance(connection, 0.0)
        budget.spend(connection, 1)
    assert budget.allowance("another", 0.05) == 16


def test_after_a_quiet_slice_the_share_is_full_again() -> None:
    budget = a_budget()
    for connection in range(10):
        budget.allowance(connection, 0.0)
        budget.spend(connection, 100)
    assert budget.allowance(0, 3 * SLICE) == 400
