"""The connectors under the contract tests, and what a test needs to control each of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from ankaios.common.execution_state import exited
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.containerd.containerd_runtime import ContainerdRuntime
from ankaios.runtimes.containerd.nerdctl_cli import NerdctlCli, NerdctlSettings
from ankaios.runtimes.native.native_runtime import NativeRuntime
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_kube_runtime import PodmanKubeRuntime
from ankaios.runtimes.podman.podman_runtime import Podman, PodmanRuntime
from ankaios.runtimes.podman.podman_settings import PodmanSettings
from ankaios.runtimes.runtime_connector import RuntimeConnector
from tests.support.fake_runtime import FakeRuntime
from tests.support.isolated_containerd import IsolatedContainerd, missing_containerd
from tests.support.podman_env import IMAGE, PodmanEnv
from tests.support.stand_in import StandIn

AGENT = "agent_A"


class Subject(Protocol):
    """One connector. `can_reuse`: it reports ids of existing workloads. `loses`: a removal by hand is `Failed(Lost)`.

    `folder` exists for the workload, too, under the same path.
    """

    name: str
    can_reuse: bool
    loses: bool
    folder: Path

    def connect(self) -> RuntimeConnector:
        """A connector as in an agent that has just started."""
        ...

    def spec(self, name: str, script: str, agent: str = AGENT) -> WorkloadSpec:
        """A workload that runs the shell script."""
        ...

    async def let_end(self, workload: str, code: int) -> None:
        """End a workload that waits for the file `end`, or one that is no process."""
        ...

    async def remove_by_hand(self, workload: str) -> None: ...


def _spec(runtime: str, name: str, agent: str, config: str) -> WorkloadSpec:
    return WorkloadSpec(InstanceName.of(name, agent, config), runtime, config)


def waits_for_end(subject: Subject, code: int) -> str:
    """A script that ends when the test creates a file, and not after a time that a busy machine may exceed."""
    return f"until [ -e {subject.folder}/end ]; do sleep 0.05; done; exit {code}"


def allow_end(folder: Path) -> None:
    (folder / "end").touch()


def _quoted(script: str) -> str:
    return "'" + script.replace("'", "''") + "'"


class FakeSubject:
    name, can_reuse, loses = "fake", True, True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
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
        self.folder = folder
        self.run_folder = folder / "native"

    def connect(self) -> RuntimeConnector:
        return NativeRuntime(self.run_folder, stop_time=1.0)

    def spec(self, name: str, script: str, agent: str = AGENT) -> WorkloadSpec:
        return _spec(self.name, name, agent, f"command: [sh, -c, {_quoted(script)}]")

    async def let_end(self, workload: str, code: int) -> None:
        allow_end(self.folder)

    async def remove_by_hand(self, workload: str) -> None:
        await NativeRuntime(self.run_folder, stop_time=0.1).delete_workload(workload)


class _ContainerSubject:
    """podman and containerd have the same configuration."""

    name: str
    image = "image"
    more_options = ""
    folder: Path

    def spec(self, name: str, script: str, agent: str = AGENT) -> WorkloadSpec:
        options = f'["--volume", "{self.folder}:{self.folder}"{self.more_options}]'
        config = f"image: {self.image}\ncommandOptions: {options}\ncommandArgs: [sh, -c, {_quoted(script)}]"
        return _spec(self.name, name, agent, config)

    async def let_end(self, workload: str, code: int) -> None:
        allow_end(self.folder)


class PodmanStandInSubject(_ContainerSubject):
    """Containers without a monitor: their states can only be polled."""

    name, can_reuse, loses = "podman", True, True

    def __init__(self, stand_in: StandIn, folder: Path) -> None:
        self.stand_in = stand_in
        self.folder = folder

    def connect(self) -> RuntimeConnector:
        return PodmanRuntime(Podman(PodmanCli(PodmanSettings(program=self.stand_in.program))))

    async def remove_by_hand(self, workload: str) -> None:
        self.stand_in.forget_container(workload)


class ContainerdSubject(_ContainerSubject):
    name, can_reuse, loses = "containerd", True, True

    def __init__(self, stand_in: StandIn, folder: Path) -> None:
        self.stand_in = stand_in
        self.folder = folder

    def connect(self) -> RuntimeConnector:
        return ContainerdRuntime(NerdctlCli(NerdctlSettings(program=self.stand_in.program)))

    async def remove_by_hand(self, workload: str) -> None:
        self.stand_in.forget_container(workload)


class RealContainerdSubject(_ContainerSubject):
    name, can_reuse, loses = "containerd", True, True
    image = IMAGE
    more_options = ', "--network=none"'  # the plugins of networks are in no package of Debian's containerd

    def __init__(self, env: IsolatedContainerd, folder: Path) -> None:
        self.env = env
        self.folder = folder

    def connect(self) -> RuntimeConnector:
        return ContainerdRuntime(NerdctlCli(NerdctlSettings(environment=self.env.environ)))

    async def remove_by_hand(self, workload: str) -> None:
        await asyncio.to_thread(self.env.nerdctl, "rm", "--force", workload)


class PodmanSubject(_ContainerSubject):
    name, can_reuse, loses = "podman", True, True
    image = IMAGE

    def __init__(self, env: PodmanEnv, folder: Path) -> None:
        self.env = env
        self.folder = folder

    def connect(self) -> RuntimeConnector:
        return PodmanRuntime(Podman(PodmanCli(PodmanSettings(environment=self.env.environ))))

    async def remove_by_hand(self, workload: str) -> None:
        await asyncio.to_thread(self.env.podman, "rm", "--force", "--time", "0", workload)


class PodmanKubeSubject:
    """Pods that are gone count as containers in an unknown state."""

    name, can_reuse, loses = "podman-kube", False, False

    def __init__(self, env: PodmanEnv, folder: Path) -> None:
        self.env = env
        self.folder = folder

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
            f"    - name: main\n      image: {IMAGE}\n      command: [/bin/sh, -c, {_quoted(script)}]\n"
            f"      volumeMounts: [{{name: shared, mountPath: {self.folder}}}]\n"
            f"    volumes: [{{name: shared, hostPath: {{path: {self.folder}, type: Directory}}}}]\n"
        )
        return _spec(self.name, name, agent, config)

    async def let_end(self, workload: str, code: int) -> None:
        allow_end(self.folder)

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
            yield FakeSubject(tmp_path)
        case "native":
            subject = NativeSubject(tmp_path)
            yield subject
            connector = NativeRuntime(subject.run_folder, stop_time=0.1)
            for each in await connector.existing_workloads(AGENT) + await connector.existing_workloads("other_A"):
                await connector.delete_workload(str(each.instance_name))
        case "podman-stand-in" | "containerd":
            stand_in = StandIn(tmp_path, "nerdctl" if kind == "containerd" else "podman")
            made = ContainerdSubject if kind == "containerd" else PodmanStandInSubject
            yield made(stand_in, tmp_path)
            stand_in.close()
        case "real containerd":
            containerd: IsolatedContainerd = request.getfixturevalue("containerd_env")
            yield RealContainerdSubject(containerd, tmp_path)
            await asyncio.to_thread(containerd.clear)
        case _:
            env: PodmanEnv = request.getfixturevalue("podman_env")
            yield PodmanSubject(env, tmp_path) if kind == "podman" else PodmanKubeSubject(env, tmp_path)
            await asyncio.to_thread(env.clear)
