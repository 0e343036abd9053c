"""An update whose new instance starts first: what the agent reports, in order, and what runs meanwhile."""

from typing import Any

from ankaios.common.execution_state import RUNNING_OK, exited
from ankaios.common.workload import AddCondition, UpdateStrategy, WorkloadSpec
from ankaios.runtimes.runtime_connector import Unsupported
from tests.support.builders import a_workload
from tests.unit.agent.harness import NOT_PENDING_NOR_RUNNING, an_agent, server_hello, states_of_others, update_workload

FIRST = UpdateStrategy(start_new_first=True)


def web(config: str = "image: one", **more: Any) -> WorkloadSpec:
    return a_workload("web", "A", config=config, update_strategy=FIRST, **more)


async def test_the_old_instance_is_removed_when_the_new_one_runs() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(old := web()))
        assert await a.handle(update_workload((web("image: two"),), {old.instance_name: {}})) == [
            "web#2 Pending(Starting)«T»",
            "web#2 Running(Ok)",
            "web Stopping(RequestedAtRuntime)",
            "web Removed",
        ]
        assert [call for call, _ in a.podman.calls if call in ("create", "delete")] == ["create", "create", "delete"]


async def test_the_old_instance_continues_while_the_new_one_cannot_start() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(old := web()))
        a.podman.fail_next("create", Unsupported("bad image"))
        reports = await a.handle(update_workload((web("image: two"),), {old.instance_name: {}}))
        assert reports == ["web#2 Pending(Starting)«T»", "web#2 Pending(StartingFailed)«bad image»"]
        assert a.podman.named("web").state == RUNNING_OK


async def test_an_update_back_to_the_running_instance_only_deletes_the_new_one() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(old := web()))
        first = a.podman.named("web").id
        a.podman.fail_next("create", Unsupported("bad image"))
        new = web("image: two")
        await a.handle(update_workload((new,), {old.instance_name: {}}))
        reports = await a.handle(update_workload((old,), {new.instance_name: {}}))
        assert "web#2 Removed" in reports
        assert reports.count("web Running(Ok)") == 1
        assert not any(line.startswith("web Stopping") for line in reports)
        assert a.podman.named("web").id == first


async def test_dependents_of_the_old_instance_need_not_stop() -> None:
    user = a_workload("user", "A", dependencies={"web": AddCondition.ADD_COND_RUNNING})
    async with an_agent() as a:
        await a.handle(server_hello(old := web(), user))
        conditions = {old.instance_name: {"user": NOT_PENDING_NOR_RUNNING}}
        reports = await a.handle(update_workload((web("image: two"),), conditions))
        assert "web#2 Running(Ok)" in reports
        assert "web Removed" in reports


async def test_the_old_instance_continues_while_the_new_one_waits_for_a_dependency() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(old := web()))
        new = web("image: two", dependencies={"db": AddCondition.ADD_COND_RUNNING})
        reports = await a.handle(update_workload((new,), {old.instance_name: {}}))
        assert reports == ["web#2 Pending(WaitingToStart)"]
        db = a_workload("db", "B").instance_name
        reports = await a.handle(states_of_others((db, RUNNING_OK)))
        assert reports[-2:] == ["web Stopping(RequestedAtRuntime)", "web Removed"]


async def test_a_deletion_ends_both_instances() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(old := web()))
        a.podman.fail_next("create", Unsupported("bad image"))
        new = web("image: two")
        await a.handle(update_workload((new,), {old.instance_name: {}}))
        reports = await a.handle(update_workload((), {new.instance_name: {}}))
        assert {"web Removed", "web#2 Removed"} <= set(reports)


async def test_a_newer_update_replaces_one_that_is_not_ready() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(old := web()))
        a.podman.fail_next("create", Unsupported("bad image"))
        bad = web("image: two")
        await a.handle(update_workload((bad,), {old.instance_name: {}}))
        reports = await a.handle(update_workload((web("image: three"),), {bad.instance_name: {}}))
        assert "web#3 Running(Ok)" in reports
        assert {"web Removed", "web#2 Removed"} <= set(reports)
        assert not [line for line in reports if exited(1).state in line]
