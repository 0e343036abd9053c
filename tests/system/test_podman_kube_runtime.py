"""Scenarios with a real podman: manifests of the `podman-kube` connector.

Needs: podman and root rights.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ankaios.common.device_grant import DeviceGrant, DeviceNode
from ankaios.common.execution_state import RUNNING_OK, SUCCEEDED_OK, exited
from ankaios.common.workload import WorkloadSpec
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_kube_runtime import PodmanKubeRuntime
from ankaios.runtimes.podman.podman_runtime import Podman
from ankaios.runtimes.podman.podman_settings import PodmanSettings
from ankaios.runtimes.runtime_connector import Extras, LogOptions, RuntimeFailed
from tests.integration.runtimes.state_log import LIMIT, StateLog
from tests.support.builders import a_workload
from tests.support.podman_env import IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

pytestmark = needs_podman
FOREVER = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


def a_manifest(*containers: tuple[str, str], kind: str = "Pod", policy: str = "Never", name: str = "shop") -> str:
    """A pod with containers of a name and a shell script."""
    pod = {
        "restartPolicy": policy,
        "hostNetwork": True,
        "containers": [
            {"name": container, "image": IMAGE, "command": ["/bin/sh", "-c", script]}
            for container, script in containers
        ],
    }
    spec = pod if kind == "Pod" else {"replicas": 1, "template": {"metadata": {"labels": {}}, "spec": pod}}
    version = "v1" if kind == "Pod" else "apps/v1"
    return json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})


def a_spec(manifest: str, target: str | None = None, name: str = "shop") -> WorkloadSpec:
    config = json.dumps({"manifest": manifest} | ({"controlInterfaceTarget": target} if target else {}))
    return a_workload(name, runtime="podman-kube", config=config)


@pytest.fixture
async def runtime(podman_env: PodmanEnv) -> AsyncIterator[PodmanKubeRuntime]:  # noqa: F811
    made = a_runtime(podman_env)
    yield made
    await made.close()
    await asyncio.to_thread(podman_env.clear)


async def lines_of(runtime: PodmanKubeRuntime, workload: str) -> list[bytes]:
    return sorted(b"".join([piece async for piece in runtime.logs(workload, LogOptions())]).splitlines())


def a_runtime(env: PodmanEnv) -> PodmanKubeRuntime:
    return PodmanKubeRuntime(Podman(PodmanCli(PodmanSettings(environment=env.environ))))


def kept(env: PodmanEnv, volume: str) -> str:
    data = json.loads(env.podman("volume", "inspect", volume))[0]["Labels"]["data"]
    assert not data.endswith("=")
    return base64.b64decode(data + "==").decode()


async def test_a_manifest_is_played_kept_in_volumes_and_taken_down(
    podman_env: PodmanEnv,  # noqa: F811
    runtime: PodmanKubeRuntime,
) -> None:
    """[stest->swdd~agent-supports-podman-kube-runtime~1]
    [stest->swdd~podman-kube-create-workload-apply-manifest~1]
    [stest->swdd~podman-kube-create-workload-creates-config-volume~1]
    [stest->swdd~podman-kube-create-workload-creates-pods-volume~1]
    [stest->swdd~podman-kube-delete-workload-downs-manifest-file~1]
    [stest->swdd~podman-kube-delete-removes-volumes~1]
    """
    spec = a_spec(a_manifest(("web", FOREVER)))
    workload = await runtime.create_workload(spec, Extras())
    assert kept(podman_env, f"{workload}.config") == spec.runtime_config
    pods = podman_env.podman("pod", "ls", "--no-trunc", "--format", "{{.ID}}").split()
    assert json.loads(kept(podman_env, f"{workload}.pods")) == pods
    log = StateLog()
    checker = runtime.start_checker(spec, workload, log)
    assert await log.first() == RUNNING_OK
    restarted = a_runtime(podman_env)
    assert [each.state for each in await restarted.existing_workloads("agent_A")] == [RUNNING_OK]
    await restarted.delete_workload(workload)
    checker.stop()
    assert podman_env.containers() == []
    assert podman_env.podman("volume", "ls", "--quiet") == ""
    await restarted.close()


async def test_all_containers_of_a_pod_make_its_state_and_its_logs(
    podman_env: PodmanEnv,  # noqa: F811
    runtime: PodmanKubeRuntime,
) -> None:
    script = "trap 'exit 0' USR1; echo {}; while :; do sleep 0.05; done"
    spec = a_spec(a_manifest(("one", script.format("first")), ("two", script.format("second"))))
    workload = await runtime.create_workload(spec, Extras())
    log = StateLog()
    checker = runtime.start_checker(spec, workload, log)
    await log.until(RUNNING_OK)
    async with asyncio.timeout(LIMIT):  # the first process ignores signals that it does not handle yet
        while await lines_of(runtime, workload) != [b"shop-one: first", b"shop-two: second"]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    for container in ("shop-one", "shop-two"):
        await asyncio.to_thread(podman_env.podman, "kill", "--signal", "USR1", container)
        await asyncio.to_thread(podman_env.podman, "wait", container)
        if container == "shop-one":
            await asyncio.sleep(0.7)  # the checker polls again
            assert log.states == [RUNNING_OK]
    await log.until(SUCCEEDED_OK)
    checker.stop()
    assert log.states == [RUNNING_OK, SUCCEEDED_OK]
    assert await lines_of(runtime, workload) == [b"shop-one: first", b"shop-two: second"]


async def test_a_failing_container_fails_the_workload(runtime: PodmanKubeRuntime) -> None:
    spec = a_spec(a_manifest(("one", FOREVER), ("two", "sleep 0.3; exit 4")))
    workload = await runtime.create_workload(spec, Extras())
    log = StateLog()
    checker = runtime.start_checker(spec, workload, log)
    await log.until(exited(4))
    checker.stop()


async def test_containers_that_podman_restarts_do_not_count_as_failed(runtime: PodmanKubeRuntime) -> None:
    spec = a_spec(a_manifest(("one", "echo run; sleep 0.4; exit 4"), policy="Always"))
    workload = await runtime.create_workload(spec, Extras())
    log = StateLog()
    checker = runtime.start_checker(spec, workload, log)
    runs = 0
    async with asyncio.timeout(LIMIT):
        while runs < 3:
            await asyncio.sleep(0.1)
            pieces = [piece async for piece in runtime.logs(workload, LogOptions())]
            runs = b"".join(pieces).count(b"run")
    checker.stop()
    assert log.states == [RUNNING_OK]


async def test_a_failed_play_leaves_nothing_that_blocks_the_retry(
    podman_env: PodmanEnv,  # noqa: F811
    runtime: PodmanKubeRuntime,
) -> None:
    broken = a_manifest(("web", FOREVER)).replace("/bin/sh", "/no/such")
    for _ in range(2):
        with pytest.raises(RuntimeFailed, match="not found"):
            await runtime.create_workload(a_spec(broken), Extras())
        assert podman_env.containers() == []
        assert podman_env.podman("volume", "ls", "--quiet") == ""


async def test_an_unrelated_pod_is_kept_after_a_failed_play(
    podman_env: PodmanEnv,  # noqa: F811
    runtime: PodmanKubeRuntime,
) -> None:
    first = a_spec(a_manifest(("web", FOREVER)))
    second = a_spec(a_manifest(("other", FOREVER)), name="second")
    await runtime.create_workload(first, Extras())
    with pytest.raises(RuntimeFailed, match="already exists"):
        await runtime.create_workload(second, Extras())
    assert {container["State"] for container in podman_env.containers()} == {"running"}
    assert [each.instance_name for each in await runtime.existing_workloads("agent_A")] == [first.instance_name]


async def test_pods_removed_by_hand_can_still_be_deleted(
    podman_env: PodmanEnv,  # noqa: F811
    runtime: PodmanKubeRuntime,
) -> None:
    workload = await runtime.create_workload(a_spec(a_manifest(("web", FOREVER))), Extras())
    await asyncio.to_thread(podman_env.podman, "pod", "rm", "--force", "--time", "0", "shop")
    await runtime.delete_workload(workload)
    assert podman_env.podman("volume", "ls", "--quiet") == ""


@pytest.mark.parametrize(("kind", "pod"), [("Pod", "shop"), ("Deployment", "shop-pod")])
async def test_only_the_target_container_sees_the_control_interface_and_devices(
    runtime: PodmanKubeRuntime, tmp_path: Path, kind: str, pod: str
) -> None:
    (tmp_path / "input").touch()
    look = "ls /run/ankaios/control_interface /dev/mine; echo $DEVICE; echo done; sleep 100"
    manifest = a_manifest(("seeing", look), ("blind", look), kind=kind)
    grant = DeviceGrant(envs={"DEVICE": "yes"}, devices=(DeviceNode("/dev/mine", "/dev/null"),), container="seeing")
    extras = Extras(control_interface=tmp_path, grants=(grant,))
    workload = await runtime.create_workload(a_spec(manifest, f"{pod}/seeing"), extras)
    lines: list[bytes] = []
    async with asyncio.timeout(LIMIT):
        while sum(line.endswith(b": done") for line in lines) < 2:
            pieces = [piece async for piece in runtime.logs(workload, LogOptions())]
            lines = b"".join(pieces).splitlines()
    seeing = {line.partition(b": ")[2] for line in lines if b"seeing: " in line}
    blind = {line.partition(b": ")[2] for line in lines if b"blind: " in line}
    assert {b"input", b"/dev/mine", b"yes"} <= seeing
    assert not {b"input", b"/dev/mine", b"yes"} & blind
