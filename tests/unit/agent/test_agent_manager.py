"""How an agent handles messages of the server, with and without failures."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ankaios.agent import listings
from ankaios.agent.server_link import LINK_CAPACITY, Connected, LinkChannel
from ankaios.common.device_grant import DeviceGrant
from ankaios.common.execution_state import (
    FAILED_LOST,
    RUNNING_OK,
    STOPPING,
    SUCCEEDED_OK,
    exited,
)
from ankaios.common.pb.ank_base_pb2 import (
    CompleteStateResponse,
    ExecutionState,
    LogEntriesResponse,
    Response,
    WorkloadState,
)
from ankaios.common.pb.grpc_api_pb2 import AddedWorkload, FromServer, ServerHello, UpdateWorkload, UpdateWorkloadState
from ankaios.common.workload import (
    AddCondition,
    ControlInterfaceAccess,
    File,
    InstanceName,
    Operation,
    ResourceRequest,
    RestartPolicy,
    StateRule,
    WorkloadSpec,
)
from ankaios.runtimes.runtime_connector import RuntimeFailed
from tests.support.builders import a_workload, added_workload_to_pb
from tests.support.fake_runtime import FakeRuntime
from tests.unit.agent.fake_devices import FakeDevices
from tests.unit.agent.harness import (
    NOT_PENDING_NOR_RUNNING,
    an_agent,
    server_hello,
    states_of_others,
    update_workload,
)
from tests.unit.agent.pipes import Pipes

RUNNING = AddCondition.ADD_COND_RUNNING
MAY_READ = ControlInterfaceAccess((StateRule(Operation.READ, ("desiredState",)),))
REQ, REMOVED, STARTING = "Stopping(RequestedAtRuntime)", "Removed", "Pending(Starting)«T»"


def web(config: str = "image: one", **more: Any) -> WorkloadSpec:
    return a_workload("web", "A", config=config, **more)


WEB, WEB2 = web(), web("image: two")


# -- the hello


async def test_a_short_loss_of_the_connection_changes_no_workload() -> None:
    """The states, which the server has lost, are reported again; no second task, checker or container exists."""
    done = a_workload("done", "A", restart_policy=RestartPolicy.NEVER)
    async with an_agent() as a:
        await a.handle(server_hello(WEB, done))
        a.podman.set_state(a.podman.named("done").id, SUCCEEDED_OK)
        await a.reports()
        before = list(a.podman.calls)
        for _ in range(3):
            a.disconnect()
            a.connect()
            assert await a.handle(server_hello(WEB, done)) == ["web Running(Ok)", "done Succeeded(Ok)"]
        assert [call for call in a.podman.calls[len(before) :] if call[0] != "existing"] == []
        assert len(a.podman.checkers) == 2


async def test_after_a_long_disconnection_the_agent_applies_the_new_state_of_the_server() -> None:
    """[utest->swdd~podman-workload-sends-workload-state~1]
    [utest->swdd~podman-adapter-request-stopping-container~2]
    """
    old, kept, new = (a_workload(name, "A") for name in ("old", "kept", "new"))
    async with an_agent() as a:
        await a.handle(server_hello(old, kept, WEB))
        a.disconnect()
        a.podman.set_state(a.podman.named("kept").id, exited(2))
        await asyncio.sleep(0)
        a.connect()
        reports = await a.handle(server_hello(kept, WEB2, new))
        assert sorted(reports) == sorted(
            [
                "kept Failed(ExecFailed)«Exit code: '2'»",
                "kept Failed(ExecFailed)«Exit code: '2'»",
                f"old {REQ}",
                f"old {REMOVED}",
                f"web {REQ}",
                f"web {REMOVED}",
                f"web#2 {STARTING}",
                "web#2 Running(Ok)",
                f"new {STARTING}",
                "new Running(Ok)",
            ]
        )
        assert sorted(each.instance_name.workload for each in a.podman.workloads.values()) == ["kept", "new", "web"]


async def test_a_workload_that_retries_continues_after_a_reconnect() -> None:
    def broken(runtime: FakeRuntime) -> None:
        runtime.fail_always["create"] = RuntimeFailed("no image")

    async with an_agent(prepare=broken, chance=lambda: 1.0) as a:
        await a.handle(server_hello(WEB))
        assert await a.handle(server_hello(WEB)) == ["web Pending(Starting)«Retry 1: no image»"]
        assert [call for call, _ in a.podman.calls] == ["existing", "create", "existing"]


async def test_states_of_other_agents_are_deleted_before_each_new_session() -> None:
    waits = web(dependencies={"db": RUNNING})
    db = InstanceName("db", "1", "B")
    async with an_agent() as a:
        await a.handle(states_of_others((db, RUNNING_OK)), server_hello())
        a.disconnect()
        a.connect()
        # db was removed while the agent was disconnected, so the new hello does not contain it
        assert await a.handle(server_hello(waits)) == ["web Pending(WaitingToStart)"]
        assert await a.handle(states_of_others((db, RUNNING_OK))) == [f"web {STARTING}", "web Running(Ok)"]


async def test_a_stop_that_waits_for_another_agent_still_waits_after_a_reconnect() -> None:
    ui = InstanceName("ui", "1", "B")
    async with an_agent() as a:
        await a.handle(states_of_others((ui, RUNNING_OK)), server_hello(WEB))
        waits = update_workload(deleted={WEB.instance_name: {"ui": NOT_PENDING_NOR_RUNNING}})
        assert await a.handle(waits) == ["web Stopping(WaitingToStop)"]
        a.disconnect()
        a.connect()
        assert await a.handle(states_of_others((ui, RUNNING_OK))) == []
        # a server that lists the workload (again) cancels the stop
        assert await a.handle(server_hello(WEB)) == ["web Running(Ok)"]
        assert await a.handle(states_of_others((ui, STOPPING))) == []
        assert len(a.podman.workloads) == 1


async def test_a_waiting_create_that_is_no_longer_desired_never_starts() -> None:
    waits = web(dependencies={"db": RUNNING})
    async with an_agent() as a:
        await a.handle(server_hello(waits))
        assert await a.handle(server_hello(waits)) == ["web Pending(WaitingToStart)"]
        assert await a.handle(server_hello()) == [f"web {REMOVED}"]
        assert await a.handle(states_of_others((InstanceName("db", "1", "B"), RUNNING_OK))) == []
        assert a.podman.workloads == {}


async def test_a_finished_container_is_kept_while_its_workload_waits_and_deleted_with_it() -> None:
    waits = web(dependencies={"db": RUNNING}, restart_policy=RestartPolicy.ALWAYS)

    def left_over(runtime: FakeRuntime) -> None:
        runtime.add_existing(waits.instance_name, SUCCEEDED_OK)

    async with an_agent(prepare=left_over) as a:
        assert await a.handle(server_hello(waits)) == ["web Pending(WaitingToStart)"]
        assert await a.handle(server_hello(waits)) == ["web Pending(WaitingToStart)"]
        assert len(a.podman.workloads) == 1
        assert await a.handle(update_workload(deleted={waits.instance_name: {}})) == [
            f"web {REQ}",
            f"web {REMOVED}",
        ]
        assert a.podman.workloads == {}


async def test_a_runtime_that_cannot_list_is_retried_and_delays_no_other_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ankaios.agent.listings.FIRST_PAUSE", 0.0)

    def broken(runtime: FakeRuntime) -> None:
        runtime.fail_next("existing", RuntimeFailed("podman sleeps"), RuntimeFailed("podman sleeps"))
        runtime.add_existing(WEB.instance_name)

    pod = a_workload("pod", "A", runtime="podman-kube")
    async with an_agent(runtimes=("podman", "podman-kube"), prepare=broken) as a:
        reports = await a.handle(server_hello(WEB, pod))
        assert [line for line in reports if line.startswith("pod")] == [f"pod {STARTING}", "pod Running(Ok)"]
        assert [line for line in reports if line.startswith("web")] == [
            "web Pending(Starting)«Retry 1: podman sleeps»",
            "web Pending(Starting)«Retry 2: podman sleeps»",
            "web Running(Ok)",
        ]
        assert [call for call, _ in a.podman.calls if call != "check"] == ["existing"] * 3


async def test_a_runtime_that_hangs_delays_only_its_own_workloads() -> None:
    pod = a_workload("pod", "A", runtime="podman-kube")
    async with an_agent(runtimes=("podman", "podman-kube")) as a:
        a.podman.hold("existing")
        assert await a.handle(server_hello(WEB, pod)) == [f"pod {STARTING}", "pod Running(Ok)"]
        late = a_workload("late", "A")
        assert await a.handle(update_workload((late,), {WEB.instance_name: {}})) == [f"web {REMOVED}"]
        a.podman.release("existing")
        assert await a.reports() == [f"late {STARTING}", "late Running(Ok)"]


async def test_a_runtime_that_hangs_is_reported_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.agent.workload_task.SLOW_START", 0.01)
    monkeypatch.setattr("ankaios.agent.workload_task.SLOW_STOP", 0.02)
    async with an_agent() as a:
        a.podman.hold("create")
        await a.handle(server_hello(WEB))
        await a.until(lambda: len(a.outbox._queue))
        why = "The runtime 'podman' has not started it within 0.01 s, waiting for it"
        assert await a.reports() == [f"web Pending(Starting)«{why}»"]
        a.podman.release("create")
        assert await a.reports() == ["web Running(Ok)"]
        a.podman.hold("delete")
        assert await a.handle(update_workload(deleted={WEB.instance_name: {}})) == [f"web {REQ}"]
        await a.until(lambda: len(a.outbox._queue))
        why = "The runtime 'podman' has not deleted it within 0.02 s, waiting for it"
        assert await a.reports() == [f"web {REQ}«{why}»"]
        a.podman.release("delete")
        assert await a.reports() == [f"web {REMOVED}"]


async def test_of_two_containers_of_one_workload_the_one_of_the_instance_is_kept() -> None:
    def both(runtime: FakeRuntime) -> None:
        runtime.add_existing(WEB.instance_name)
        runtime.add_existing(WEB2.instance_name)

    async with an_agent(prepare=both) as a:
        new = a.podman.named("web").id
        assert sorted(await a.handle(server_hello(WEB2))) == [
            f"web {REMOVED}",
            f"web {REQ}",
            "web#2 Running(Ok)",
        ]
        assert list(a.podman.workloads) == [new]


async def test_an_unneeded_workload_that_cannot_be_deleted_is_reported_and_can_be_needed_later() -> None:
    """[utest->swdd~agent-delete-old-workload~1]"""

    def stuck(runtime: FakeRuntime) -> None:
        runtime.add_existing(WEB.instance_name)
        runtime.fail_next("delete", RuntimeFailed("busy"))

    async with an_agent(prepare=stuck, chance=lambda: 1.0) as a:
        assert await a.handle(server_hello()) == [f"web {REQ}", "web Stopping(DeleteFailed)«busy»"]
        assert await a.handle(server_hello()) == [f"web {REQ}", f"web {REMOVED}"]
    async with an_agent(prepare=stuck, chance=lambda: 1.0) as a:
        await a.handle(server_hello())
        assert await a.handle(update_workload((WEB,))) == [f"web {STARTING}", "web Running(Ok)"]
        assert [call for call in a.podman.calls if call[0] == "delete"] == [("delete", a.podman.calls[1][1])]


async def test_an_unneeded_workload_that_cannot_be_deleted_is_tried_again() -> None:
    def stuck(runtime: FakeRuntime) -> None:
        runtime.add_existing(WEB.instance_name)
        for _ in range(3):
            runtime.fail_next("delete", RuntimeFailed("busy"))

    async with an_agent(prepare=stuck) as a:
        failed = ["web Stopping(DeleteFailed)«busy»"] * 3
        assert await a.handle(server_hello()) == [f"web {REQ}", *failed, f"web {REMOVED}"]


async def test_a_create_waits_until_an_unneeded_container_of_the_same_name_is_deleted() -> None:
    def left_over(runtime: FakeRuntime) -> None:
        runtime.add_existing(WEB.instance_name)

    async with an_agent(prepare=left_over) as a:
        a.podman.hold("delete")
        assert await a.handle(server_hello()) == [f"web {REQ}"]
        assert await a.handle(update_workload((WEB,))) == []
        assert await a.handle(server_hello(WEB)) == []
        a.podman.release("delete")
        assert await a.reports() == [f"web {REMOVED}", f"web {STARTING}", "web Running(Ok)"]


async def test_the_same_workload_in_another_runtime_is_deleted_without_a_report() -> None:
    moved = replace(WEB, runtime="containerd")

    def left_over(runtime: FakeRuntime) -> None:
        runtime.add_existing(WEB.instance_name)

    async with an_agent(runtimes=("podman", "containerd"), prepare=left_over) as a:
        a.podman.hold("existing")
        assert await a.handle(server_hello(moved)) == [f"web {STARTING}", "web Running(Ok)"]
        a.podman.release("existing")
        await a.until(lambda: a.podman.workloads == {})
        assert await a.reports() == []
        assert len(a.runtimes["containerd"].workloads) == 1


async def test_a_runtime_that_no_workload_waits_for_is_listed_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listings, "POSTPONEMENT", 3600.0)
    other = a_workload("other", "A", runtime="containerd")
    async with an_agent(runtimes=("podman", "containerd")) as a:
        assert await a.handle(server_hello(WEB)) == [f"web {STARTING}", "web Running(Ok)"]
        assert a.runtimes["containerd"].calls == []
        assert await a.handle(update_workload((other,))) == [f"other {STARTING}", "other Running(Ok)"]
        assert a.runtimes["containerd"].calls[0] == ("existing", "A")


# -- updates


async def test_an_update_of_an_unknown_workload_creates_it() -> None:
    """[utest->swdd~agent-add-on-update-missing-workload~1]"""
    async with an_agent() as a:
        await a.handle(server_hello())
        assert await a.handle(update_workload((WEB2,), {WEB.instance_name: {}})) == [
            f"web {REMOVED}",
            f"web#2 {STARTING}",
            "web#2 Running(Ok)",
        ]


async def test_a_delete_of_an_unknown_workload_is_answered() -> None:
    async with an_agent() as a:
        await a.handle(server_hello())
        assert await a.handle(update_workload(deleted={WEB.instance_name: {}})) == [f"web {REMOVED}"]


async def test_adding_a_known_workload_updates_it() -> None:
    """[utest->swdd~agent-update-on-add-known-workload~1]
    [utest->swdd~agent-stores-running-workload~1]
    """
    async with an_agent() as a:
        await a.handle(server_hello(WEB))
        assert await a.handle(update_workload((WEB2,))) == [
            f"web {REQ}",
            f"web {REMOVED}",
            f"web#2 {STARTING}",
            "web#2 Running(Ok)",
        ]


async def test_a_workload_that_is_deleted_and_added_again_waits_for_its_own_end() -> None:
    spec = web(files=(File("/etc/web.conf", data="x"),), access=MAY_READ)
    async with an_agent() as a:
        await a.handle(server_hello())
        a.manager.handle(update_workload((spec,)))
        await a.until(lambda: a.podman.checkers)
        assert await a.reports() == [f"web {STARTING}", "web Running(Ok)"]
        a.podman.hold("delete")
        assert await a.handle(update_workload(deleted={spec.instance_name: {}})) == [f"web {REQ}"]
        assert await a.handle(update_workload((spec,))) == []
        a.podman.release("delete")
        a.podman.calls.clear()
        await a.until(lambda: a.podman.checkers and ("create", str(spec.instance_name)) in a.podman.calls)
        assert await a.reports() == [f"web {REMOVED}", f"web {STARTING}", "web Running(Ok)"]
        folder = a.folder.of(spec.instance_name)
        assert (folder / "files/etc/web.conf").exists()
        assert (folder / "control_interface/input").is_fifo()


async def test_a_failed_delete_can_be_requested_again() -> None:
    always = web(restart_policy=RestartPolicy.ALWAYS)
    async with an_agent(chance=lambda: 1.0) as a:
        await a.handle(server_hello(always))
        a.podman.fail_next("delete", RuntimeFailed("busy"))
        delete = update_workload(deleted={WEB.instance_name: {}})
        assert await a.handle(delete) == [f"web {REQ}", "web Stopping(DeleteFailed)«busy»"]
        a.podman.set_state(a.podman.named("web").id, exited(1))
        assert await a.reports() == ["web Failed(ExecFailed)«Exit code: '1'»"]
        assert await a.handle(delete) == [f"web {REQ}", f"web {REMOVED}"]
        assert a.podman.workloads == {}


async def test_failed_deletes_are_retried_until_the_runtime_recovers() -> None:
    """For each aim of a delete: removal, successor and restart."""
    failed = "Stopping(DeleteFailed)«busy»"
    async with an_agent() as a:
        await a.handle(server_hello(WEB))
        for _ in range(2):
            a.podman.fail_next("delete", RuntimeFailed("busy"))
        reports = await a.handle(update_workload((WEB2,), {WEB.instance_name: {}}))
        assert reports == [
            f"web {REQ}", f"web {failed}", f"web {failed}", f"web {REMOVED}", f"web#2 {STARTING}", "web#2 Running(Ok)",
        ]  # fmt: skip
        a.podman.fail_next("delete", RuntimeFailed("busy"))
        reports = await a.handle(update_workload(deleted={WEB2.instance_name: {}}))
        assert reports == [f"web#2 {REQ}", f"web#2 {failed}", f"web#2 {REMOVED}"]
        again = web(restart_policy=RestartPolicy.ON_FAILURE)
        await a.handle(update_workload((again,)))
        a.podman.fail_next("delete", RuntimeFailed("busy"))
        a.podman.set_state(a.podman.named("web").id, exited(1))
        reports = await a.reports()
        assert reports[1:] == [f"web {REQ}", f"web {failed}", f"web {REMOVED}", f"web {STARTING}", "web Running(Ok)"]
        assert len(a.podman.workloads) == 1


async def test_an_update_whose_delete_fails_keeps_the_old_workload_and_can_be_repeated() -> None:
    async with an_agent(chance=lambda: 1.0) as a:
        await a.handle(server_hello(WEB))
        a.podman.fail_next("delete", RuntimeFailed("busy"))
        update = update_workload((WEB2,), {WEB.instance_name: {}})
        assert await a.handle(update) == [f"web {REQ}", "web Stopping(DeleteFailed)«busy»"]
        # the server names the new instance; its delete applies to the existing one
        assert sorted(await a.handle(update_workload(deleted={WEB2.instance_name: {}}))) == [
            f"web {REMOVED}",
            f"web {REQ}",
            f"web#2 {REMOVED}",
        ]
        assert a.podman.workloads == {}


async def test_of_updates_that_arrive_while_a_workload_is_busy_the_last_one_is_performed() -> None:
    three = web("image: three")
    async with an_agent() as a:
        await a.handle(server_hello())
        a.podman.hold("create")
        assert await a.handle(update_workload((WEB,))) == [f"web {STARTING}"]
        await a.handle(update_workload((WEB2,), {WEB.instance_name: {}}))
        assert await a.handle(update_workload((three,), {WEB2.instance_name: {}})) == [f"web#2 {REMOVED}"]
        a.podman.release("create")
        assert await a.reports() == [f"web {REQ}", f"web {REMOVED}", f"web#3 {STARTING}", "web#3 Running(Ok)"]


async def test_one_busy_workload_does_not_delay_another() -> None:
    db = a_workload("db", "A")
    async with an_agent() as a:
        await a.handle(server_hello(WEB))
        a.podman.hold("delete")
        assert await a.handle(update_workload(deleted={WEB.instance_name: {}})) == [f"web {REQ}"]
        a.podman.set_state(a.podman.named("web").id, exited(143))
        assert await a.reports() == []  # nothing is reported between "stopping" and "removed"
        assert await a.handle(update_workload((db,))) == ["db Pending(Starting)«T»", "db Running(Ok)"]
        a.podman.release("delete")
        assert await a.reports() == [f"web {REMOVED}"]


async def test_a_removal_seen_by_an_earlier_checker_is_ignored() -> None:
    spec = web(restart_policy=RestartPolicy.ALWAYS)
    async with an_agent() as a:
        await a.handle(server_hello(spec))
        a.podman.hold("delete")
        tagged = replace(spec, tags={"a": "b"})
        await a.handle(update_workload((tagged,), {spec.instance_name: {}}))
        old = a.podman.named("web").id
        for state in (STOPPING, exited(137), FAILED_LOST):
            a.podman.report_wrong_state(old, state)
        a.podman.release("delete")
        assert await a.reports() == [f"web {REMOVED}", f"web {STARTING}", "web Running(Ok)"]


async def test_a_workload_stopped_for_its_successor_can_be_deleted_and_updated() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(WEB))
        second, third = (web(f"image: {number}", dependencies={"db": RUNNING}) for number in (2, 3))
        await a.handle(update_workload((second,), {WEB.instance_name: {}}))
        assert await a.handle(update_workload((third,), {second.instance_name: {}})) == [
            f"web#2 {REMOVED}",
            "web#3 Pending(WaitingToStart)",
        ]
        assert await a.handle(update_workload(deleted={third.instance_name: {}})) == [f"web#3 {REMOVED}"]
        db = InstanceName("db", "1", "B")
        assert await a.handle(states_of_others((db, RUNNING_OK))) == []
        assert await a.handle(update_workload((WEB,))) == [f"web {STARTING}", "web Running(Ok)"]


async def test_many_workloads_can_wait_at_the_same_time() -> None:
    waiting = [a_workload(f"w{number}", "A", dependencies={"db": RUNNING}) for number in range(200)]
    async with an_agent() as a:
        assert len(await a.handle(server_hello(*waiting))) == 200
        reports = await a.handle(states_of_others((InstanceName("db", "1", "B"), RUNNING_OK)))
        assert len(reports) == 400
        assert len(a.podman.workloads) == 200


async def test_fifty_workloads_that_end_at_the_same_moment_all_restart() -> None:
    specs = [a_workload(f"w{number}", "A", restart_policy=RestartPolicy.ON_FAILURE) for number in range(50)]
    async with an_agent() as a:
        await a.handle(server_hello(*specs))
        for workload in list(a.podman.workloads):
            a.podman.set_state(workload, exited(1))
        reports = await a.reports()
        for number in range(50):
            assert [line.split(" ", 1)[1] for line in reports if line.startswith(f"w{number} ")] == [
                "Failed(ExecFailed)«Exit code: '1'»",
                REQ,
                REMOVED,
                STARTING,
                "Running(Ok)",
            ]
        assert len(a.podman.workloads) == 50


# -- runtimes


async def test_a_workload_of_an_unknown_runtime_is_reported_and_can_be_deleted() -> None:
    """[utest->swdd~agent-skips-unknown-runtime~1]"""
    alien = web(runtime="vm")
    async with an_agent() as a:
        assert await a.handle(server_hello(alien)) == [
            f"web {STARTING}",
            "web Pending(StartingFailed)«Unsupported Runtime»",
        ]
        assert await a.handle(update_workload(deleted={alien.instance_name: {}})) == [
            f"web {REQ}",
            f"web {REMOVED}",
        ]


async def test_each_workload_runs_in_its_runtime() -> None:
    """[utest->swdd~agent-uses-specified-runtime~1]
    [utest->swdd~agent-supports-multiple-runtime-connectors~1]
    """
    pod = a_workload("pod", "A", runtime="podman-kube")
    async with an_agent(runtimes=("podman", "podman-kube")) as a:
        await a.handle(server_hello(WEB, pod))
        assert [each.instance_name.workload for each in a.podman.workloads.values()] == ["web"]
        assert [each.instance_name.workload for each in a.runtimes["podman-kube"].workloads.values()] == ["pod"]


async def test_a_workload_moves_to_another_runtime() -> None:
    async with an_agent(runtimes=("podman", "podman-kube")) as a:
        await a.handle(server_hello(WEB))
        moved = replace(WEB, runtime="podman-kube")
        assert await a.handle(update_workload((moved,), {WEB.instance_name: {}})) == [
            f"web {REQ}",
            f"web {REMOVED}",
            f"web {STARTING}",
            "web Running(Ok)",
        ]
        assert a.podman.workloads == {}
        assert len(a.runtimes["podman-kube"].workloads) == 1
        alien = replace(WEB, runtime="vm")
        assert (await a.handle(update_workload((alien,), {WEB.instance_name: {}})))[-1] == (
            "web Pending(StartingFailed)«Unsupported Runtime»"
        )
        assert a.runtimes["podman-kube"].workloads == {}


async def test_files_that_cannot_be_written_stop_the_start() -> None:
    bad = web(files=(File("relative", data="x"),))
    async with an_agent() as a:
        a.manager.handle(server_hello(bad))
        await a.until(lambda: a.podman.calls)
        await asyncio.sleep(0.05)
        assert await a.reports() == [
            f"web {STARTING}",
            "web Pending(StartingFailed)«Failed to create workload file: "
            "'invalid mount point 'relative': 'path 'relative' is relative, expected absolute path''»",
        ]
        assert [call for call, _ in a.podman.calls] == ["existing"]


async def test_a_workload_whose_name_is_a_path_changes_nothing_outside_of_the_run_folder(tmp_path: Path) -> None:
    base = tmp_path / "run"
    base.mkdir()
    outside = tmp_path / "other_folder"
    bad = replace(
        web(access=MAY_READ, files=(File("/x", data="x"),)), instance_name=InstanceName(f"{outside}/", "", "A")
    )
    outside.mkdir()
    (outside / "precious").write_text("x")
    async with an_agent(base=base) as a:
        (failed,) = await a.handle(server_hello(bad))
        assert failed.endswith(
            f"Pending(StartingFailed)«'{bad.instance_name}' is not a valid name of a workload instance»"
        )
        assert len(await a.handle(update_workload(deleted={bad.instance_name: {}}))) == 2
        assert await a.handle(update_workload((WEB,))) == [f"web {STARTING}", "web Running(Ok)"]
    assert [path.name for path in outside.iterdir()] == ["precious"]


async def test_after_an_agent_restart_a_restarted_workload_still_gets_its_control_interface() -> None:
    spec = web(access=MAY_READ, restart_policy=RestartPolicy.ON_FAILURE)

    def left_over(runtime: FakeRuntime) -> None:
        runtime.add_existing(spec.instance_name)

    async with an_agent(prepare=left_over) as a:
        await a.handle(server_hello(spec))
        a.podman.set_state(a.podman.named("web").id, exited(1))
        await a.reports()
        assert a.podman.named("web").extras.control_interface == a.folder.control_interface(spec.instance_name)


# -- messages


async def test_an_invalid_message_is_ignored_completely() -> None:
    """[utest->swdd~agent-manager-listens-requests-from-server~1]"""
    good = added_workload_to_pb(WEB)
    flawed = [
        FromServer(serverHello=ServerHello(addedWorkloads=[good, AddedWorkload()])),
        FromServer(updateWorkload=UpdateWorkload(addedWorkloads=[good, AddedWorkload()])),
        FromServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[WorkloadState()])),
        FromServer(
            updateWorkloadState=UpdateWorkloadState(workloadStates=[WorkloadState(executionState=ExecutionState())])
        ),
        FromServer(),
    ]
    async with an_agent() as a:
        assert await a.handle(*flawed) == []
        assert a.podman.calls == []
        assert await a.handle(server_hello(WEB)) == [f"web {STARTING}", "web Running(Ok)"]


async def test_states_of_own_workloads_from_the_server_are_ignored() -> None:
    waits = a_workload("ui", "A", dependencies={"web": AddCondition.ADD_COND_SUCCEEDED})
    async with an_agent() as a:
        await a.handle(server_hello(WEB, waits))
        assert await a.handle(states_of_others((WEB.instance_name, SUCCEEDED_OK))) == []


async def test_messages_arrive_through_a_channel() -> None:
    """[utest->swdd~agent-uses-async-channels~1]
    [utest->swdd~agent-manager-listens-requests-from-server~1]
    """
    inbox = LinkChannel(LINK_CAPACITY)
    async with an_agent() as a:
        running = asyncio.create_task(a.manager.run(inbox))
        await inbox.send(Connected())
        await inbox.send(server_hello(WEB))
        assert await a.reports() == [f"web {STARTING}", "web Running(Ok)"]
        inbox.close()
        await running


async def test_the_first_part_of_an_id_names_the_workload_and_the_rest_is_returned_to_it() -> None:
    """[utest->swdd~agent-uses-id-prefix-forward-control-interface-response-correct-workload~1]
    [utest->swdd~agent-remove-id-prefix-forwarding-control-interface-response~1]
    """
    talkers = [a_workload(name, "A", access=MAY_READ) for name in ("web", "db")]
    async with an_agent() as a:
        await a.handle(server_hello(*talkers))
        pipes = [Pipes(a.folder.control_interface(spec.instance_name)) for spec in talkers]
        for pipe in pipes:
            pipe.hello()
            await pipe.receive()
        for request_id in ("db@1", "web@a@b", "web@"):
            response = Response(requestId=request_id, completeStateResponse=CompleteStateResponse())
            a.manager.handle(FromServer(response=response))
        assert (await pipes[0].receive()).response.requestId == "a@b"
        assert (await pipes[0].receive()).response.requestId == ""
        assert (await pipes[1].receive()).response.requestId == "1"
        for pipe in pipes:
            pipe.close()


async def test_a_response_without_receiver_is_dropped_and_its_logs_are_cancelled() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(WEB))
        plain = Response(requestId="web@1", completeStateResponse=CompleteStateResponse())
        logs = Response(requestId="unknown@2@3", logEntriesResponse=LogEntriesResponse())
        a.manager.handle(FromServer(response=plain))
        a.manager.handle(FromServer(response=logs))
        (cancel,) = await a.messages()
        assert (cancel.request.requestId, cancel.request.HasField("logsCancelRequest")) == ("unknown@2@3", True)


# -- devices


async def test_a_workload_waits_for_its_devices_and_starts_when_they_are_granted() -> None:
    camera = web(resources=(ResourceRequest("camera", 1),))
    devices = FakeDevices()
    async with an_agent(devices=devices) as a:
        run = asyncio.create_task(a.manager.run_devices())
        assert await a.handle(server_hello(camera)) == ["web Pending(WaitingToStart)«no camera»"]
        devices.appear(DeviceGrant(envs={"CAMERA": "1"}))
        assert await a.reports() == [f"web {STARTING}", "web Running(Ok)"]
        assert a.podman.named("web").extras.grants == (DeviceGrant(envs={"CAMERA": "1"}),)
        devices.lose(camera.instance_name)
        assert await a.reports() == [f"web {REQ}", f"web {REMOVED}", "web Pending(WaitingToStart)«no camera»"]
        assert await a.handle(update_workload(deleted={camera.instance_name: {}})) == [
            f"web {REQ}",
            f"web {REMOVED}",
        ]
        assert devices.released[-1] == camera.instance_name
        run.cancel()


async def test_a_workload_found_running_keeps_its_devices() -> None:
    camera = web(resources=(ResourceRequest("camera", 1),))
    devices = FakeDevices()
    async with an_agent(prepare=lambda runtime: _left_over(runtime, camera), devices=devices) as a:
        await a.handle(server_hello(camera))
        assert devices.adopted == [camera.instance_name]


def _left_over(runtime: FakeRuntime, spec: WorkloadSpec) -> None:
    runtime.add_existing(spec.instance_name)


async def test_claims_of_workloads_that_a_server_has_lost_are_kept() -> None:
    """As long as the server sets `keepUnlisted`, a workload that it does not list may run and use its devices."""
    async with an_agent() as agent:
        agent.connect()
        hello = server_hello(spec := a_workload())
        hello.serverHello.keepUnlisted = True
        await agent.handle(hello)
        await agent.until(lambda: not agent.manager._planner.unlisted())
        assert agent.manager._living() is None
        hello.serverHello.keepUnlisted = False
        await agent.handle(hello)
        await agent.until(lambda: agent.manager._living() == {str(spec.instance_name)})
