"""Deleted native workloads of root leave nothing on the host, in any order of deletion."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ankaios.runtimes.native.native_runtime import NativeRuntime
from ankaios.runtimes.native.processes import NativeFolder
from ankaios.runtimes.runtime_connector import Extras
from tests.integration.runtimes.state_log import LIMIT
from tests.support.builders import a_workload
from tests.support.mount_rights import needs_mounts

pytestmark = needs_mounts
AGENTS = ("agent_A", "agent_B")


class Node:
    """Two agents on one machine, each with a separate run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target = folder / "etc" / "deep" / "app.conf"
        self.target.parents[1].mkdir()
        self.runtimes = {agent: NativeRuntime(folder / agent, stop_time=1.0) for agent in AGENTS}

    async def start(self, name: str, agent: str = AGENTS[0]) -> str:
        """A workload that copies the content of its file when a request file exists."""
        file = self.folder / f"{name}.conf"
        file.write_text(f"of {name}")
        answer = f"rm {name}.request; cat {self.target} > {name}.new; mv {name}.new {name}.content"
        script = f"while sleep 0.01; do if [ -e {name}.request ]; then {answer}; fi; done"
        config = f"command: [sh, -c, '{script}']\nworkingDir: {self.folder}"
        spec = a_workload(name, agent, "native", config)
        return await self.runtimes[agent].create_workload(spec, Extras(files={file: str(self.target)}))

    async def seen_by(self, name: str) -> str:
        content = self.folder / f"{name}.content"
        content.unlink(missing_ok=True)
        (self.folder / f"{name}.request").touch()
        async with asyncio.timeout(LIMIT):
            while not content.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return content.read_text()

    async def delete(self, workload: str) -> None:
        await self.runtimes[workload.rpartition(".")[2]].delete_workload(workload)

    def on_the_host(self) -> list[str]:
        return sorted(path.name for path in self.target.parents[1].rglob("*"))


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path)
    yield made
    for agent, runtime in made.runtimes.items():
        for found in await runtime.existing_workloads(agent):
            await runtime.delete_workload(str(found.instance_name))


async def test_a_deleted_workload_leaves_nothing_on_the_host(node: Node) -> None:
    workload = await node.start("web")
    assert await node.seen_by("web") == "of web"
    assert node.on_the_host() == ["app.conf", "deep"]
    await node.delete(workload)
    assert node.on_the_host() == []


@pytest.mark.parametrize("agent", AGENTS, ids=["same agent", "other agent"])
async def test_the_mount_point_is_removed_with_the_last_of_two_workloads(node: Node, agent: str) -> None:
    first = await node.start("first")
    second = await node.start("second", agent)
    assert [await node.seen_by("first"), await node.seen_by("second")] == ["of first", "of second"]
    await node.delete(first)
    assert await node.seen_by("second") == "of second"
    third = await node.start("third")
    await node.delete(second)
    assert await node.seen_by("third") == "of third"
    await node.delete(third)
    assert node.on_the_host() == []


async def test_the_runtime_cleans_up_after_a_killed_keeper(node: Node) -> None:
    workload = await node.start("web")
    found = NativeFolder(node.folder / AGENTS[0] / workload).processes()
    assert found is not None
    os.kill(found[1].pid, signal.SIGKILL)
    await node.delete(workload)
    assert node.on_the_host() == []


async def test_a_workload_that_ended_by_itself_leaves_nothing_either(node: Node) -> None:
    workload = await node.start("web")
    folder = NativeFolder(node.folder / AGENTS[0] / workload)
    found = folder.processes()
    assert found is not None
    os.kill(found[0].pid, signal.SIGKILL)
    async with asyncio.timeout(LIMIT):
        while folder.keeper_alive:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert folder.exit_code() == 128 + signal.SIGKILL
    assert node.on_the_host() == []


async def test_workloads_that_start_and_end_at_the_same_time_do_not_affect_each_other(node: Node) -> None:
    workloads = await asyncio.gather(*(node.start(f"w{number}") for number in range(4)))
    stays = await node.start("stays")
    await asyncio.gather(*map(node.delete, workloads), node.start("late"))
    assert [await node.seen_by("stays"), await node.seen_by("late")] == ["of stays", "of late"]
    await node.delete(stays)
    assert await node.seen_by("late") == "of late"
