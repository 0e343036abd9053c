import asyncio

import pytest

from ankaios.agent import listings
from ankaios.agent.core.runtime_manager import Found
from ankaios.agent.listings import Listings
from ankaios.common.errors import Unavailable
from ankaios.common.execution_state import RUNNING_OK
from ankaios.common.supervision import Supervisor
from tests.support.builders import a_workload

FOUND = Found("podman", a_workload("web", "A").instance_name, RUNNING_OK, "c1")


class Runtimes:
    """Answers when the test allows it."""

    def __init__(self) -> None:
        self.listings_in_progress: list[str] = []
        self.answered: list[tuple[str, list[Found]]] = []
        self.reasons: list[tuple[str, str]] = []
        self.errors: list[Exception] = []
        self.hang = False
        self.reason_reported = asyncio.Event()

    async def ask(self, runtime: str) -> list[Found]:
        self.listings_in_progress.append(runtime)
        if self.hang:
            await asyncio.Event().wait()
        if self.errors:
            raise self.errors.pop(0)
        return [FOUND]

    def answer(self, runtime: str, found: list[Found]) -> None:
        self.answered.append((runtime, found))

    def report_reason(self, runtime: str, why: str) -> None:
        self.reasons.append((runtime, why))
        self.reason_reported.set()


@pytest.fixture
async def runtimes() -> Runtimes:
    return Runtimes()


async def test_a_runtime_is_listed_until_it_succeeds(runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def no_sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", no_sleep)
    runtimes.errors = [Unavailable(f"fault {number}") for number in range(7)]
    async with Supervisor() as tasks:
        Listings(runtimes.ask, runtimes.answer, runtimes.report_reason, tasks).begin(["podman"], ["podman"])
    assert runtimes.answered == [("podman", [FOUND])]
    assert runtimes.reasons[0] == ("podman", "Retry 1: fault 0")
    assert runtimes.reasons[-1] == ("podman", "Retry 7: fault 6")
    assert pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0], "soon after the fault is over it must be noticed"


async def test_a_runtime_that_does_not_answer_is_reported_as_the_reason(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "REPORT_AFTER", 0.01)
    runtimes.hang = True
    async with asyncio.timeout(10), Supervisor() as tasks:
        listings_in_progress = Listings(runtimes.ask, runtimes.answer, runtimes.report_reason, tasks)
        listings_in_progress.begin(["podman"], ["podman"])
        await runtimes.reason_reported.wait()
        assert runtimes.reasons == [
            ("podman", "The runtime 'podman' has not listed its workloads within 0.01 s, waiting for it")
        ]
        listings_in_progress.begin([], [])


async def test_new_listings_replace_the_previous_ones(runtimes: Runtimes) -> None:
    runtimes.hang = True
    async with Supervisor() as tasks:
        listings_in_progress = Listings(runtimes.ask, runtimes.answer, runtimes.report_reason, tasks)
        listings_in_progress.begin(["podman"], ["podman"])
        await asyncio.sleep(0)
        runtimes.hang = False
        listings_in_progress.begin(["podman", "native"], [])
    assert sorted(runtimes.answered) == [("native", [FOUND]), ("podman", [FOUND])]
    assert runtimes.reasons == []


async def test_runtimes_that_workloads_wait_for_are_listed_first(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "POSTPONEMENT", 0.01)
    async with Supervisor() as tasks:
        Listings(runtimes.ask, runtimes.answer, runtimes.report_reason, tasks).begin(["native", "podman"], ["podman"])
        await asyncio.sleep(0)
        assert runtimes.listings_in_progress == ["podman"]
    assert runtimes.listings_in_progress == ["podman", "native"]


async def test_a_later_workload_starts_a_postponed_listing(runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "POSTPONEMENT", 3600.0)
    async with asyncio.timeout(10), Supervisor() as tasks:
        listings_in_progress = Listings(runtimes.ask, runtimes.answer, runtimes.report_reason, tasks)
        listings_in_progress.begin(["native", "podman"], ["podman"])
        await asyncio.sleep(0)
        listings_in_progress.hurry(["native", "podman", "unknown"])
    assert runtimes.listings_in_progress == ["podman", "native"]


async def test_if_no_workload_waits_all_runtimes_are_listed_immediately(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "POSTPONEMENT", 3600.0)
    async with asyncio.timeout(10), Supervisor() as tasks:
        Listings(runtimes.ask, runtimes.answer, runtimes.report_reason, tasks).begin(["native", "podman"], [])
    assert sorted(runtimes.listings_in_progress) == ["native", "podman"]
