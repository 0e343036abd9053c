"""Which workloads claim again after which change: only those whose reported reason no longer holds."""

from ankaios.devices.core.claim_plan import ResourceNeed
from ankaios.devices.core.pending_claims import PendingClaims

CAM, GPU = ResourceNeed(None, "akri.sh/cam", 1), ResourceNeed(None, "x/gpu", 1)


class Pending:
    def __init__(self) -> None:
        self.obstacles: dict[str, str | None] = {}
        self.woken: list[str] = []
        self.claims = PendingClaims(self._obstacle)

    def _obstacle(self, owner: str, needs: tuple[ResourceNeed, ...]) -> str | None:
        self.woken.append(owner)
        return self.obstacles.get(owner)

    def wait(self, owner: str, *needs: ResourceNeed, failed: bool = False) -> None:
        self.obstacles[owner] = None if failed else "none free"
        self.claims.add(owner, needs, "out of order" if failed else "none free", failed)


def test_a_workload_claims_again_once_after_a_relevant_change() -> None:
    made = Pending()
    made.wait("w", CAM, GPU)
    assert made.claims.changed(["akri.sh/cam"]) == []
    made.obstacles["w"] = None
    assert made.claims.changed(["akri.sh/mic"]) == []
    assert made.claims.changed(["akri.sh/cam", "x/gpu"]) == ["w"]
    assert made.claims.changed(["akri.sh/cam", "x/gpu"]) == []


def test_a_reason_that_is_no_longer_true_is_a_relevant_change() -> None:
    made = Pending()
    made.wait("w", CAM)
    made.obstacles["w"] = "none visible"
    assert made.claims.changed(["akri.sh/cam"]) == ["w"]


def test_only_workloads_that_wait_for_the_resource_are_checked() -> None:
    made = Pending()
    made.wait("w1", CAM)
    made.wait("w2", GPU)
    made.claims.changed(["x/gpu"])
    assert made.woken == ["w2"]


def test_a_failed_claim_is_repeated_for_a_plugin_that_registers_or_after_a_time_and_for_nothing_else() -> None:
    """Its own changes and other failed claims do not count: they would wake each other forever."""
    made = Pending()
    made.wait("w1", GPU, failed=True)
    made.wait("w2", GPU, failed=True)
    assert made.claims.changed(["x/gpu"]) == []
    assert made.claims.changed(["x/gpu"], registered=["x/other"]) == []
    assert made.claims.changed(["x/gpu"], registered=["x/gpu"]) == ["w1", "w2"]
    made.wait("w1", GPU, failed=True)
    made.wait("w2", GPU)
    assert made.claims.take_failed() == ["w1"]
    assert made.claims.take_failed() == []


def test_a_workload_that_was_removed_or_waits_for_another_resource_does_not_claim_again() -> None:
    made = Pending()
    made.wait("w", CAM, ResourceNeed("pod/a", "akri.sh/cam", 1))
    made.wait("w", GPU)
    made.claims.remove("other")
    made.obstacles["w"] = None
    assert made.claims.changed(["akri.sh/cam"]) == []
    made.claims.remove("w")
    assert made.claims.changed(["x/gpu"]) == []
