"""Scenarios with the exact states that an agent reports, in order. `«T»` is «Triggered at runtime.»."""

import itertools
from typing import Any

import pytest

from ankaios.common.execution_state import (
    RUNNING_OK,
    STOPPING_REQUESTED_AT_RUNTIME,
    SUCCEEDED_OK,
    ExecutionState,
    exited,
)
from ankaios.common.workload import AddCondition, InstanceName, RestartPolicy, WorkloadSpec
from ankaios.runtimes.runtime_connector import RuntimeFailed
from tests.support.builders import a_workload
from tests.support.fake_runtime import FakeRuntime
from tests.unit.agent.harness import (
    NOT_PENDING_NOR_RUNNING,
    an_agent,
    server_hello,
    states_of_others,
    update_workload,
)

RUNNING, SUCCEEDED, FAILED, _ = AddCondition


def on(agent: str, name: str, config: str = "image: one", **more: Any) -> WorkloadSpec:
    return a_workload(name, agent, config=config, **more)


def ends(runtime: FakeRuntime, name: str, state: ExecutionState) -> None:
    runtime.set_state(runtime.named(name).id, state)


def of(reports: list[str], name: str) -> list[str]:
    return [line.split(" ", 1)[1] for line in reports if line.split(" ")[0].split("#")[0] == name]


async def test_a_chain_over_two_agents_starts_and_stops_in_order() -> None:
    """[utest->swdd~agent-manager-stores-all-workload-states~1]"""
    init, store = on("B", "init"), on("B", "store", dependencies={"init": SUCCEEDED})
    ui, alarm = on("A", "ui", dependencies={"store": RUNNING}), on("A", "alarm", dependencies={"store": FAILED})
    async with an_agent("A") as a:
        assert await a.handle(server_hello(ui, alarm)) == [
            "ui Pending(WaitingToStart)",
            "alarm Pending(WaitingToStart)",
        ]
        running = states_of_others((store.instance_name, RUNNING_OK))
        assert await a.handle(running) == ["ui Pending(Starting)«T»", "ui Running(Ok)"]
        failed = states_of_others((store.instance_name, exited(1)))
        assert await a.handle(failed) == ["alarm Pending(Starting)«T»", "alarm Running(Ok)"]
        assert await a.handle(update_workload(deleted={ui.instance_name: {}})) == [
            "ui Stopping(RequestedAtRuntime)",
            "ui Removed",
        ]
    async with an_agent("B") as b:
        assert await b.handle(server_hello(init, store)) == [
            "store Pending(WaitingToStart)",
            "init Pending(Starting)«T»",
            "init Running(Ok)",
        ]
        await b.handle(states_of_others((ui.instance_name, RUNNING_OK)))
        ends(b.podman, "init", SUCCEEDED_OK)
        assert await b.reports() == ["init Succeeded(Ok)", "store Pending(Starting)«T»", "store Running(Ok)"]
        delete = update_workload(deleted={store.instance_name: {"ui": NOT_PENDING_NOR_RUNNING}})
        assert await b.handle(delete) == ["store Stopping(WaitingToStop)"]
        stopping = states_of_others((ui.instance_name, STOPPING_REQUESTED_AT_RUNTIME))
        assert await b.handle(stopping) == ["store Stopping(RequestedAtRuntime)", "store Removed"]


async def test_an_update_waits_until_its_dependent_has_stopped() -> None:
    ui, api = on("A", "ui", dependencies={"api": RUNNING}), on("A", "api")
    api2 = on("A", "api", "image: two")
    async with an_agent() as a:
        await a.handle(server_hello(api, ui))
        update = update_workload((api2,), {api.instance_name: {"ui": NOT_PENDING_NOR_RUNNING}})
        assert await a.handle(update) == ["api Stopping(WaitingToStop)"]
        ends(a.podman, "api", exited(1))
        # states of the old container are not reported meanwhile
        assert await a.reports() == ["api Stopping(WaitingToStop)"]
        reports = await a.handle(update_workload(deleted={ui.instance_name: {}}))
        assert of(reports, "ui") == ["Stopping(RequestedAtRuntime)", "Removed"]
        assert [line for line in reports if line.startswith("api")] == [
            "api Stopping(RequestedAtRuntime)",
            "api Removed",
            "api#2 Pending(Starting)«T»",
            "api#2 Running(Ok)",
        ]


