"""A whole agent in this process, with a runtime in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from ankaios.agent.agent import run_agent
from ankaios.agent.settings import AgentSettings
from ankaios.common.config import GivenPem
from ankaios.runtimes.connectors import Connectors
from tests.support.fake_runtime import FakeRuntime
from tests.unit.agent.fake_devices import no_devices


def settings_for(url: str, run_folder: Path, name: str = "A") -> AgentSettings:
    return AgentSettings(name, url, run_folder, True, GivenPem(), {"zone": "front"}, None)


@asynccontextmanager
async def an_agent_at(
    url: str, run_folder: Path, runtime: FakeRuntime | None = None, name: str = "A"
) -> AsyncIterator[FakeRuntime]:
    podman = runtime or FakeRuntime("podman")
    connectors = Connectors({"podman": lambda: podman})
    agent = asyncio.create_task(run_agent(settings_for(url, run_folder, name), connectors, no_devices), name="agent")
    try:
        yield podman
    finally:
        agent.cancel()
        with suppress(asyncio.CancelledError):
            await agent
