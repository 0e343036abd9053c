"""Calls of the agent to its devices, and effects of their calls on workloads."""

import asyncio

from msgspec.structs import replace

from ankaios.common.workload import InstanceName, ResourceRequest
from tests.support.builders import a_workload
from tests.unit.agent.fake_devices import FakeDevices
from tests.unit.agent.harness import an_agent, server_hello

ONE, TWO = (a_workload(name, "A", resources=(ResourceRequest("camera", 1),)) for name in ("one", "two"))
NO_CAMERA = "Pending(WaitingToStart)«no camera»"


async def test_devices_are_informed_when_a_session_begins_and_ends() -> None:
    devices = FakeDevices()
    async with an_agent(devices=devices) as a:
        a.disconnect()
        a.connect()
        assert devices.calls == ["connected", "disconnected", "connected"]


async def test_only_the_named_workload_claims_again() -> None:
    devices = FakeDevices()
    async with an_agent(devices=devices) as a:
        run = asyncio.create_task(a.manager.run_devices())
        expected = {f"one {NO_CAMERA}", f"two {NO_CAMERA}"}
        assert set(await a.handle(server_hello(ONE, TWO))) == expected
        assert devices.host is not None
        devices.host.wake(str(ONE.instance_name))
        assert await a.reports() == [f"one {NO_CAMERA}"]
        for name in (replace(ONE.instance_name, id="earlier"), InstanceName("unknown", "1", "A")):
            devices.host.wake(str(name))
        assert await a.reports() == []
        run.cancel()
