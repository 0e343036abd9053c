"""The connectors under the contract tests, and what a test needs to play with each of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from ankaios.common.execution_state import exited
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.containerd_runtime import ContainerdRuntime
from ankaios.runtimes.fake import FakeRuntime
from ankaios.runtimes.native_runtime import NativeRuntime
from ankaios.runtimes.nerdctl_cli import NerdctlCli, NerdctlSettings
from ankaios.runtimes.podman_cli import PodmanCli
from ankaios.runtimes.podman_kube_runtime import PodmanKubeRuntime
from ankaios.runtimes.podman_runtime import Podman, PodmanRuntime
from ankaios.runtimes.podman_settings import PodmanSettings
from ankaios.runtimes.runtime_connector import RuntimeConnector
from tests.support.isolated_containerd import IsolatedContainerd, missing_containerd
from tests.support.podman_env import IMAGE, PodmanEnv
from tests.support.stand_in import StandIn

AGENT = "agent_A"


class Subject(Protocol):
    """One connector. `can_reuse`: it tells ids of existing workloads. `loses`: a removal by hand is `Failed(Lost)`."""

    name: str
    can_reuse: bool
    loses: bool

    def connect(self) -> RuntimeConnector:
        """A connector as a freshly started agent has it."""
        ...

    def spec(self, name: str, script: str, agent: str = AGENT) -> WorkloadSpec:
        """A workload that runs the shell script."""
        ...

    async def let_end(self, workload: str, code: int) -> None:
        """Only a workload that is no process needs help to end."""
        ...

    async def remove_by_hand(self, workload: str) -> None: ...


def _spec(runtime: str, name: str, agent: str, config: str) -> WorkloadSpec:
    return WorkloadSpec(InstanceName.of(name, agent, config), runtime, config)


def _quoted(script: str) -> str:
    return "'" + script.replace("'", "''") + "'"


class FakeSubject:
    name, can_reuse, loses = "fake", True, True

    def __init__(self) -> None:
        self.runtime = FakeRuntime()

    def connect(self) -> RuntimeConnector:
        return self.runtime

    def spec(self, name: str, script: str, agent: str = AGENT) -> WorkloadSpec:
        return _spec(self.name, name, agent, f"script: {script}")

    async def let_end(self, workload: str, code: int) -> None:
        self.runtime.print(workload, b"out\nerr\n")
        self.runtime.set_state(workload, exited(code))

    async def remove_by_hand(self, workload: str) -> None:
        self.runtime.vanish(workload)


class NativeSubject:
    name, can_reuse, loses = "native", True, True

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "native"

    def connect(self) -> RuntimeConnector:
        return NativeRuntime(self.folder, stop_time=1.0)

    def spec(self, name: str, script: str, agent: str = AGENT) -> WorkloadSpec:
        return _spec(self.name, name, agent, f"command: [sh, -c, {_quoted(script)}]")

    async def let_end(self, workload: str, code: int) -> None:
        """It ends by itself."""

    async def remove_by_hand(self, workload: str) -> None:
        await NativeRuntime(self.folder, stop_time=0.1).delete_workload(workload)


class _ContainerSubject:
    """podman and containerd have the same configuration."""

    name: str
    image = "image"

    def spec(self, name: str, script: str, agent: str = AGENT) -> WorkloadSpec:
        config = f"image: {self.image}\ncommandArgs: [sh, -c, {_quoted(script)}]"
        return _spec(self.name, name, agent, config)

    async def let_end(self, workload: str, code: int) -> None:
        """It ends by itself."""


class PodmanStandInSubject(_ContainerSubject):
    """Containers without a monitor: their states can only be polled."""

    name, can_reuse, loses = "podman", True, True

    def __init__(self, stand_in: StandIn) -> None:
        self.stand_in = stand_in

    def connect(self) -> RuntimeConnector:
        return PodmanRuntime(Podman(PodmanCli(PodmanSettings(program=self.stand_in.program))))

    async def remove_by_hand(self, workload: str) -> None:
        self.stand_in.forget_container(workload)


class ContainerdSubject(_ContainerSubject):
    name, can_reuse, loses = "containerd", True, True

    def __init__(self, stand_in: StandIn) -> None:
        self.stand_in = stand_in

    def connect(self) -> RuntimeConnector:
        return ContainerdRuntime(NerdctlCli(NerdctlSettings(program=self.stand_in.program)))

    async def remove_by_hand(self, workload: str) -> None:
        self.stand_in.forget_container(workload)


class RealContainerdSubject(_ContainerSubject):
    name, can_reuse, loses = "containerd", True, True
    image = IMAGE

    def __init__(self, env: IsolatedContainerd) -> None:
        self.env = env

    def connect(self) -> RuntimeConnector:
        return ContainerdRuntime(NerdctlCli(NerdctlSettings(environment=self.env.environ)))

    def spec(self, name: str, script: str, agent: str = AGENT) -> WorkloadSpec:
        """Without a network: its plugins are in no package of Debian's containerd."""
        config = f"image: {IMAGE}\ncommandOptions: [--network=none]\ncommandArgs: [sh, -c, {_quoted(script)}]"
        return _spec(self.name, name, agent, config)

    async def remove_by_hand(self, workload: str) -> None:
        await asyncio.to_thread(self.env.nerdctl, "rm", "--force", workload)


