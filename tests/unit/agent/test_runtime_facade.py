"""Starts tasks of workloads, and deletes containers without a task."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ankaios.agent.agent_records import AgentRecords
from ankaios.agent.core.runtime_manager import Found
from ankaios.agent.health_checks import HealthChecks
from ankaios.agent.run_folder import RunFolder
from ankaios.agent.runtime_facade import RuntimeFacade
from ankaios.agent.server_link import Outbox
from ankaios.agent.workload_task import SharedServices
from ankaios.common.errors import Unavailable
from ankaios.common.execution_state import RUNNING_OK, ExecutionState, exited
from ankaios.common.pb.ank_base_pb2 import CompleteStateResponse, Response
from ankaios.common.supervision import Supervisor
from ankaios.common.workload import ControlInterfaceAccess, InstanceName, Operation, StateRule
from ankaios.runtimes.connectors import Connectors
from ankaios.runtimes.runtime_connector import RuntimeFailed
from tests.support.builders import a_workload
from tests.support.fake_runtime import FakeRuntime
from tests.unit.agent.fake_devices import NoDevices
from tests.unit.agent.pipes import Pipes

ACCESS = ControlInterfaceAccess((StateRule(Operation.READ, ("desiredState",)),))
WEB = a_workload("web", "A", access=ACCESS)
WEB2 = a_workload("web", "A", config="image: two")


class Facade:
    """A facade with a runtime in memory, and all its reports."""

    def __init__(self, folder: Path, tasks: Supervisor) -> None:
        self.podman = FakeRuntime("podman")
        self.reports: list[str] = []
        self.folder = RunFolder(folder, "A")
        self.folder.prepare()
        connectors = Connectors({"podman": lambda: self.podman, "native": self._unexpected}, {"native": lambda: True})
        outbox = Outbox()
        health = HealthChecks(self.folder, tasks, outbox.observer.health_checked)
        records = AgentRecords(self.folder.path / "records", outbox)
        services = SharedServices(
            connectors, self.folder, NoDevices(), outbox, tasks, self._report, records, lambda: 0.0, health
        )
        self.facade = RuntimeFacade("A", services)

    def _report(self, name: InstanceName, state: ExecutionState) -> None:
        self.reports.append(f"{name.workload} {state}")

    def _unexpected(self) -> FakeRuntime:
        raise AssertionError("the connector is not needed")

    async def settle(self) -> list[str]:
        for _ in range(50):
            await asyncio.sleep(0)
        reports, self.reports = self.reports, []
        return reports

    def calls(self) -> list[str]:
        return [call for call, _ in self.podman.calls]


@pytest.fixture
async def facade(tmp_path: Path) -> AsyncIterator[Facade]:
    async with Supervisor() as tasks:
        made = Facade(tmp_path, tasks)
        yield made
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task() and task.get_name().startswith(("workload", "control", "delete")):
                task.cancel()


async def test_the_list_of_existing_workloads_comes_from_the_runtime(facade: Facade) -> None:
    """[utest->swdd~agent-facade-forwards-list-reusable-workloads-call~1]"""
    left = facade.podman.add_existing(WEB.instance_name, exited(2))
    found = await facade.facade.existing_workloads("podman")
    assert found == [Found("podman", WEB.instance_name, exited(2), left.id)]
    facade.podman.fail_next("existing", RuntimeFailed("no"))
    with pytest.raises(Unavailable):
        await facade.facade.existing_workloads("podman")


async def test_an_unused_runtime_is_not_loaded_for_its_list(facade: Facade) -> None:
    assert await facade.facade.existing_workloads("native") == []


async def test_create_starts_the_workload_and_a_task_for_it(facade: Facade) -> None:
    """[utest->swdd~agent-create-workload~1]
    [utest->swdd~agent-stores-running-workload~1]
    [utest->swdd~podman-workload-creates-container~1]
    [utest->swdd~podman-workload-starts-container~1]
    """
    work = facade.facade.create(WEB)
    assert await facade.settle() == ["web Pending(Starting)", "web Running(Ok)"]
    assert facade.calls() == ["create", "check"]
    assert facade.facade.workloads == {"web": work}
    assert work.target == WEB


async def test_resume_watches_a_running_container(facade: Facade) -> None:
    """[utest->swdd~agent-resume-workload~1]"""
    left = facade.podman.add_existing(WEB.instance_name)
    facade.facade.resume(WEB, left.id)
    assert await facade.settle() == ["web Running(Ok)"]
    assert facade.calls() == ["check"]


async def test_resume_determines_the_id(facade: Facade) -> None:
    facade.podman.add_existing(WEB.instance_name)
    facade.facade.resume(WEB, None)
    assert await facade.settle() == ["web Running(Ok)"]
    assert facade.calls() == ["id", "check"]


async def test_replace_deletes_the_old_before_the_new_is_created(facade: Facade) -> None:
    """[utest->swdd~agent-replace-workload~1]"""
    left = facade.podman.add_existing(WEB.instance_name, exited(1))
    work = facade.facade.replace(Found("podman", WEB.instance_name, exited(1), left.id))
    work.update(WEB2)
    reports = await facade.settle()
    assert reports[-4:] == [
        "web Stopping(RequestedAtRuntime)",
        "web Removed",
        "web Pending(Starting)",
        "web Running(Ok)",
    ]
    assert facade.calls() == ["check", "delete", "create", "check"]


async def test_a_container_without_a_task_is_deleted_directly(facade: Facade) -> None:
    """[utest->swdd~agent-delete-old-workload~1]"""
    facade.podman.add_existing(WEB.instance_name)
    facade.folder.of(WEB.instance_name).mkdir()
    found = Found("podman", WEB.instance_name, RUNNING_OK)
    facade.facade.delete_found(found)
    facade.facade.delete_found(found)
    assert await facade.settle() == ["web Stopping(RequestedAtRuntime)", "web Removed"]
    assert facade.calls() == ["id", "delete"]
    assert not facade.folder.of(WEB.instance_name).exists()


async def test_a_missing_container_counts_as_deleted(facade: Facade) -> None:
    facade.facade.delete_found(Found("podman", WEB.instance_name, RUNNING_OK))
    assert await facade.settle() == ["web Stopping(RequestedAtRuntime)", "web Removed"]
    assert facade.calls() == ["id"]


async def test_update_replaces_the_pipes_and_the_workload(facade: Facade) -> None:
    """[utest->swdd~agent-workload-obj-update-command~1]"""
    work = facade.facade.create(WEB)
    await facade.settle()
    old, moved = (facade.folder.control_interface(spec.instance_name) for spec in (WEB, WEB2))
    pipes = Pipes(old)
    pipes.hello()
    await pipes.receive()
    work.update(a_workload("web", "A", config="image: two", access=ACCESS))
    assert (await facade.settle())[-1] == "web Running(Ok)"
    assert not old.exists()
    assert (moved / "input").is_fifo()
    assert facade.podman.named("web").extras.control_interface == moved
    work.update(WEB2)
    await facade.settle()
    assert not moved.exists()
    pipes.close()


async def test_delete_ends_pipes_workload_and_task(facade: Facade) -> None:
    """[utest->swdd~agent-workload-obj-delete-command~1]
    [utest->swdd~podman-adapter-removes-podman-workload~2]
    [utest->swdd~podman-adapter-request-stopping-container~2]
    """
    work = facade.facade.create(WEB)
    await facade.settle()
    work.delete()
    assert await facade.settle() == ["web Stopping(RequestedAtRuntime)", "web Removed"]
    assert facade.facade.workloads == {}
    assert facade.podman.workloads == {}
    assert not facade.folder.of(WEB.instance_name).exists()


async def test_a_response_reaches_the_pipe_of_its_workload(facade: Facade) -> None:
    """[utest->swdd~agent-forward-responses-to-control-interface-pipe~1]"""
    work = facade.facade.create(WEB)
    response = Response(requestId="1", completeStateResponse=CompleteStateResponse())
    assert not work.interface.deliver(response)  # no pipe yet
    await facade.settle()
    pipes = Pipes(facade.folder.control_interface(WEB.instance_name))
    pipes.hello()
    await pipes.receive()
    assert work.interface.deliver(response)
    assert (await pipes.receive()).response == response
    pipes.close()


async def test_logs_are_read_from_the_current_container(facade: Facade) -> None:
    facade.podman.fail_next("create", RuntimeFailed("no image"))
    facade.podman.hold("create")
    work = facade.facade.create(WEB)
    await facade.settle()
    assert work.log_source() is None
    facade.podman.release("create")
    await facade.settle()
    assert work.log_source() == (facade.podman, facade.podman.named("web").id)
