"""Calls of podman by the podman-kube connector, and handling of the answers."""

import asyncio
import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from ankaios.common.device_grant import DeviceGrant, DeviceNode
from ankaios.common.execution_state import FAILED_LOST, RUNNING_OK, SUCCEEDED_OK, exited
from ankaios.common.workload import File, InstanceName, WorkloadSpec
from ankaios.runtimes.command import CommandFailed
from ankaios.runtimes.podman.kube_workload import KubeConfig
from ankaios.runtimes.podman.podman_kube_runtime import PodmanKubeRuntime
from ankaios.runtimes.podman.podman_runtime import Podman
from ankaios.runtimes.podman.states import METADATA_UNREADABLE
from ankaios.runtimes.runtime_connector import Existing, Extras, LogOptions, RuntimeFailed, Unsupported
from tests.support.builders import a_workload, an_instance
from tests.unit.runtimes.recording_cli import PS, RecordingCli, a_container, failed

CONFIG = """\
manifest: |
  apiVersion: v1
  kind: Pod
  metadata: {name: shop}
  spec:
    containers:
    - {name: web, image: localhost/bb, command: [/bin/sleep, "60"]}
"""
SPEC = a_workload("shop", "agA", "podman-kube", CONFIG)
NAME = SPEC.instance_name
MANIFEST = KubeConfig.parse(CONFIG).manifest
POD = "7cc9849d750775a79e2581bbdcc4731e4ecc84f7ba0ad13b2951d843992d04b3"
PLAYED = f"Pod:\n{POD}\nContainer:\nabc\n\n"
CONFIG_DATA = (
    "bWFuaWZlc3Q6IHwKICBhcGlWZXJzaW9uOiB2MQogIGtpbmQ6IFBvZAogIG1ldGFkYXRhOiB7bmFtZTogc2hvcH0KICBzcGVjOgogICAgY29udGFp"
    "bmVyczoKICAgIC0ge25hbWU6IHdlYiwgaW1hZ2U6IGxvY2FsaG9zdC9iYiwgY29tbWFuZDogWy9iaW4vc2xlZXAsICI2MCJdfQo"
)
PODS_DATA = "WyI3Y2M5ODQ5ZDc1MDc3NWE3OWUyNTgxYmJkY2M0NzMxZTRlY2M4NGY3YmEwYWQxM2IyOTUxZDg0Mzk5MmQwNGIzIl0"


def a_kube_cli(*containers: dict[str, Any]) -> RecordingCli:
    cli = RecordingCli(containers)
    cli.answers |= {"kube play": PLAYED, "volume rm": failed("no such volume"), "volume ls": "[]"}
    return cli


def volumes(**data: str) -> str:
    return json.dumps([{"Name": name, "Labels": {"data": text}} for name, text in data.items()])


def kept(name: InstanceName = NAME, config: str | None = CONFIG_DATA, pods: str | None = PODS_DATA) -> str:
    found = {f"{name}.config": config, f"{name}.pods": pods}
    return volumes(**{volume: data for volume, data in found.items() if data is not None})


def runtime_of(cli: RecordingCli) -> PodmanKubeRuntime:
    return PodmanKubeRuntime(Podman(cli))


def with_config(config: str) -> WorkloadSpec:
    return a_workload("shop", "agA", "podman-kube", config)


def test_the_runtime_name_is_podman_kube() -> None:
    """[utest->swdd~podman-kube-name-returns-podman-kube~1]"""
    assert PodmanKubeRuntime.name == "podman-kube"


