"""The number of received bytes that are stored, for each connection and in total."""

from ankaios.grpc.inbox_budget import InboxBudget, message_time_limit
from ankaios.grpc.wire_format import MIB


def a_budget() -> InboxBudget[str]:
    return InboxBudget(64 * MIB)


def test_one_message_of_the_largest_size_fits() -> None:
    budget = a_budget()
    assert budget.add("a", 64 * MIB + 5) is None
    assert budget.add("a", 4 * MIB) == "a"


def test_bytes_that_were_read_do_not_count() -> None:
    budget = a_budget()
    for _ in range(100):
        assert budget.add("a", 60 * MIB) is None
        budget.remove("a", 60 * MIB)


def test_if_the_total_is_exceeded_the_connection_that_stores_the_most_ends() -> None:
    budget = a_budget()
    for connection in "abcd":
        assert budget.add(connection, 60 * MIB) is None
    assert budget.add("c", 5 * MIB) is None
    assert budget.add("small", 27 * MIB) is None
    assert budget.add("small", 1 * MIB) == "c"
    budget.forget("c")
    assert budget.add("small", 1 * MIB) is None


def test_more_than_is_stored_cannot_be_removed() -> None:
    budget = a_budget()
    budget.add("a", 10)
    budget.forget("a")
    budget.remove("a", 10)
    for connection in "abcd":
        assert budget.add(connection, 68 * MIB) is None
    assert budget.add("e", 1) in tuple("abcd")


def test_the_time_for_a_message_depends_on_its_size() -> None:
    assert message_time_limit(0) == 10
    assert message_time_limit(64 * MIB) == 266
