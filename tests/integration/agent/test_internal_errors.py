"""A bug in any task of an agent is logged, the task is started again, and the agent continues to work."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from ankaios.agent import agent as agent_module
from ankaios.agent.agent_manager import AgentManager
from ankaios.agent.resource_monitor import ResourceMonitor
from ankaios.agent.server_link import Outbox
from ankaios.common import supervision
from tests.integration.agent.running_agent import an_agent_at
from tests.integration.agent.scripted_server import ScriptedServer, Session, a_server
from tests.support.bugs import FailsOnce
from tests.support.builders import a_workload
from tests.unit.agent.fake_devices import NoDevices
from tests.unit.agent.harness import server_hello, update_workload

WEB, LATE = a_workload("web", "A"), a_workload("late", "A")


def breaks(owner: object, name: str) -> Callable[[pytest.MonkeyPatch], None]:
    def arm(patch: pytest.MonkeyPatch) -> None:
        works = getattr(owner, name)
        fails = FailsOnce(works)
        patch.setattr(owner, name, lambda *arguments: fails(*arguments))

    return arm


@dataclass
class Kind:
    name: str
    arm: Callable[[pytest.MonkeyPatch], None]
    connects_again: bool = False


KINDS = [
    Kind("the connection to the server", breaks(Outbox, "take"), connects_again=True),
    Kind("the load reports", breaks(ResourceMonitor, "sample")),
    Kind("the agent manager", breaks(AgentManager, "handle")),
    Kind("the devices", breaks(NoDevices, "run")),
    Kind("the watchdog", breaks(agent_module, "send_watchdog_pings")),
]


async def greeted(server: ScriptedServer, kind: Kind) -> Session:
    """A connection that ends immediately may be closed before the server has registered it."""
    session = await server.session()
    if kind.connects_again:
        with suppress(TimeoutError):
            session = await server.session(3.0)
    return session


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_a_failed_task_is_started_again_and_the_others_continue(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervision, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(agent_module, "DEVICES_DELAY", 0.0)
    kind.arm(monkeypatch)
    async with a_server() as server, an_agent_at(server.url, tmp_path) as podman:
        session = await greeted(server, kind)
        session.send(server_hello(WEB))
        assert await session.states(2) == ["web PENDING_STARTING", "web RUNNING_OK"]
        assert (await session.receive("AgentLoadStatus")).AgentLoadStatus.agent_name == "A"
        session.send(update_workload((LATE,)))
        assert await session.states(2) == ["late PENDING_STARTING", "late RUNNING_OK"]
        assert len(podman.workloads) == 2
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert errors == [f"internal error in {kind.name}, starting it again in 0.01 s: Bug: a bug"]