async def test_creating_stores_config_plays_and_stores_pods_in_this_order() -> None:
    """[utest->swdd~podman-kube-create-workload-apply-manifest~1]
    [utest->swdd~podman-kube-create-workload-returns-workload-id~1]
    [utest->swdd~podman-kube-create-workload-creates-config-volume~1]
    [utest->swdd~podman-kube-create-workload-creates-pods-volume~1]
    """
    cli = a_kube_cli()
    assert str(NAME) == "shop.c0b4e45a645b7e9d52455f2aa9e1fff91c425b69de4412fd6df019f3eb67a4f0.agA"
    assert await runtime_of(cli).create_workload(SPEC, Extras()) == str(NAME)
    assert cli.lines() == [
        f"volume rm {NAME}.config",
        f"volume create --label=data={CONFIG_DATA} {NAME}.config",
        PS,
        "kube play --quiet -",
        f"volume rm {NAME}.pods",
        f"volume create --label=data={PODS_DATA} {NAME}.pods",
    ]
    assert cli.fed[3] == MANIFEST


async def test_options_have_their_documented_position() -> None:
    config = CONFIG + "generalOptions: [--g]\nplayOptions: [--p]\ndownOptions: [--d]\n"
    cli = a_kube_cli()
    runtime = runtime_of(cli)
    workload = await runtime.create_workload(with_config(config), Extras())
    await runtime.delete_workload(workload)
    assert "--g kube play --quiet --p -" in cli.lines()
    assert "kube down --d -" in cli.lines()


async def test_a_create_continues_if_the_volumes_cannot_be_created(caplog: pytest.LogCaptureFixture) -> None:
    """[utest->swdd~podman-kube-create-continues-if-cannot-create-volume~1]"""
    cli = a_kube_cli()
    cli.answers["volume create"] = failed("no space")
    assert await runtime_of(cli).create_workload(SPEC, Extras()) == str(NAME)
    assert caplog.text.count("cannot store volume") == 2


async def test_the_control_interface_is_mounted_into_the_target_container() -> None:
    config = CONFIG + "controlInterfaceTarget: shop/web\n"
    cli = a_kube_cli()
    await runtime_of(cli).create_workload(with_config(config), Extras(control_interface=Path("/ci")))
    assert "/run/ankaios/control_interface" in cli.fed[3]
    stored = cli.calls[1][2].removeprefix("--label=data=")
    assert base64.b64decode(stored + "==").decode() == config  # the original is stored


async def test_a_control_interface_without_target_is_rejected_before_any_call() -> None:
    cli = a_kube_cli()
    with pytest.raises(Unsupported, match="Control interface target not specified"):
        await runtime_of(cli).create_workload(SPEC, Extras(control_interface=Path("/ci")))
    assert cli.calls == []


async def test_devices_are_added_to_the_manifest(caplog: pytest.LogCaptureFixture) -> None:
    grants = (DeviceGrant(devices=(DeviceNode("/dev/a", "/dev/null"), DeviceNode("/dev/b", "/no/such/device"))),)
    cli = a_kube_cli()
    await runtime_of(cli).create_workload(SPEC, Extras(grants=grants))
    assert cli.fed[3].count("CharDevice") == 2
    assert "cannot read the type of device '/no/such/device'" in caplog.text


async def test_files_are_rejected() -> None:
    spec = a_workload("shop", "agA", "podman-kube", CONFIG, files=(File("/x", data="x"),))
    with pytest.raises(Unsupported) as caught:
        await runtime_of(a_kube_cli()).create_workload(spec, Extras())
    assert str(caught.value) == ("Workload files are not supported for podman-kube runtime. Use ConfigMaps instead.")


def pods(**names: str) -> str:
    return json.dumps([{"Id": pod, "Name": name} for pod, name in names.items()])


async def test_a_failed_play_removes_its_pods_and_the_volumes() -> None:
    """Otherwise every retry fails with "pod already exists" and the workload exists again after a restart."""
    cli = a_kube_cli(a_container("i1", Pod="theirs"))
    cli.answers["kube play"] = failed("failed to start 1 containers")
    cli.answers["pod ps"] = pods(theirs="shop-2", ours="shop", others="other")
    with pytest.raises(CommandFailed, match="failed to start 1 containers"):
        await runtime_of(cli).create_workload(SPEC, Extras())
    assert cli.lines()[4:] == [
        "pod ps --format=json",
        "pod rm --force --ignore ours",
        f"volume rm {NAME}.pods",
        f"volume rm {NAME}.config",
    ]