async def test_an_update_stops_the_old_instance_and_waits_for_its_dependencies() -> None:
    api, job = on("A", "api"), on("A", "job")
    job2 = on("A", "job", "image: two", dependencies={"api": SUCCEEDED})
    async with an_agent() as a:
        await a.handle(server_hello(api, job))
        ends(a.podman, "job", SUCCEEDED_OK)
        await a.reports()
        assert await a.handle(update_workload((job2,), {job.instance_name: {}})) == [
            "job#2 Pending(WaitingToStart)",
            "job Stopping(RequestedAtRuntime)",
            "job Removed",
        ]
        ends(a.podman, "api", SUCCEEDED_OK)
        assert await a.reports() == [
            "api Succeeded(Ok)",
            "job Stopping(RequestedAtRuntime)",
            "job Removed",
            "job#2 Pending(Starting)«T»",
            "job#2 Running(Ok)",
        ]


@pytest.mark.parametrize(
    ("policy", "end", "reports", "calls"),
    [
        (RestartPolicy.ALWAYS, SUCCEEDED_OK, ["Succeeded(Ok)", "Pending(Starting)«T»", "Running(Ok)"], ["create"]),
        *(
            (
                policy,
                exited(3),
                [
                    "Failed(ExecFailed)«Exit code: '3'»",
                    "Stopping(RequestedAtRuntime)",
                    "Removed",
                    "Pending(Starting)«T»",
                    "Running(Ok)",
                ],
                ["logs", "delete", "create"],
            )
            for policy in (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE)
        ),
        (RestartPolicy.ON_FAILURE, SUCCEEDED_OK, ["Succeeded(Ok)"], []),
        (RestartPolicy.NEVER, exited(3), ["Failed(ExecFailed)«Exit code: '3'»"], ["logs"]),
    ],
)
async def test_restart_policy(policy: RestartPolicy, end: ExecutionState, reports: list[str], calls: list[str]) -> None:
    async with an_agent() as a:
        await a.handle(server_hello(on("A", "web", restart_policy=policy)))
        first = a.podman.named("web").id
        a.podman.calls.clear()
        ends(a.podman, "web", end)
        assert of(await a.reports(), "web") == reports
        assert [call for call, _ in a.podman.calls if call != "check"] == calls
        assert (a.podman.named("web").id == first) == ("delete" not in calls)


@pytest.mark.parametrize("policy", list(RestartPolicy))
async def test_a_removed_container_is_created_again_only_with_policy_always(policy: RestartPolicy) -> None:
    async with an_agent() as a:
        await a.handle(server_hello(on("A", "web", restart_policy=policy)))
        a.podman.vanish(a.podman.named("web").id)
        reports = of(await a.reports(), "web")
        assert reports[0] == "Failed(Lost)"
        assert reports[1:] == (
            ["Stopping(RequestedAtRuntime)", "Removed", "Pending(Starting)«T»", "Running(Ok)"]
            if policy is RestartPolicy.ALWAYS
            else []
        )


async def test_retry_then_success() -> None:
    def broken(runtime: FakeRuntime) -> None:
        runtime.fail_next("create", RuntimeFailed("no image"), RuntimeFailed("port in use"))

    async with an_agent(prepare=broken) as a:
        assert await a.handle(server_hello(on("A", "web"))) == [
            "web Pending(Starting)«T»",
            "web Pending(Starting)«Retry 1: no image»",
            "web Pending(Starting)«Retry 2: port in use»",
            "web Running(Ok)",
        ]


async def test_a_delete_in_the_pause_before_a_retry_does_not_call_the_runtime() -> None:
    async with an_agent(prepare=_always_broken, chance=lambda: 1.0) as a:
        web = on("A", "web")
        await a.handle(server_hello(web))
        a.podman.calls.clear()
        assert await a.handle(update_workload(deleted={web.instance_name: {}})) == [
            "web Stopping(RequestedAtRuntime)",
            "web Removed",
        ]
        assert a.podman.calls == []


