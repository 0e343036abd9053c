"""The podman connector with a podman that is slow, hangs, prints invalid output or is killed (a script)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ankaios.common.execution_state import RUNNING_OK
from ankaios.common.workload import WorkloadSpec
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_runtime import Podman, PodmanRuntime
from ankaios.runtimes.podman.podman_settings import PodmanSettings
from ankaios.runtimes.podman.states import PODMAN_UNREADABLE
from ankaios.runtimes.runtime_connector import Extras, RuntimeFailed
from tests.integration.runtimes.state_log import LIMIT, StateLog
from tests.support.builders import a_workload
from tests.support.stand_in import StandIn

SHORT = 3.0  # enough for the replacement on a busy machine
LONG = 60.0


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    made = StandIn(tmp_path)
    yield made
    made.close()


@asynccontextmanager
async def a_runtime(stand_in: StandIn, limit: float) -> AsyncIterator[PodmanRuntime]:
    settings = PodmanSettings(program=stand_in.program, query_limit=limit, run_limit=limit, stop_limit=limit)
    made = PodmanRuntime(Podman(PodmanCli(settings)))
    yield made
    await made.close()


@pytest.fixture
async def short_limit_runtime(stand_in: StandIn) -> AsyncIterator[PodmanRuntime]:
    async with a_runtime(stand_in, SHORT) as made:
        yield made


@pytest.fixture
async def runtime(stand_in: StandIn) -> AsyncIterator[PodmanRuntime]:
    async with a_runtime(stand_in, LONG) as made:
        yield made


def a_spec(name: str = "web") -> WorkloadSpec:
    return a_workload(name, config="image: image\ncommandArgs: [sleep, '100']")


async def test_a_call_of_a_hanging_podman_ends_and_the_next_call_succeeds(
    stand_in: StandIn, short_limit_runtime: PodmanRuntime
) -> None:
    await short_limit_runtime.create_workload(a_spec(), Extras())
    stand_in.script("ps", do="hang")
    with pytest.raises(RuntimeFailed, match="No response within 3 s"):
        await short_limit_runtime.existing_workloads("agent_A")
    stand_in.heal()
    async with asyncio.timeout(LIMIT):
        while True:
            try:
                found = await short_limit_runtime.existing_workloads("agent_A")
                break
            except RuntimeFailed:
                await asyncio.sleep(0.1)  # the error is kept for a second
    assert [existing.state for existing in found] == [RUNNING_OK]


@pytest.mark.parametrize("what", ["work-then-die", "work-then-hang"])
async def test_a_start_that_podman_does_not_complete_leaves_no_container(
    stand_in: StandIn, short_limit_runtime: PodmanRuntime, what: str
) -> None:
    """Without the clean-up, the name of the container would block every retry."""
    stand_in.script("run", do=what, times=1)
    with pytest.raises(RuntimeFailed):
        await short_limit_runtime.create_workload(a_spec(), Extras())
    assert stand_in.containers() == []
    workload = await short_limit_runtime.create_workload(a_spec(), Extras())
    assert stand_in.containers() == [workload]


async def test_an_invalid_listing_makes_the_state_unknown_until_the_next_valid_one(
    stand_in: StandIn, runtime: PodmanRuntime
) -> None:
    spec = a_spec()
    workload = await runtime.create_workload(spec, Extras())
    log = StateLog()
    checker = runtime.start_checker(spec, workload, log)
    await log.until(RUNNING_OK)
    stand_in.script("ps", do="print", stdout="no list")
    await log.until(PODMAN_UNREADABLE)
    stand_in.heal()
    async with asyncio.timeout(LIMIT):
        while log.states[-1] != RUNNING_OK:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    checker.stop()


async def test_workloads_that_cannot_start_do_not_delay_others(stand_in: StandIn, runtime: PodmanRuntime) -> None:
    stand_in.script("run", do="hang", times=2)
    stuck = [asyncio.create_task(runtime.create_workload(a_spec(f"stuck{number}"), Extras())) for number in range(2)]
    async with asyncio.timeout(LIMIT):
        while len(stand_in.calls("run")) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await runtime.create_workload(a_spec("fine"), Extras())
    assert not any(task.done() for task in stuck)
    for task in stuck:
        task.cancel()
    await asyncio.wait(stuck)


async def test_a_deletion_waits_for_a_slow_stop(stand_in: StandIn, runtime: PodmanRuntime) -> None:
    workload = await runtime.create_workload(a_spec(), Extras())
    stand_in.script("rm", do="slow", seconds=1.0)
    await runtime.delete_workload(workload)
    assert stand_in.containers() == []
    assert stand_in.calls("rm") == [["rm", "--force", "--ignore", workload]]
    assert stand_in.calls("stop") == []