async def test_a_failed_play_does_not_remove_an_existing_pod_with_the_same_name() -> None:
    cli = a_kube_cli(a_container("i1", Pod="theirs"))
    cli.answers |= {"kube play": failed("pod already exists"), "pod ps": pods(theirs="shop")}
    with pytest.raises(CommandFailed, match="pod already exists"):
        await runtime_of(cli).create_workload(SPEC, Extras())
    assert cli.count("pod rm") == cli.count("kube down") == 0


@pytest.mark.parametrize("broken", ["pod ps", "pod rm"])
async def test_a_failed_clean_up_does_not_hide_the_error_of_the_play_and_is_repeated(broken: str) -> None:
    """A podman that is killed during a call, or hangs, does neither; its pod would block every retry."""
    cli = a_kube_cli()
    cli.answers |= {"kube play": failed("first"), "pod ps": pods(ours="shop"), broken: failed("second")}
    runtime = runtime_of(cli)
    with pytest.raises(CommandFailed, match="first"):
        await runtime.create_workload(SPEC, Extras())
    assert cli.count(f"volume rm {NAME}.pods") == 0, "what may be left can be found after a restart of the agent"
    cli.show(a_container("i1", Pod="ours"))
    cli.answers |= {"kube play": failed("pod already exists"), "pod ps": pods(ours="shop"), "pod rm": ""}
    with pytest.raises(CommandFailed, match="pod already exists"):
        await runtime.create_workload(SPEC, Extras())
    assert cli.lines()[-3:] == [
        "pod rm --force --ignore ours",
        f"volume rm {NAME}.pods",
        f"volume rm {NAME}.config",
    ]


async def test_pods_from_before_a_failed_start_are_ignored_after_a_delete() -> None:
    """Pods that were created since do not belong to the workload either."""
    cli = a_kube_cli()
    cli.answers |= {"kube play": failed("first"), "pod ps": failed("second"), "volume ls": kept(pods=None)}
    runtime = runtime_of(cli)
    with pytest.raises(CommandFailed, match="first"):
        await runtime.create_workload(SPEC, Extras())
    await runtime.delete_workload(str(NAME))
    cli.show(a_container("i1", Pod="theirs"))
    cli.answers |= {"kube play": failed("pod already exists"), "pod ps": pods(theirs="shop")}
    with pytest.raises(CommandFailed, match="pod already exists"):
        await runtime.create_workload(SPEC, Extras())
    assert cli.count("pod rm") == 0


async def test_nothing_is_played_if_existing_pods_cannot_be_listed() -> None:
    cli = a_kube_cli()
    cli.answers[PS] = failed("no list")
    with pytest.raises(CommandFailed, match="no list"):
        await runtime_of(cli).create_workload(SPEC, Extras())
    assert cli.count("kube play") == 0


async def test_a_restart_removes_the_ended_pods_first() -> None:
    cli = a_kube_cli()
    runtime = runtime_of(cli)
    workload = await runtime.create_workload(SPEC, Extras())
    began = len(cli.calls)
    assert await runtime.create_workload(SPEC, Extras(reuse=workload)) == workload
    verbs = [line.split(" -")[0] for line in cli.lines()[began:] if line.startswith("kube")]
    assert verbs == ["kube down", "kube play"]


async def test_deleting_removes_the_pods_of_the_manifest_and_the_volumes() -> None:
    """[utest->swdd~podman-kube-delete-workload-downs-manifest-file~1]
    [utest->swdd~podman-kube-delete-removes-volumes~1]
    """
    cli = a_kube_cli()
    runtime = runtime_of(cli)
    workload = await runtime.create_workload(SPEC, Extras())
    began = len(cli.calls)
    await runtime.delete_workload(workload)
    assert cli.lines()[began:] == ["kube down -", f"volume rm {NAME}.pods", f"volume rm {NAME}.config"]
    assert cli.fed[began] == MANIFEST