class PodmanSubject(_ContainerSubject):
    name, can_reuse, loses = "podman", True, True
    image = IMAGE

    def __init__(self, env: PodmanEnv) -> None:
        self.env = env

    def connect(self) -> RuntimeConnector:
        return PodmanRuntime(Podman(PodmanCli(PodmanSettings(environment=self.env.environ))))

    async def remove_by_hand(self, workload: str) -> None:
        await asyncio.to_thread(self.env.podman, "rm", "--force", "--time", "0", workload)


class PodmanKubeSubject:
    """Pods that are gone count as containers in an unknown state."""

    name, can_reuse, loses = "podman-kube", False, False

    def __init__(self, env: PodmanEnv) -> None:
        self.env = env

    def connect(self) -> RuntimeConnector:
        return PodmanKubeRuntime(Podman(PodmanCli(PodmanSettings(environment=self.env.environ))))

    def spec(self, name: str, script: str, agent: str = AGENT) -> WorkloadSpec:
        config = (
            "playOptions: [--network, none]\n"
            "manifest: |\n"
            "  apiVersion: v1\n"
            "  kind: Pod\n"
            f"  metadata: {{name: {name}-{agent.lower().replace('_', '-')}}}\n"
            "  spec:\n"
            "    restartPolicy: Never\n"
            "    terminationGracePeriodSeconds: 1\n"
            "    containers:\n"
            f"    - {{name: main, image: {IMAGE}, command: [/bin/sh, -c, {_quoted(script)}]}}\n"
        )
        return _spec(self.name, name, agent, config)

    async def let_end(self, workload: str, code: int) -> None:
        """It ends by itself."""

    async def remove_by_hand(self, workload: str) -> None:
        await asyncio.to_thread(self.env.podman, "pod", "stop", "--time", "0", "--all")
        await asyncio.to_thread(self.env.podman, "pod", "rm", "--force", "--time", "0", "--all")


# Subjects whose workloads are real processes of a real runtime.
WITH_PROCESSES = (NativeSubject, PodmanSubject, PodmanKubeSubject, RealContainerdSubject)
_NO_CONTAINERD = missing_containerd()
SUBJECTS = [
    *("fake", "native", "podman-stand-in", "containerd", "podman", "podman-kube"),
    pytest.param("real containerd", marks=pytest.mark.skipif(bool(_NO_CONTAINERD), reason=str(_NO_CONTAINERD))),
]


@asynccontextmanager
async def make_subject(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    match kind:
        case "fake":
            yield FakeSubject()
        case "native":
            subject = NativeSubject(tmp_path)
            yield subject
            connector = NativeRuntime(subject.folder, stop_time=0.1)
            for each in await connector.existing_workloads(AGENT) + await connector.existing_workloads("other_A"):
                await connector.delete_workload(str(each.instance_name))
        case "podman-stand-in" | "containerd":
            stand_in = StandIn(tmp_path, "nerdctl" if kind == "containerd" else "podman")
            yield ContainerdSubject(stand_in) if kind == "containerd" else PodmanStandInSubject(stand_in)
            stand_in.close()
        case "real containerd":
            containerd: IsolatedContainerd = request.getfixturevalue("containerd_env")
            yield RealContainerdSubject(containerd)
            await asyncio.to_thread(containerd.clear)
        case _:
            env: PodmanEnv = request.getfixturevalue("podman_env")
            yield PodmanSubject(env) if kind == "podman" else PodmanKubeSubject(env)
            await asyncio.to_thread(env.clear)
