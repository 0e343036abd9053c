"""The devices of an agent are loaded when they are needed, and not before."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ankaios.agent.devices import BEING_LOADED, NOT_AVAILABLE, AgentDevices
from ankaios.common import supervision
from ankaios.common.device_grant import DeviceGrant
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.supervision import keep_running
from ankaios.common.workload import ResourceRequest
from ankaios.devices.host import DeviceHost, WaitingForDevices
from ankaios.devices.plugin_folder import open_plugin_folder, short_folder
from tests.support.bugs import SHOWN, FailsOnce
from tests.support.builders import a_workload
from tests.support.short_paths import short_path  # noqa: F401
from tests.support.waiting import until

CAMERA = a_workload(resources=(ResourceRequest("cam", 1),))


class Agent:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.devices = AgentDevices("agent_A", folder)
        self.sent: list[grpc.ToServer] = []
        self.woken = asyncio.Event()
        self.wakes: list[str] = []
        self.restarted: list[str] = []
        self.host = DeviceHost(self.sent.append, self._wake, self.restarted.append, lambda: None)
        work = keep_running("the devices", lambda: self.devices.run(self.host), self.devices.broken)
        self.task = asyncio.create_task(work)

    def _wake(self, owner: str) -> None:
        self.wakes.append(owner)
        self.woken.set()

    @property
    def is_loaded(self) -> bool:
        return self.devices._manager is not None

    async def until_loaded(self) -> None:
        await until(lambda: self.is_loaded)

    def discover(self) -> None:
        update = grpc.DeviceUpdate(complete=True)
        handler = base.DiscoveryHandler(name="debugEcho", discoveryDetails="descriptions: [foo0]")
        update.configurations.deviceConfigurations["cam"].discoveryHandler.CopyFrom(handler)
        self.devices.handle(update)

    async def acquire(self) -> tuple[DeviceGrant, ...]:
        async with asyncio.timeout(20):
            while True:
                self.woken.clear()
                answer = await self.devices.acquire(CAMERA)
                if not isinstance(answer, WaitingForDevices):
                    return answer
                await self.woken.wait()


@pytest.fixture
async def agent(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Agent]:  # noqa: F811
    monkeypatch.setenv("DISCOVERY_HANDLERS_DIRECTORY", str(short_path / "handlers"))
    monkeypatch.setenv("DEBUG_ECHO_AVAILABILITY_FILE", str(short_path / "availability"))
    agent = Agent(short_path / "devices")
    await asyncio.sleep(0)
    yield agent
    agent.task.cancel()
    await asyncio.gather(agent.task, return_exceptions=True)


async def test_an_agent_without_devices_reports_that_and_loads_nothing(agent: Agent) -> None:
    agent.devices.connected()
    agent.devices.handle(grpc.DeviceUpdate(complete=True))
    await agent.devices.release(CAMERA.instance_name)
    await asyncio.sleep(0)
    assert agent.sent == [grpc.ToServer(deviceReport=grpc.DeviceReport(complete=True))]
    assert not agent.is_loaded


async def test_a_workload_gets_a_discovered_device(agent: Agent) -> None:
    """[utest->akri~workload-requests-resources~1] [utest->akri~denied-workload-waits-and-recovers~1]"""
    agent.devices.connected()
    assert isinstance(await agent.devices.acquire(CAMERA), WaitingForDevices)
    agent.discover()
    (grant,) = await agent.acquire()
    assert grant.envs["DEBUG_ECHO_DESCRIPTION"] == "foo0"
    assert grant.mounts[0].host_path == grant.envs["ANKAIOS_DEVICES_FILE"]
    await agent.devices.release(CAMERA.instance_name)
    assert not Path(grant.envs["ANKAIOS_DEVICES_FILE"]).exists()


async def test_a_plugin_that_connects_loads_the_devices(agent: Agent) -> None:
    for _ in range(10):
        await asyncio.sleep(0)
    with socket.socket(socket.AF_UNIX) as plugin:
        plugin.connect(str(agent.folder / "plugins" / "kubelet.sock"))
        await agent.until_loaded()


async def test_a_folder_made_for_short_paths_is_removed_again(short_path: Path) -> None:  # noqa: F811
    """Also the folder of a killed agent, by the next agent with the same name and run folder."""
    made = short_folder(short_path / ("d" * 80) / "plugins")
    open_plugin_folder(made).close()
    (made / "akri-1.sock").touch()
    agent = Agent(short_path / ("d" * 80))
    for _ in range(10):
        await asyncio.sleep(0)
    with socket.socket(socket.AF_UNIX) as plugin:
        plugin.connect(str(made / "kubelet.sock"))
    agent.task.cancel()
    await asyncio.gather(agent.task, return_exceptions=True)
    assert not made.exists()


async def test_slots_granted_by_an_earlier_agent_are_kept_and_reported(
    agent: Agent,
) -> None:
    agent.discover()
    before = await agent.acquire()
    agent.task.cancel()
    await asyncio.gather(agent.task, return_exceptions=True)
    later = Agent(agent.folder)
    later.devices.connected()
    await later.until_loaded()
    later.discover()
    assert await later.acquire() == before
    reports = [message.deviceReport for message in later.sent if message.deviceReport.complete]
    assert reports
    assert all(len(report.seen) == 1 for report in reports)
    await later.devices.adopt(CAMERA)
    later.task.cancel()
    await asyncio.gather(later.task, return_exceptions=True)


async def test_no_call_waits_until_the_devices_are_loaded(agent: Agent) -> None:
    """A workload that hangs could not be deleted. Its earlier calls are not lost."""
    other = a_workload("other", resources=(ResourceRequest("cam", 1),))
    asking = agent.devices.acquire(CAMERA)
    with pytest.raises(StopIteration) as answered:
        asking.send(None)
    assert answered.value.value == WaitingForDevices(BEING_LOADED)
    await agent.devices.acquire(other)
    await agent.devices.release(other.instance_name)
    await agent.until_loaded()
    assert agent.wakes == [str(CAMERA.instance_name)]
    agent.discover()
    await agent.acquire()


async def test_a_workload_that_released_its_devices_before_they_were_loaded_holds_none(agent: Agent) -> None:
    agent.discover()
    await agent.acquire()
    agent.task.cancel()
    await asyncio.gather(agent.task, return_exceptions=True)
    later = Agent(agent.folder)
    await later.devices.release(CAMERA.instance_name)
    later.discover()
    await later.until_loaded()
    assert list((agent.folder / "claims").iterdir()) == []
    later.task.cancel()
    await asyncio.gather(later.task, return_exceptions=True)


async def test_a_workload_found_running_before_the_devices_are_loaded_is_adopted(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    gone = a_workload("gone", resources=CAMERA.resources)
    for workload in (CAMERA, gone):
        await agent.devices.adopt(workload)
    await agent.devices.release(gone.instance_name)
    await until(lambda: "its devices are not recorded" in caplog.text)
    assert str(CAMERA.instance_name) in caplog.text
    assert str(gone.instance_name) not in caplog.text


async def test_a_session_that_ended_before_the_devices_were_loaded_is_not_passed_on(agent: Agent) -> None:
    agent.devices.connected()
    agent.devices.disconnected()
    agent.sent.clear()
    await agent.devices.acquire(CAMERA)
    await agent.until_loaded()
    assert agent.sent == []
    agent.devices.connected()
    assert [message.deviceReport.complete for message in agent.sent] == [True]
    agent.devices.disconnected()


async def test_a_folder_that_cannot_be_used_leaves_the_agent_without_devices(short_path: Path) -> None:  # noqa: F811
    """Each call returns a reason at any time: a workload that hangs could not be deleted."""
    (short_path / "file").touch()
    agent = Agent(short_path / "file")
    async with asyncio.timeout(10):
        assert await agent.devices.acquire(CAMERA) == WaitingForDevices(BEING_LOADED)
        await agent.task
        assert agent.wakes == [str(CAMERA.instance_name)]
        answer = await agent.devices.acquire(CAMERA)
        await agent.devices.adopt(CAMERA)
        await agent.devices.release(CAMERA.instance_name)
    assert isinstance(answer, WaitingForDevices)
    assert "not available: cannot use the plugin folder" in answer.reason


async def test_devices_are_loaded_again_after_an_internal_error_and_workloads_report_it(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone = a_workload("gone", resources=CAMERA.resources)
    monkeypatch.setattr(supervision, "FIRST_DELAY", 0.2)
    monkeypatch.setattr(agent.devices, "_load", FailsOnce(agent.devices._load))
    agent.discover()
    assert await agent.devices.acquire(CAMERA) == WaitingForDevices(BEING_LOADED)
    await until(lambda: SHOWN in agent.devices._outage)
    assert str(CAMERA.instance_name) in agent.wakes
    answer = await agent.devices.acquire(CAMERA)
    assert answer == WaitingForDevices(f"{NOT_AVAILABLE}: {SHOWN}, starting it again in 0.2 s")
    await agent.devices.acquire(gone)
    await agent.devices.release(gone.instance_name)
    agent.wakes.clear()
    await agent.until_loaded()
    assert agent.wakes == [str(CAMERA.instance_name)]
    (grant,) = await agent.acquire()
    assert grant.envs["DEBUG_ECHO_DESCRIPTION"] == "foo0"
    assert "internal error in the devices, starting it again in 0.2 s: Bug: a bug" in caplog.text


async def test_calls_to_an_ended_device_manager_are_repeated_for_the_next_one(agent: Agent) -> None:
    waits = a_workload("waits", resources=(ResourceRequest("cam", 5),))
    agent.discover()
    before = await agent.acquire()
    assert isinstance(await agent.devices.acquire(waits), WaitingForDevices)
    first = agent.devices._manager
    agent.wakes.clear()
    agent.task.cancel()
    await asyncio.gather(agent.task, return_exceptions=True)
    assert str(waits.instance_name) in agent.wakes
    assert isinstance(await agent.devices.acquire(waits), WaitingForDevices)
    again = asyncio.create_task(agent.devices.run(agent.host))
    await agent.until_loaded()
    assert agent.devices._manager is not first
    assert await agent.acquire() == before
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


async def test_devices_of_an_ended_manager_are_not_granted(agent: Agent) -> None:
    (agent.folder / "files").touch()  # the folder for files of workloads is missing
    await agent.devices.acquire(CAMERA)
    await asyncio.wait_for(agent.task, 20)
    answer = await agent.devices.acquire(CAMERA)
    assert isinstance(answer, WaitingForDevices)
    assert "not available: [Errno 17] File exists" in answer.reason
