"""The monitor performs checks concurrently and tolerates all their failures."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from ankaios.agent import health_monitor
from ankaios.agent.core.health import HealthResult, check_kind
from ankaios.agent.health_monitor import HealthMonitor
from ankaios.agent.metrics import AgentMetrics
from ankaios.agent.namespace_sockets import NamespaceSockets
from ankaios.common.execution_state import HealthState
from ankaios.common.health import ExecCheck, FileCheck, Health, HttpCheck, NotifyCheck, TcpCheck
from ankaios.common.supervision import Supervisor
from ankaios.runtimes.runtime_connector import CommandResult, RuntimeFailed, Unsupported
from tests.support.builders import a_workload
from tests.support.fake_runtime import FakeRuntime

EXEC = ExecCheck(command=("check",), interval="100ms", failures=1)


@asynccontextmanager
async def a_monitor(
    runtime: FakeRuntime, health: Health, checked: Callable[[str, bool], None] = lambda check, succeeded: None
) -> AsyncIterator[tuple[HealthMonitor, list[HealthState], Callable[[str], Awaitable[HealthState]]]]:
    reported: list[HealthState] = []

    async def until(status: str) -> HealthState:
        async with asyncio.timeout(10):
            while not reported or reported[-1].status != status:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return reported[-1]

    async with Supervisor() as tasks:
        monitor = HealthMonitor(
            a_workload(health=health), "c1", runtime, NamespaceSockets(), None, tasks, reported.append, checked
        )
        try:
            yield monitor, reported, until
        finally:
            monitor.stop()


async def test_each_change_of_the_health_is_reported_once() -> None:
    runtime = FakeRuntime()
    runtime.check_results = [CommandResult(0), CommandResult(0), CommandResult(7, "broken"), CommandResult(0)]
    async with a_monitor(runtime, Health(exec=EXEC)) as (_, reported, until):
        await until("Unhealthy")
        await until("Healthy")
    assert [(state.status, state.text) for state in reported] == [
        ("Healthy", ""),
        ("Unhealthy", "exec check 'check' failed once: exit code 7: broken"),
        ("Healthy", ""),
    ]


@pytest.mark.parametrize("error", [RuntimeFailed("podman hangs"), ValueError("a bug")])
async def test_a_runtime_that_fails_fails_the_check_and_nothing_else(error: Exception) -> None:
    runtime = FakeRuntime()
    runtime.fail_next("run_check", error)
    async with a_monitor(runtime, Health(exec=EXEC)) as (_, _, until):
        failed = await until("Unhealthy")
        assert str(error) in failed.text
        await until("Healthy")


async def test_a_check_that_hangs_is_not_started_again_and_ends_with_the_monitor() -> None:
    runtime = FakeRuntime()
    runtime.hold("run_check")
    async with a_monitor(runtime, Health(exec=EXEC, notify=NotifyCheck())) as (monitor, _, until):
        async with asyncio.timeout(10):
            while not runtime.calls:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        monitor.notified(HealthResult("the workload reports: stuck"))
        monitor.notified(HealthResult("the workload reports: stuck"))
        monitor.notified(HealthResult("the workload reports: stuck"))
        failed = await until("Unhealthy")
        assert failed.text == "notify check failed 3 times: the workload reports: stuck"
    assert [call for call, _ in runtime.calls] == ["run_check"]


async def test_an_image_without_check_is_reported_and_never_healthy() -> None:
    runtime = FakeRuntime()
    async with a_monitor(runtime, Health(image=True)) as (_, _, until):
        assert (await until("Starting")).text == "the image has no HEALTHCHECK"


async def test_the_check_of_an_image_is_used() -> None:
    runtime = FakeRuntime()
    runtime.image_healthcheck = EXEC
    async with a_monitor(runtime, Health(image=True)) as (_, _, until):
        await until("Healthy")


async def test_a_runtime_without_images_is_reported() -> None:
    runtime = FakeRuntime()
    runtime.fail_next("image_check", Unsupported("no image"))
    async with a_monitor(runtime, Health(image=True)) as (_, _, until):
        assert (await until("Starting")).text == "no image"


async def test_each_finished_check_is_reported_with_its_kind_and_result() -> None:
    runtime = FakeRuntime()
    runtime.check_results = [CommandResult(0), CommandResult(7, "broken"), CommandResult(0)]
    metrics = AgentMetrics()
    async with a_monitor(runtime, Health(exec=EXEC), metrics.health_checked) as (_, _, until):
        await until("Unhealthy")
        await until("Healthy")
    assert metrics.health_checks.values["exec", "ok"] >= 2
    assert metrics.health_checks.values["exec", "failed"] == 1


def test_the_kind_of_a_check_is_its_key_in_the_manifest() -> None:
    checks = (ExecCheck(), HttpCheck(), TcpCheck(), FileCheck(), NotifyCheck())
    assert [check_kind(check) for check in checks] == ["exec", "http", "tcp", "file", "notify"]


async def test_a_notification_that_arrives_while_the_checks_are_prepared_counts() -> None:
    async with a_monitor(FakeRuntime(), Health(notify=NotifyCheck(interval="1h"))) as (monitor, _, until):
        monitor.notified(HealthResult())
        await until("Healthy")


async def test_a_health_that_changes_all_the_time_is_reported_once_in_each_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health_monitor, "IMMEDIATE_REPORTS", 3)
    monkeypatch.setattr(health_monitor, "REPORT_PERIOD", 0.2)
    notify = Health(notify=NotifyCheck(interval="1h", failures=1))
    async with a_monitor(FakeRuntime(), notify) as (monitor, reported, until):
        monitor.notified(HealthResult())
        await until("Healthy")
        for _ in range(100):
            monitor.notified(HealthResult("stuck"))
            monitor.notified(HealthResult())
        monitor.notified(HealthResult("stuck at last"))
        assert [state.status for state in reported] == ["Healthy", "Unhealthy", "Healthy"]
        assert (await until("Unhealthy")).text.endswith("stuck at last")
        assert len(reported) == 4
