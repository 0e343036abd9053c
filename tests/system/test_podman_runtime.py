"""Scenarios with a real podman: containers of the `podman` connector.

Needs: podman and root rights.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ankaios.common.device_grant import DeviceGrant, DeviceMount, DeviceNode
from ankaios.common.execution_state import FAILED_LOST, RUNNING_OK, SUCCEEDED_OK, exited
from ankaios.common.workload import WorkloadSpec
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_runtime import Podman, PodmanRuntime
from ankaios.runtimes.podman.podman_settings import PodmanSettings
from ankaios.runtimes.runtime_connector import Extras, LogOptions, RuntimeFailed
from tests.integration.runtimes.state_log import LIMIT, StateLog
from tests.support.builders import a_workload
from tests.support.podman_env import IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

pytestmark = needs_podman
FOREVER = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


@pytest.fixture
async def runtime(podman_env: PodmanEnv) -> AsyncIterator[PodmanRuntime]:  # noqa: F811
    made = a_runtime(podman_env)
    yield made
    await made.close()
    await asyncio.to_thread(podman_env.clear)


def a_runtime(env: PodmanEnv) -> PodmanRuntime:
    return PodmanRuntime(Podman(PodmanCli(PodmanSettings(environment=env.environ))))


def a_spec(script: str, name: str = "web", options: str = "[]", image: str = IMAGE) -> WorkloadSpec:
    quoted = script.replace("'", "''")
    return a_workload(name, config=f"image: {image}\ncommandOptions: {options}\ncommandArgs: [sh, -c, '{quoted}']")


async def test_a_container_is_created_named_labelled_stopped_and_removed(
    podman_env: PodmanEnv,  # noqa: F811
    runtime: PodmanRuntime,
) -> None:
    """[stest->swdd~agent-supports-podman~2]
    [stest->swdd~podman-create-workload-runs-workload~1]
    [stest->swdd~podman-create-workload-sets-optionally-container-name~1]
    [stest->swdd~podman-delete-workload-stops-and-removes-workload~1]
    [stest->swdd~podman-workload-creates-container~1]
    [stest->swdd~podman-workload-stops-container~1]
    [stest->swdd~podman-workload-deletes-container~1]
    """
    spec = a_spec(FOREVER)
    workload = await runtime.create_workload(spec, Extras())
    (container,) = podman_env.containers()
    assert container["Id"] == workload
    assert container["Names"] == [spec.instance_name.short]
    assert container["Labels"] == {"name": str(spec.instance_name), "agent": "agent_A"}
    assert container["State"] == "running"
    await runtime.delete_workload(workload)
    assert podman_env.containers() == []


async def test_a_configured_container_name_has_priority(podman_env: PodmanEnv, runtime: PodmanRuntime) -> None:  # noqa: F811
    """[stest->swdd~podman-create-workload-sets-optionally-container-name~1]"""
    spec = a_spec(FOREVER, options="[--name, mine]")
    workload = await runtime.create_workload(spec, Extras())
    assert podman_env.containers()[0]["Names"] == ["mine"]
    assert await runtime.workload_id(spec.instance_name) == workload


@pytest.mark.parametrize("options", ["[]", "[--env-host]", "[-e, GOGC]", "[-e, 'GO*']", "[--env=GOGC]", "[-teGOGC]"])
async def test_no_container_inherits_the_garbage_collector_setting_of_podman(
    podman_env: PodmanEnv,  # noqa: F811
    runtime: PodmanRuntime,
    options: str,
) -> None:
    workload = await runtime.create_workload(a_spec(FOREVER, options=options), Extras())
    (container,) = podman_env.containers()
    assert container["Id"] == workload
    environ = Path(f"/proc/{container['Pid']}/environ").read_bytes().split(b"\0")
    assert [variable for variable in environ if variable.startswith(b"GOGC")] == []


async def test_an_ended_container_is_started_again(podman_env: PodmanEnv, runtime: PodmanRuntime) -> None:  # noqa: F811
    """[stest->swdd~podman-workload-starts-container~1]"""
    spec = a_spec("echo run; sleep 0.2")
    workload = await runtime.create_workload(spec, Extras())
    for _ in range(3):
        log = StateLog()
        checker = runtime.start_checker(spec, workload, log)
        await log.until(SUCCEEDED_OK)
        checker.stop()
        # Immediately, while podman still cleans up, as with the restart policy ALWAYS.
        assert await runtime.create_workload(spec, Extras(reuse=workload)) == workload
    log = StateLog()
    checker = runtime.start_checker(spec, workload, log)
    await log.until(SUCCEEDED_OK)
    checker.stop()
    async with asyncio.timeout(LIMIT):
        while await _output(runtime, workload) != [b"run"] * 4:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_an_image_that_is_missing_is_pulled_or_the_start_fails_and_leaves_nothing(
    podman_env: PodmanEnv,  # noqa: F811
    runtime: PodmanRuntime,
) -> None:
    """No registry is reachable, so only the attempt is checked.

    [stest->swdd~podman-workload-pulls-container~2]
    """
    with pytest.raises(RuntimeFailed, match="Trying to pull localhost/missing:1"):
        await runtime.create_workload(a_spec(FOREVER, image="localhost/missing:1"), Extras())
    assert podman_env.containers() == []


async def test_a_command_that_does_not_exist_leaves_no_container_that_blocks_the_retry(
    podman_env: PodmanEnv,  # noqa: F811
    runtime: PodmanRuntime,
) -> None:
    spec = a_workload(config=f"image: {IMAGE}\ncommandArgs: [/no/such]")
    for _ in range(2):
        with pytest.raises(RuntimeFailed, match="not found"):
            await runtime.create_workload(spec, Extras())
        assert podman_env.containers() == []


async def test_a_container_that_removes_itself_is_lost(runtime: PodmanRuntime) -> None:
    spec = a_spec("sleep 0.3; exit 0", options="[--rm]")
    workload = await runtime.create_workload(spec, Extras())
    log = StateLog()
    checker = runtime.start_checker(spec, workload, log)
    await log.until(FAILED_LOST)
    checker.stop()
    assert log.states == [RUNNING_OK, FAILED_LOST]


async def test_a_container_stopped_and_removed_by_hand_is_reported(
    podman_env: PodmanEnv,  # noqa: F811
    runtime: PodmanRuntime,
) -> None:
    spec = a_spec("sleep 1000")
    workload = await runtime.create_workload(spec, Extras())
    log = StateLog()
    checker = runtime.start_checker(spec, workload, log)
    await log.until(RUNNING_OK)
    await asyncio.to_thread(podman_env.podman, "stop", "--time", "0", workload)
    await log.until(exited(137))
    await asyncio.to_thread(podman_env.podman, "start", workload)
    async with asyncio.timeout(LIMIT):
        while log.states[-1] != RUNNING_OK:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await asyncio.to_thread(podman_env.podman, "rm", "--force", "--time", "0", workload)
    await log.until(FAILED_LOST)
    checker.stop()


async def test_a_paused_container_can_be_deleted(podman_env: PodmanEnv, runtime: PodmanRuntime) -> None:  # noqa: F811
    workload = await runtime.create_workload(a_spec("sleep 1000"), Extras())
    await asyncio.to_thread(podman_env.podman, "pause", workload)
    await runtime.delete_workload(workload)
    assert podman_env.containers() == []


async def test_control_interface_files_and_devices_are_in_the_container(runtime: PodmanRuntime, tmp_path: Path) -> None:
    interface, file = tmp_path / "control_interface", tmp_path / "app.conf"
    interface.mkdir()
    (interface / "input").touch()
    file.write_text("setting")
    grant = DeviceGrant(
        envs={"DEVICE": "1"},
        mounts=(DeviceMount("/mnt/x", str(tmp_path), read_only=True),),
        devices=(DeviceNode("/dev/mine", "/dev/null", "rw"),),
        annotations={"akri.sh/x": "1"},
    )
    script = (
        "ls /run/ankaios/control_interface; cat /etc/app.conf; echo; echo $DEVICE; ls /mnt/x;"
        "echo x > /dev/mine && echo device; (echo x > /etc/app.conf) 2> /dev/null || echo readonly"
    )
    extras = Extras(control_interface=interface, files={file: "/etc/app.conf"}, grants=(grant,))
    spec = a_spec(script)
    workload = await runtime.create_workload(spec, extras)
    log = StateLog()
    checker = runtime.start_checker(spec, workload, log)
    await log.until(SUCCEEDED_OK)
    checker.stop()
    expected = [b"input", b"setting", b"1", b"app.conf", b"control_interface", b"device", b"readonly"]
    async with asyncio.timeout(LIMIT):  # the end can be reported before the last line is in the log
        while await _output(runtime, workload) != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _output(runtime: PodmanRuntime, workload: str) -> list[bytes]:
    lines = b"".join([piece async for piece in runtime.logs(workload, LogOptions())]).split(b"\n")
    return [line for line in lines if line]


async def test_many_containers_ending_at_the_same_moment_are_all_reported(
    runtime: PodmanRuntime, tmp_path: Path
) -> None:
    count = 20
    grant = DeviceGrant(mounts=(DeviceMount("/go", str(tmp_path)),))
    specs = [a_spec("while [ ! -e /go/now ]; do sleep 0.02; done; exit 3", f"w{number}") for number in range(count)]
    ids = await asyncio.gather(*(runtime.create_workload(spec, Extras(grants=(grant,))) for spec in specs))
    logs = [StateLog() for _ in specs]
    checkers = [
        runtime.start_checker(spec, workload, log) for spec, workload, log in zip(specs, ids, logs, strict=True)
    ]
    for log in logs:
        await log.until(RUNNING_OK)
    (tmp_path / "now").touch()
    for log in logs:
        await log.until(exited(3))
        assert log.states == [RUNNING_OK, exited(3)]
    for checker in checkers:
        checker.stop()


async def test_a_restarted_agent_resumes_with_one_listing(
    podman_env: PodmanEnv,  # noqa: F811
    runtime: PodmanRuntime,
) -> None:
    specs = [a_spec(FOREVER, f"w{number}") for number in range(5)]
    for spec in specs:
        await runtime.create_workload(spec, Extras())
    restarted = a_runtime(podman_env)
    assert len(await restarted.existing_workloads("agent_A")) == 5
    logs = []
    for spec in specs:
        workload = await restarted.workload_id(spec.instance_name)
        assert workload is not None
        logs.append(StateLog())
        restarted.start_checker(spec, workload, logs[-1])
    for log in logs:
        assert await log.first() == RUNNING_OK
    await restarted.close()


async def test_a_podman_service_can_be_used_through_its_socket(podman_env: PodmanEnv) -> None:  # noqa: F811
    socket = podman_env.root / "podman.sock"
    service = await asyncio.create_subprocess_exec(
        *("podman", "system", "service", "--time=0", f"unix://{socket}"), env=podman_env.environ
    )
    async with asyncio.timeout(LIMIT):
        while not socket.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    runtime = PodmanRuntime(Podman(PodmanCli(PodmanSettings(socket=str(socket)))))
    spec = a_spec("sleep 0.3; exit 3")
    workload = await runtime.create_workload(spec, Extras())
    log = StateLog()
    checker = runtime.start_checker(spec, workload, log)
    await log.until(exited(3))
    checker.stop()
    assert [container["Id"] for container in podman_env.containers()] == [workload]
    await runtime.delete_workload(workload)
    await runtime.close()
    service.terminate()
    await service.wait()
