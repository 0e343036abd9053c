"""The scripts of the fake runtime; the contract tests cover its common behaviour."""

import asyncio

import pytest

from ankaios.common.execution_state import FAILED_LOST, RUNNING_OK, SUCCEEDED_OK, ExecutionState, exited
from ankaios.runtimes.runtime_connector import Extras, LogOptions, RuntimeFailed, Unsupported
from tests.support.builders import a_workload, an_instance
from tests.support.fake_runtime import FakeRuntime

SPEC = a_workload(runtime="fake")


async def test_errors_are_raised_in_order_and_then_it_works() -> None:
    runtime = FakeRuntime()
    runtime.fail_next("create", RuntimeFailed("one"), Unsupported("two"))
    with pytest.raises(RuntimeFailed, match="one"):
        await runtime.create_workload(SPEC, Extras())
    with pytest.raises(Unsupported, match="two"):
        await runtime.create_workload(SPEC, Extras())
    assert await runtime.create_workload(SPEC, Extras()) == "fake-1"
    assert [call for call, _ in runtime.calls] == ["create"] * 3


async def test_a_failed_start_removes_the_container_to_be_reused() -> None:
    runtime = FakeRuntime()
    workload = await runtime.create_workload(SPEC, Extras())
    runtime.fail_next("create", RuntimeFailed("no"))
    with pytest.raises(RuntimeFailed):
        await runtime.create_workload(SPEC, Extras(reuse=workload))
    assert await runtime.workload_id(SPEC.instance_name) is None


async def test_a_call_fails_until_the_script_is_removed() -> None:
    runtime = FakeRuntime()
    runtime.fail_always["existing"] = RuntimeFailed("broken")
    for _ in range(2):
        with pytest.raises(RuntimeFailed):
            await runtime.existing_workloads("agent_A")
    del runtime.fail_always["existing"]
    assert await runtime.existing_workloads("agent_A") == []


async def test_a_held_call_hangs_until_it_is_released() -> None:
    runtime = FakeRuntime()
    runtime.hold("delete")
    deleting = asyncio.create_task(runtime.delete_workload("fake-1"))
    await asyncio.sleep(0)
    assert not deleting.done()
    runtime.release("delete")
    runtime.release("delete")
    await deleting


async def test_states_wrong_states_and_losses_are_reported() -> None:
    runtime = FakeRuntime()
    workload = runtime.add_existing(an_instance(), exited(1))
    reported: list[ExecutionState] = []
    checker = runtime.start_checker(SPEC, workload.id, reported.append)
    other = runtime.start_checker(a_workload("other"), "other", lambda _: None)
    await asyncio.sleep(0)
    runtime.set_state(workload.id, RUNNING_OK)
    runtime.set_state(workload.id, RUNNING_OK)
    runtime.report_wrong_state(workload.id, SUCCEEDED_OK)
    runtime.vanish(workload.id)
    checker.stop()
    checker.stop()
    other.stop()
    assert reported == [exited(1), RUNNING_OK, SUCCEEDED_OK, FAILED_LOST]
    assert runtime.checkers == []


async def test_a_checker_that_is_stopped_immediately_reports_nothing() -> None:
    runtime = FakeRuntime()
    reported: list[ExecutionState] = []
    runtime.start_checker(SPEC, "x", reported.append).stop()
    await asyncio.sleep(0)
    assert reported == []


async def test_only_what_exists_can_be_started_again() -> None:
    runtime = FakeRuntime()
    with pytest.raises(RuntimeFailed, match="no such workload"):
        await runtime.create_workload(SPEC, Extras(reuse="gone"))
    found = runtime.add_existing(SPEC.instance_name, SUCCEEDED_OK)
    assert await runtime.create_workload(SPEC, Extras(reuse=found.id)) == found.id
    assert (runtime.named("web").starts, runtime.named("web").state) == (2, RUNNING_OK)


async def test_a_runtime_without_logs_raises_unsupported() -> None:
    runtime = FakeRuntime()
    runtime.has_logs = False
    with pytest.raises(Unsupported):
        await anext(aiter(runtime.logs("x", LogOptions())))


async def test_closing_is_recorded() -> None:
    runtime = FakeRuntime()
    await runtime.close()
    assert runtime.closed
