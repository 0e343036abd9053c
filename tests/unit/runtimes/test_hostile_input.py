"""Any runtimeConfig and log request has a result, is rejected, or is retried later.

Any other exception is a bug, which would be reported as an internal error of the agent.
"""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ankaios.agent.log_streams import options_of
from ankaios.agent.workload_files import write_files
from ankaios.common.device_grant import DeviceGrant, DeviceMount
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.workload import File
from ankaios.runtimes.containerd.containerd_runtime import ContainerdRuntime
from ankaios.runtimes.containerd.nerdctl_cli import NerdctlCli, NerdctlSettings
from ankaios.runtimes.native import native_runtime
from ankaios.runtimes.native.native_runtime import NativeRuntime
from ankaios.runtimes.podman.kube_manifest import exits_are_final, is_pod_of
from ankaios.runtimes.podman.kube_workload import KubeConfig, prepared_manifest
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_kube_runtime import PodmanKubeRuntime
from ankaios.runtimes.podman.podman_runtime import Podman, PodmanRuntime
from ankaios.runtimes.podman.podman_settings import PodmanSettings
from ankaios.runtimes.runtime_connector import Extras, LogOptions, RuntimeConnector
from tests.support.builders import a_workload
from tests.support.examples import examples

hostile = examples(120, derandomize=True, database=None)
by_process = examples(40, derandomize=True, database=None)  # each example starts programs

NASTY = [
    *("", " ", "²", "a\0b", "root", "root:", ":root", "root:²", "0", "-1", "4294967295", "1" * 5000, "nobody:\0"),
    *("64Mi", "1e9", "/", "//", "relative", "/a\0b", "/" + "a/" * 2000, "\ud7ff", "😀", "--", "{{a}}", "~", "null"),
    *("pod/container", "/", "a/b/c", "kind: [Pod]", "kind: {a: b}\nmetadata: []", "---\n---\n", "{", "&a [*a]"),
    "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}",
    "kind: Deployment\nmetadata: {name: p}\nspec: {template: {spec: {containers: 3}}}",
    "kind: Pod\nmetadata: {name: p, annotations: x}\nspec: {containers: [{name: c, env: 1, volumeMounts: a}]}",
]
texts = st.sampled_from(NASTY) | st.text(max_size=20)
scalars = texts | st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_infinity=False)
KEYS = [
    *("command", "workingDir", "env", "user", "limits", "openFiles", "fileSize", "image", "generalOptions"),
    *("commandOptions", "commandArgs", "manifest", "playOptions", "downOptions", "controlInterfaceTarget"),
]
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | texts, inner, max_size=3),
    max_leaves=6,
)
mappings = st.dictionaries(st.sampled_from(KEYS), values, max_size=5)
complete = st.builds(
    lambda more: {"command": ["true"], "image": "a", "manifest": NASTY[-3], **more},
    st.dictionaries(st.sampled_from(KEYS), values, max_size=2),
)
# JSON is YAML. Floats that JSON cannot represent become words that YAML reads as text.
configs = st.one_of(mappings, complete).map(json.dumps) | texts | st.text(max_size=200)
TRIGGERS = [
    'command: [a]\nuser: "²"',
    'command: [a]\nuser: "a\\0b"',
    'command: [a]\nuser: "root:a\\0b"',
    f'command: [a]\nuser: "{"1" * 5000}"',
    f"command: [a]\nlimits: {{openFiles: {'1' * 5000}}}",
    "manifest: |\n  kind: [Pod]",
]


def outcome(call: Callable[[], Awaitable[Any]]) -> None:
    """Run until a result or an expected error."""

    async def run() -> None:
        async with asyncio.timeout(60):
            try:
                await call()
            except (Rejected, Unavailable):
                return

    asyncio.run(run())


async def use(runtime: RuntimeConnector, config: str, extras: Extras) -> None:
    spec = a_workload("web", "A", runtime.name, config)
    try:
        await runtime.create_workload(spec, extras)
        await runtime.existing_workloads("A")
    finally:
        await runtime.close()


def everything(folder: Path) -> Extras:
    """A configuration whose required parts are valid, so that all other parts are read."""
    grant = DeviceGrant(envs={"A": "b"}, mounts=(DeviceMount("/x", "/y"),), annotations={"a": "b"})
    return Extras(control_interface=folder / "control_interface", grants=(grant,))


