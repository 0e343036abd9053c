"""Who is woken by what: only those who were told something that is no longer so."""

from ankaios.devices.core.waiting_room import WaitingRoom
from ankaios.devices.core.workload_plan import Need

CAM, GPU = Need(None, "akri.sh/cam", 1), Need(None, "x/gpu", 1)


class Room:
    def __init__(self) -> None:
        self.obstacles: dict[str, str | None] = {}
        self.asked: list[str] = []
        self.room = WaitingRoom(self._obstacle)

    def _obstacle(self, owner: str, needs: tuple[Need, ...]) -> str | None:
        self.asked.append(owner)
        return self.obstacles.get(owner)

    def wait(self, owner: str, *needs: Need, failed: bool = False) -> None:
        self.obstacles[owner] = None if failed else "none free"
        self.room.enter(owner, needs, "out of order" if failed else "none free", failed)


def test_a_waiter_is_woken_once_by_a_change_that_makes_a_difference() -> None:
    made = Room()
    made.wait("w", CAM, GPU)
    assert made.room.changed(["akri.sh/cam"]) == []
    made.obstacles["w"] = None
    assert made.room.changed(["akri.sh/mic"]) == []
    assert made.room.changed(["akri.sh/cam", "x/gpu"]) == ["w"]
    assert made.room.changed(["akri.sh/cam", "x/gpu"]) == []


def test_a_reason_that_is_no_longer_true_is_a_difference() -> None:
    made = Room()
    made.wait("w", CAM)
    made.obstacles["w"] = "none visible"
    assert made.room.changed(["akri.sh/cam"]) == ["w"]


def test_only_those_who_wait_for_it_are_looked_at() -> None:
    made = Room()
    made.wait("w1", CAM)
    made.wait("w2", GPU)
    made.room.changed(["x/gpu"])
    assert made.asked == ["w2"]


def test_a_failed_try_is_repeated_for_a_plugin_that_came_or_in_time_and_for_nothing_else() -> None:
    """Not for what it changed itself, nor for what another failed try changed: they would wake each other for ever."""
    made = Room()
    made.wait("w1", GPU, failed=True)
    made.wait("w2", GPU, failed=True)
    assert made.room.changed(["x/gpu"]) == []
    assert made.room.changed(["x/gpu"], came=["x/other"]) == []
    assert made.room.changed(["x/gpu"], came=["x/gpu"]) == ["w1", "w2"]
    made.wait("w1", GPU, failed=True)
    made.wait("w2", GPU)
    assert made.room.failed() == ["w1"]
    assert made.room.failed() == []


def test_who_left_or_waits_for_something_else_now_is_not_woken() -> None:
    made = Room()
    made.wait("w", CAM, Need("pod/a", "akri.sh/cam", 1))
    made.wait("w", GPU)
    made.room.leave("other")
    made.obstacles["w"] = None
    assert made.room.changed(["akri.sh/cam"]) == []
    made.room.leave("w")
    assert made.room.changed(["x/gpu"]) == []
