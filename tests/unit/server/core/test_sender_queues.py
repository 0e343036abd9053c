"""The sender that has used the least time of the server is served next."""

from typing import TypeVar

from ankaios.server.core.sender_queues import Sender, SenderQueues

T = TypeVar("T")
A, B, C = Sender("a"), Sender("b"), Sender("agent", "web")


def taken(queues: SenderQueues[str], cost: float = 1.0) -> str:
    sender, item = next_of(queues)
    queues.charge(sender, cost)
    return item


def next_of(queues: SenderQueues[T]) -> tuple[Sender, T]:
    found = queues.take()
    assert found is not None
    return found


def test_messages_of_one_sender_keep_their_order() -> None:
    queues: SenderQueues[str] = SenderQueues()
    for item in ("1", "2", "3"):
        queues.add(A, item)
    assert [taken(queues) for _ in range(3)] == ["1", "2", "3"]
    assert len(queues) == 0


def test_senders_with_messages_of_equal_cost_are_served_in_turn() -> None:
    queues: SenderQueues[str] = SenderQueues()
    for number in range(3):
        queues.add(A, f"a{number}")
    for number in range(3):
        queues.add(B, f"b{number}")
    assert [taken(queues) for _ in range(6)] == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_a_request_is_served_after_the_current_message_however_many_others_wait() -> None:
    queues: SenderQueues[str] = SenderQueues()
    for number in range(50):
        for sender in range(10):
            queues.add(Sender(f"flood {sender}"), f"{number}")
    for _ in range(30):
        taken(queues)
    queues.add(C, "request")
    assert taken(queues) == "request"


def test_a_sender_of_expensive_messages_is_served_less_often() -> None:
    queues: SenderQueues[str] = SenderQueues()
    for _ in range(20):
        queues.add(A, "expensive")
        queues.add(B, "cheap")
    order = []
    for _ in range(12):
        sender, item = next_of(queues)
        queues.charge(sender, 10.0 if item == "expensive" else 1.0)
        order.append(item)
    assert order.count("expensive") == 2


def test_an_idle_sender_does_not_accumulate_time() -> None:
    queues: SenderQueues[str] = SenderQueues()
    for _ in range(60):
        queues.add(A, "a")
    for _ in range(50):
        taken(queues)
    for _ in range(10):
        queues.add(B, "b")
    assert [taken(queues) for _ in range(6)].count("a") >= 2


def test_a_sender_that_pauses_after_each_message_is_not_preferred() -> None:
    queues: SenderQueues[str] = SenderQueues()
    for _ in range(20):
        queues.add(A, "a")
    queues.add(B, "b")
    order = []
    for _ in range(8):
        order.append(taken(queues))
        if order[-1] == "b":
            queues.add(B, "b")
    assert order.count("a") == 4


def test_queues_of_senders_and_of_peers_are_limited() -> None:
    queues: SenderQueues[str] = SenderQueues(most_of_sender=2, most_of_peer=3)
    for workload in ("web", "web", "db"):
        queues.add(Sender("agent", workload), "x")
    assert not queues.has_room(Sender("agent", "web"))
    assert not queues.has_room(Sender("agent", "other"))
    assert queues.has_room(Sender("cli"))
    queues.take()
    assert queues.has_room(Sender("agent", "other"))


def test_messages_of_a_disconnected_peer_are_dropped() -> None:
    queues: SenderQueues[str] = SenderQueues()
    queues.add(Sender("agent"), "state")
    queues.add(C, "request")
    queues.add(B, "other")
    queues.drop("agent", keep=Sender("agent"))
    assert len(queues) == 2
    assert sorted(taken(queues) for _ in range(2)) == ["other", "state"]
    queues.drop("agent")
    assert len(queues) == 0


def test_times_of_senders_without_recent_messages_are_removed() -> None:
    queues: SenderQueues[str] = SenderQueues()
    for number in range(5_000):
        queues.add(Sender(f"connection {number}"), "x")
        taken(queues)
    assert len(queues._used) < 1_100


def test_the_time_of_a_sender_is_removed_with_its_last_message() -> None:
    queues: SenderQueues[int] = SenderQueues()
    for number in range(10):
        queues.add(Sender(f"connection-{number}"), number)
        sender, _ = next_of(queues)
        queues.charge(sender, 0.1, is_last=True)
    assert not queues._used


def test_a_message_that_may_not_be_taken_holds_back_later_ones_of_its_sender() -> None:
    queues: SenderQueues[str] = SenderQueues()
    for item in ("write", "read"):
        queues.add(A, item)
    queues.add(B, "read")

    def is_read(_: Sender, item: str) -> bool:
        return item == "read"

    assert queues.take(is_read) == (B, "read")
    assert queues.take(is_read) is None
    queues.add(B, "read")
    assert queues.take(is_read) == (B, "read")
    assert queues.take() is None
    queues.reconsider()
    assert [queues.take(), queues.take(), queues.take()] == [(A, "write"), (A, "read"), None]


def test_a_sender_that_was_dropped_meanwhile_is_not_considered_again() -> None:
    queues: SenderQueues[str] = SenderQueues()
    queues.add(A, "write")
    assert queues.take(lambda *_: False) is None
    queues.drop("a")
    queues.reconsider()
    assert queues.take() is None