async def test_an_update_in_the_pause_before_a_retry_counts_from_one_again() -> None:
    async with an_agent(prepare=_always_broken, chance=lambda: 1.0) as a:
        web, web2 = on("A", "web"), on("A", "web", "image: two")
        await a.handle(server_hello(web))
        assert await a.handle(update_workload((web2,), {web.instance_name: {}})) == [
            "web Stopping(RequestedAtRuntime)",
            "web Removed",
            "web#2 Pending(Starting)«T»",
            "web#2 Pending(Starting)«Retry 1: no image»",
        ]


def _always_broken(runtime: FakeRuntime) -> None:
    runtime.fail_always["create"] = RuntimeFailed("no image")


async def test_after_an_agent_restart_all_workloads_are_found() -> None:
    """[utest->swdd~agent-initial-list-existing-workloads~1]"""
    a_, b, c, d = (on("A", name, restart_policy=RestartPolicy.ALWAYS) for name in "abcd")
    e = on("A", "e")

    def left_over(runtime: FakeRuntime) -> None:
        states = (a_, RUNNING_OK), (b, SUCCEEDED_OK), (c, exited(1)), (d, RUNNING_OK), (e, exited(3))
        for spec, state in states:
            runtime.add_existing(spec.instance_name, state)

    async with an_agent(prepare=left_over) as agent:
        ids = {name: agent.podman.named(name).id for name in "abcde"}
        (agent.folder.of(d.instance_name)).mkdir()
        reports = await agent.handle(server_hello(a_, b, c, e))
        assert of(reports, "a") == ["Running(Ok)"]
        assert of(reports, "b") == ["Pending(Starting)«T»", "Running(Ok)"]
        assert of(reports, "e") == ["Failed(ExecFailed)«Exit code: '3'»"]  # a finished job is not started again
        assert of(reports, "c")[-4:] == [
            "Stopping(RequestedAtRuntime)",
            "Removed",
            "Pending(Starting)«T»",
            "Running(Ok)",
        ]
        assert of(reports, "d") == ["Stopping(RequestedAtRuntime)", "Removed"]
        assert agent.podman.named("a").id == ids["a"]
        assert agent.podman.named("b").id == ids["b"]
        assert agent.podman.named("c").id != ids["c"]
        assert agent.podman.named("e").id == ids["e"]
        assert not agent.folder.of(d.instance_name).exists()


async def test_after_an_agent_restart_unmet_dependencies_delay_the_start() -> None:
    b, c = (on("A", name, dependencies={"x": RUNNING}, restart_policy=RestartPolicy.ALWAYS) for name in "bc")

    def left_over(runtime: FakeRuntime) -> None:
        runtime.add_existing(b.instance_name, SUCCEEDED_OK)
        runtime.add_existing(c.instance_name, exited(1))

    async with an_agent(prepare=left_over) as agent:
        reports = await agent.handle(server_hello(b, c))
        assert of(reports, "b") == ["Pending(WaitingToStart)"]
        # the old container has the same name, so its removal is not the last report
        assert of(reports, "c") == [
            "Pending(WaitingToStart)",
            "Stopping(RequestedAtRuntime)",
            "Removed",
            "Pending(WaitingToStart)",
        ]
        x = InstanceName("x", "1", "B")
        reports = await agent.handle(states_of_others((x, RUNNING_OK)))
        assert of(reports, "b") == ["Pending(Starting)«T»", "Running(Ok)"]
        assert agent.podman.named("b").starts == 2


async def test_a_clock_that_jumps_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent does not depend on the time of day."""
    jumps = itertools.cycle([0.0, 4e9, -1.0])
    monkeypatch.setattr("time.time", lambda: next(jumps))
    monkeypatch.setattr("time.time_ns", lambda: int(next(jumps)) * 10**9)
    await test_retry_then_success()
    await test_after_an_agent_restart_all_workloads_are_found()


async def test_plain_create_and_delete() -> None:
    """[utest->swdd~agent-deletes-workload~1]
    [utest->swdd~agent-added-creates-workload~1]
    """
    async with an_agent() as a:
        await a.handle(server_hello())
        web = on("A", "web")
        assert await a.handle(update_workload((web,))) == ["web Pending(Starting)«T»", "web Running(Ok)"]
        assert await a.handle(update_workload(deleted={web.instance_name: {}})) == [
            "web Stopping(RequestedAtRuntime)",
            "web Removed",
        ]
        assert a.podman.workloads == {}