async def test_after_a_restart_of_the_agent_the_volumes_contain_the_data_for_a_delete() -> None:
    cli = a_kube_cli()
    cli.answers["volume ls"] = kept()
    await runtime_of(cli).delete_workload(str(NAME))
    assert cli.lines()[:2] == [f"volume ls --filter name=^{NAME}.(config|pods)$ --format=json", "kube down -"]
    assert cli.fed[1] == MANIFEST


async def test_a_failing_down_removes_the_pods_by_id() -> None:
    """Podman fails for a pod that is already removed."""
    cli = a_kube_cli()
    cli.answers |= {"kube down": failed("no such pod"), "volume ls": kept()}
    await runtime_of(cli).delete_workload(str(NAME))
    assert cli.lines()[2] == f"pod rm --force --ignore {POD}"
    assert cli.lines()[-1] == f"volume rm {NAME}.config"


async def test_a_delete_that_fails_keeps_the_volumes() -> None:
    cli = a_kube_cli()
    cli.answers |= {"kube down": failed("device busy"), "pod rm": failed("still busy"), "volume ls": kept()}
    runtime = runtime_of(cli)
    with pytest.raises(CommandFailed, match="still busy"):
        await runtime.delete_workload(str(NAME))
    assert cli.count("volume rm") == 0
    cli.answers["volume ls"] = kept(pods=None)
    with pytest.raises(CommandFailed, match="device busy"):
        await runtime_of(cli).delete_workload(str(NAME))


async def test_unknown_pods_that_are_missing_count_as_deleted() -> None:
    cli = a_kube_cli()
    cli.answers |= {"kube down": failed("no pod with name or ID shop found: no such pod"), "volume ls": kept(pods=None)}
    await runtime_of(cli).delete_workload(str(NAME))
    assert cli.lines()[-1] == f"volume rm {NAME}.config"


async def test_a_workload_with_an_unreadable_config_can_still_be_deleted() -> None:
    cli = a_kube_cli()
    cli.answers["volume ls"] = kept(config="!")
    runtime = runtime_of(cli)
    assert await runtime.existing_workloads("agA") == [Existing(NAME, METADATA_UNREADABLE)]
    await runtime.delete_workload(str(NAME))
    assert f"pod rm --force --ignore {POD}" in cli.lines()
    assert cli.count("kube down") == 0


async def test_deleting_an_unknown_workload_succeeds() -> None:
    cli = a_kube_cli()
    await runtime_of(cli).delete_workload(str(NAME))
    await runtime_of(cli).delete_workload("no instance name")
    assert cli.count("kube down") == 0


async def test_existing_workloads_are_found_by_their_config_volumes() -> None:
    """[utest->swdd~podman-kube-list-existing-workloads-using-config-volumes~1]"""
    cli = a_kube_cli(a_container("c", "exited", Pod=POD, ExitCode=2))
    cli.answers["volume ls"] = kept()
    assert await runtime_of(cli).existing_workloads("agA") == [Existing(NAME, exited(2))]
    assert cli.lines() == [PS, "volume ls --filter name=.agA.(config|pods)$ --format=json"]


async def test_workloads_of_agents_with_the_same_name_suffix_are_not_listed() -> None:
    other = an_instance("shop", "xagA")
    cli = a_kube_cli()
    cli.answers["volume ls"] = kept(other)
    assert await runtime_of(cli).existing_workloads("agA") == []
    cli.answers["volume ls"] = volumes(**{"w.1.Bx.config": CONFIG_DATA, "no.config": CONFIG_DATA})
    assert await runtime_of(cli).existing_workloads("B") == []