@pytest.fixture
def without_processes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Replaces the shim; the order must be marshallable."""
    orders: list[bytes] = []

    async def run_command(*_: object, stdin: bytes, **__: object) -> str:
        orders.append(stdin)
        return "ok"

    monkeypatch.setattr(native_runtime, "run_command", run_command)
    return orders


def for_each_trigger(test: Callable[..., None]) -> Callable[..., None]:
    for trigger in TRIGGERS:
        test = example(config=trigger)(test)
    return test


def test_a_native_configuration(without_processes: list[bytes]) -> None:
    @for_each_trigger
    @hostile
    @given(config=configs)
    def create(config: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            outcome(lambda: use(NativeRuntime(path / "native"), config, everything(path)))

    create()
    assert without_processes, "some of them are good"


@for_each_trigger
@by_process
@given(config=configs)
def test_a_podman_configuration(config: str) -> None:
    """`echo` accepts any arguments and prints output, as podman may."""
    outcome(lambda: use(PodmanRuntime(a_podman()), config, everything(Path("/x"))))


@for_each_trigger
@by_process
@given(config=configs)
def test_a_podman_kube_configuration(config: str) -> None:
    outcome(lambda: use(PodmanKubeRuntime(a_podman()), config, everything(Path("/x"))))


@by_process
@given(config=configs)
def test_a_containerd_configuration(config: str) -> None:
    cli = NerdctlCli(NerdctlSettings(program="/bin/echo"))
    outcome(lambda: use(ContainerdRuntime(cli), config, everything(Path("/x"))))


def a_podman() -> Podman:
    return Podman(PodmanCli(PodmanSettings(program="/bin/echo")))


NAMES = st.sampled_from(["Pod", "Deployment", "ConfigMap", "p", "c", "Never"])
PARTS = st.sampled_from(["kind", "metadata", "spec", "template", "containers", "name", "env", "volumes", "annotations"])
documents = st.recursive(
    NAMES | scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(PARTS, inner, min_size=1, max_size=4),
    max_leaves=12,
)


@hostile
@given(manifest=st.lists(documents.map(json.dumps), max_size=3).map("\n---\n".join) | configs, pod=texts)
@example(manifest="", pod="")
@example(manifest="kind: [Pod]", pod="p")
def test_a_kubernetes_manifest(manifest: str, pod: str) -> None:
    exits_are_final(manifest)
    is_pod_of(pod, manifest)
    with suppress(Rejected):
        prepared_manifest(KubeConfig(manifest, control_interface_target="p/c"), everything(Path("/x")))
    with suppress(Rejected):
        prepared_manifest(KubeConfig(manifest), Extras(grants=everything(Path("/x")).grants))


files = st.builds(File, mount_point=texts, data=texts) | st.builds(File, mount_point=texts, binary_data=texts)


@hostile
@given(wanted=st.lists(files, max_size=3))
@example(wanted=[File("/a" * 1500, data="x")])
def test_the_files_of_a_workload(wanted: list[File]) -> None:
    async def write(folder: Path) -> None:
        write_files(folder, wanted)

    with tempfile.TemporaryDirectory() as folder:
        outcome(lambda: write(Path(folder) / "files"))
        assert [path.name for path in Path(folder).iterdir()] in ([], ["files"])


# -- log requests

TIMES = [
    *("0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00", "9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.999999"),
    *(
        "2024-01-01",
        "2024-01-01T00:00:00Z",
        "1e400",
        "inf",
        "nan",
        "-1",
        "1.5",
        "9" * 400,
        "10m",
        "2024-13-01T00:00:00Z",
    ),
]
times = st.none() | st.sampled_from(TIMES) | texts
requests = st.builds(
    base.LogsRequest,
    follow=st.none() | st.just(False),
    tail=st.none() | st.integers(-(2**31), 2**31 - 1),
    since=times,
    until=times,
)


async def read(runtime: RuntimeConnector, options: LogOptions) -> None:
    try:
        async for _ in runtime.logs("web", options):
            pass
    finally:
        await runtime.close()


@hostile
@given(request=requests)
@example(request=base.LogsRequest(since=TIMES[0]))
@example(request=base.LogsRequest(until=TIMES[1]))
def test_a_request_for_the_logs_of_a_native_workload(request: base.LogsRequest) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "web").mkdir()
        (Path(folder) / "web/log").write_bytes(b"2024-01-01T00:00:00.000000000Z stdout F one\n" * 3)
        outcome(lambda: read(NativeRuntime(Path(folder)), options_of(request)))


@by_process
@given(request=requests)
def test_a_request_for_the_logs_of_a_container(request: base.LogsRequest) -> None:
    outcome(lambda: read(PodmanRuntime(a_podman()), options_of(request)))
