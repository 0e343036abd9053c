"""Calls of a runtime are counted, without an effect on the runtime."""

import pytest

from ankaios.agent.measured_connector import MeasuredConnector
from ankaios.agent.metrics import AgentMetrics
from ankaios.common.execution_state import ExecutionState, exited
from ankaios.runtimes.runtime_connector import Extras, RuntimeFailed
from tests.support.builders import a_workload
from tests.support.fake_runtime import FakeRuntime

WEB = a_workload("web", "A", runtime="fake")


async def test_calls_are_counted_by_result() -> None:
    runtime, metrics = FakeRuntime(), AgentMetrics()
    connector = MeasuredConnector(runtime, metrics)
    workload = await connector.create_workload(WEB, Extras())
    assert await connector.workload_id(WEB.instance_name) == workload
    assert [found.id for found in await connector.existing_workloads("A")] == [workload]
    await connector.delete_workload(workload)
    runtime.fail_next("create", RuntimeFailed("no"))
    with pytest.raises(RuntimeFailed):
        await connector.create_workload(WEB, Extras())
    calls = {labels[1:]: count for labels, count in metrics.runtime_calls.values.items()}
    assert calls == {
        ("create", "ok"): 1,
        ("find", "ok"): 1,
        ("list", "ok"): 1,
        ("delete", "ok"): 1,
        ("create", "failed"): 1,
    }


async def test_the_time_of_an_exit_is_recorded() -> None:
    runtime, metrics = FakeRuntime(), AgentMetrics()
    connector = MeasuredConnector(runtime, metrics)
    workload = await connector.create_workload(WEB, Extras())
    seen: list[ExecutionState] = []
    checker = connector.start_checker(WEB, workload, seen.append)
    runtime.checkers[0].report(exited(1))
    checker.stop()
    assert seen == [exited(1)]
    assert metrics._instances[WEB.instance_name].exit_seen is not None