@pytest.mark.parametrize(
    ("pods", "state"),
    [
        (None, SUCCEEDED_OK),
        ("bm8", SUCCEEDED_OK),
        ("W10", FAILED_LOST),
        ("WzFd", SUCCEEDED_OK),
        (PODS_DATA, RUNNING_OK),
    ],
)
async def test_the_pods_volume_may_be_missing_or_unreadable(pods: str | None, state: object) -> None:
    cli = a_kube_cli(a_container("c", Pod=POD))
    cli.answers["volume ls"] = kept(pods=pods)
    (found,) = await runtime_of(cli).existing_workloads("agA")
    assert found == Existing(NAME, state)  # type: ignore[arg-type]


async def test_a_listing_that_fails_is_an_error_so_that_the_agent_retries() -> None:
    cli = a_kube_cli()
    cli.answers |= {"volume ls": kept(), PS: failed()}
    with pytest.raises(RuntimeFailed):
        await runtime_of(cli).existing_workloads("agA")
    cli.answers["volume ls"] = failed()
    with pytest.raises(RuntimeFailed):
        await runtime_of(cli).existing_workloads("agA")


async def test_the_id_of_a_workload_is_found_by_its_volumes() -> None:
    """[utest->swdd~podman-kube-get-workload-id-uses-volumes~1]"""
    cli = a_kube_cli()
    assert await runtime_of(cli).workload_id(NAME) is None
    cli.answers["volume ls"] = kept()
    assert await runtime_of(cli).workload_id(NAME) == str(NAME)


async def test_the_pods_of_a_resumed_workload_come_from_its_volume(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cli = a_kube_cli(a_container("c", "exited", Pod=POD, ExitCode=2))
    cli.answers["volume ls"] = kept()
    runtime = runtime_of(cli)
    reported: list[object] = []
    checker = runtime.start_checker(SPEC, str(NAME), reported.append)
    for _ in range(20):
        await asyncio.sleep(0)
    assert reported == [exited(2)]
    checker.stop()
    await runtime.close()


async def test_a_workload_without_data_cannot_be_watched() -> None:
    runtime = runtime_of(a_kube_cli())
    with pytest.raises(RuntimeFailed, match="cannot find the data of"):
        await runtime._find_pods(str(NAME))


async def test_logs_are_those_of_all_containers_but_the_infra_container(monkeypatch: pytest.MonkeyPatch) -> None:
    cli = a_kube_cli(
        a_container("c1", Pod=POD, Names=["shop-web"]),
        a_container("c2", Pod=POD),
        a_container("c3", Pod=POD, IsInfra=True),
        a_container("c4", Pod="other"),
    )
    cli.answers["volume ls"] = kept()
    calls: list[list[str]] = []

    async def output(text: bytes):  # type: ignore[no-untyped-def]
        yield text

    def logs(arguments: list[str]) -> object:
        calls.append(arguments)
        return output(f"of {arguments[-1]}\n".encode())

    monkeypatch.setattr(cli, "logs", logs)
    pieces = [piece async for piece in runtime_of(cli).logs(str(NAME), LogOptions(tail=3))]
    assert sorted(pieces) == [b"c2: of c2\n", b"shop-web: of c1\n"]
    assert calls == [["logs", "--tail", "3", "c1"], ["logs", "--tail", "3", "c2"]]


async def test_an_out_of_memory_kill_of_one_container_counts_for_the_pod() -> None:
    cli = a_kube_cli(a_container("c1", Pod=POD), a_container("c2", Pod=POD), a_container("c3", Pod="other"))
    cli.answers["volume ls"] = kept()
    inspect = "container inspect --format {{.State.OOMKilled}}"
    cli.answers |= {f"{inspect} c1": "false\n", f"{inspect} c2": "false\n", f"{inspect} c3": "true\n"}
    assert not await runtime_of(cli).was_out_of_memory(str(NAME))
    cli.answers[f"{inspect} c2"] = "true\n"
    assert await runtime_of(cli).was_out_of_memory(str(NAME))
