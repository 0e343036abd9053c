"""Native workloads of root that run as another user: they can use their files, and no files of the host."""

import asyncio
import marshal
import os
import stat
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from ankaios.agent.fifo import make_fifo
from ankaios.agent.run_folder import RunFolder
from ankaios.agent.workload_files import write_files
from ankaios.common.workload import File, InstanceName
from ankaios.runtimes.native.native_runtime import PACKAGES, SHIM, NativeRuntime
from ankaios.runtimes.native.order import NativeConfig, make_order
from ankaios.runtimes.native.processes import NativeFolder
from ankaios.runtimes.native.users import find_user
from ankaios.runtimes.runtime_connector import Extras, RuntimeFailed
from tests.integration.runtimes.state_log import LIMIT
from tests.support.builders import a_workload
from tests.support.leftovers import RUN_VARIABLE
from tests.support.mount_rights import needs_mounts

pytestmark = needs_mounts
AGENT, NOBODY = "agent_A", 65534


class Node:
    """An agent's run folder in a folder that every user may reach, and a folder in which `nobody` may write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        run = os.environ[RUN_VARIABLE]
        for above in (folder, *(each for each in folder.parents if each.is_relative_to(run))):
            above.chmod(above.stat().st_mode | 0o011)
        self.out = folder / "out"
        self.out.mkdir()
        os.chown(self.out, NOBODY, NOBODY)
        self.base = folder / "run"
        self.base.mkdir()
        self.run_folder = RunFolder(self.base, AGENT)
        self.run_folder.prepare()
        self.runtime = NativeRuntime(self.base / f"{AGENT}_native", stop_time=1.0)

    def prepare(self, name: InstanceName, files: Mapping[str, str]) -> Extras:
        """Created as by the agent."""
        self.run_folder.make(name)
        interface = self.run_folder.control_interface(name)
        interface.mkdir(exist_ok=True)
        for fifo in ("input", "output"):
            make_fifo(interface / fifo)
        wanted = [File(target, data=text) for target, text in files.items()]
        return Extras(interface, write_files(self.run_folder.files(name), wanted))

    async def run(self, script: str, **files: str) -> int:
        """The exit code of a script that runs as `nobody`; files are mounted into the folder `mounted`."""
        config = f"command: [sh, -c, '{script}']\nworkingDir: {self.out}\nuser: nobody"
        self.spec = a_workload("web", AGENT, "native", config)
        targets = {str(self.folder / "mounted" / name): text for name, text in files.items()}
        return await self.start(self.prepare(self.spec.instance_name, targets))

    async def start(self, extras: Extras) -> int:
        workload = await self.runtime.create_workload(self.spec, extras)
        folder = NativeFolder(self.base / f"{AGENT}_native" / workload)
        async with asyncio.timeout(LIMIT):
            while (code := folder.exit_code()) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return code


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path)
    yield made
    for found in await made.runtime.existing_workloads(AGENT):
        await made.runtime.delete_workload(str(found.instance_name))


async def test_another_user_can_use_its_control_interface_and_read_its_files(node: Node) -> None:
    script = (
        "cd $ANKAIOS_CONTROL_INTERFACE && test -r input && test -w output && touch mine && "
        f"test $(cat {node.folder}/mounted/app.conf) = secret && ! touch {node.folder}/mounted/app.conf"
    )
    assert await node.run(script, **{"app.conf": "secret"}) == 0


async def test_another_user_cannot_reach_the_files_of_any_workload_on_the_host(node: Node) -> None:
    other = a_workload("other", AGENT).instance_name
    extras = node.prepare(other, {"/etc/secret": "x"})
    (secret,) = extras.files
    assert secret.read_text() == "x"
    assert await node.run(f"! cat {secret} && ! ls {node.run_folder.of(other)} && ! ls {node.run_folder.path}") == 0


async def test_a_link_in_place_of_a_fifo_is_not_followed(node: Node) -> None:
    """The workload replaces a FIFO by a link and ends; a restart must not change the owner of the linked file."""
    secret = node.folder / "shadow"
    secret.write_text("secret")
    secret.chmod(0o600)
    script = f"cd $ANKAIOS_CONTROL_INTERFACE && rm input && ln -s {secret} input"
    assert await node.run(script) == 0
    interface = node.run_folder.control_interface(node.spec.instance_name)
    assert (interface / "input").is_symlink()
    with pytest.raises(RuntimeFailed, match="'input' of the control interface is not the FIFO that the agent made"):
        await node.start(Extras(interface))
    assert (secret.stat().st_uid, stat.S_IMODE(secret.stat().st_mode)) == (0, 0o600)


async def test_without_mounts_only_that_user_can_reach_its_folders(node: Node) -> None:
    config = NativeConfig.parse(f"command: [sh]\nworkingDir: {node.out}\nuser: nobody")
    name = a_workload("web", AGENT).instance_name
    extras = node.prepare(name, {"/etc/app.conf": "secret"})
    folder = node.folder / "keeper"
    folder.mkdir(mode=0o700)
    order = make_order(config, extras, str(folder), find_user("nobody"), os.environ)
    order["command"] = [
        *("sh", "-c"),
        "cat $ANKAIOS_FILES/etc/app.conf >seen && test -w $ANKAIOS_CONTROL_INTERFACE/output && echo ok >>seen",
    ]
    shim = ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-I", "-S", "-c", SHIM, str(PACKAGES)]
    process = await asyncio.create_subprocess_exec(*shim, stdin=asyncio.subprocess.PIPE)
    await process.communicate(marshal.dumps(order))
    async with asyncio.timeout(LIMIT):
        while NativeFolder(folder).exit_code() is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (node.out / "seen").read_text() == "secretok\n"
    (secret,) = extras.files
    for path in (secret, node.run_folder.control_interface(name), node.run_folder.of(name)):
        spy = await asyncio.create_subprocess_exec(
            *("setpriv", "--reuid=4711", "--regid=4711", "--clear-groups", "ls", str(path)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert await spy.wait() != 0, path
