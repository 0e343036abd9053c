"""The state file on disk: complete, private, and ignored if it cannot be trusted."""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ankaios.agent.core.offline_state import ForeignState, OfflineState, encode_offline_state
from ankaios.agent.offline_store import OfflineStore
from ankaios.common.execution_state import RUNNING_OK
from ankaios.common.pb.ank_base_pb2 import DeviceConfigurationMap, DeviceInstance
from ankaios.common.pb.grpc_api_pb2 import DeviceUpdate
from ankaios.common.workload import AddCondition, DeletedWorkload, InstanceName
from tests.support.builders import a_workload

STATE = OfflineState("A", (a_workload("web"),))


async def write(store: OfflineStore, state: OfflineState) -> None:
    store.assign(state.workloads)
    await written(store, state)


async def written(store: OfflineStore, state: OfflineState) -> None:
    work = asyncio.create_task(store.run(lambda _: {known.name: known.state for known in state.states}))
    async with asyncio.timeout(10):
        while not store.path.exists() or store.path.read_bytes() != encode_offline_state(state):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    work.cancel()


async def test_a_state_is_written_privately_and_read_by_the_next_agent(tmp_path: Path) -> None:
    store = OfflineStore(tmp_path / "new", "A")
    assert store.load() is None
    await write(store, STATE)
    assert oct(store.path.stat().st_mode & 0o777) == "0o600"
    assert oct(store.path.parent.stat().st_mode & 0o777) == "0o700"
    assert OfflineStore(tmp_path / "new", "A").load() == STATE
    await write(store, OfflineState("A"))
    assert OfflineStore(tmp_path / "new", "A").load() == OfflineState("A")
    assert [path.name for path in store.path.parent.iterdir()] == ["A.state"]


async def test_the_stored_workloads_follow_the_messages_of_the_server(tmp_path: Path) -> None:
    store = OfflineStore(tmp_path, "A")
    web, db, new = a_workload("web"), a_workload("db"), a_workload("web", config="two")
    store.assign([web, db])
    store.update([new], [DeletedWorkload(web.instance_name), DeletedWorkload(db.instance_name)])
    await written(store, OfflineState("A", (new,)))


async def test_states_and_devices_are_stored(tmp_path: Path) -> None:
    store = OfflineStore(tmp_path, "A")
    web = a_workload("web", dependencies={"db": AddCondition.ADD_COND_RUNNING})
    await write(store, OfflineState("A", (web,)))
    later = OfflineStore(tmp_path, "A")
    later.load()
    later.states_changed(["other"])
    assert not later._changed.is_set()
    later.states_changed(["other", "db"])
    state = OfflineState("A", (web,), (ForeignState(InstanceName("db", "1", "B"), RUNNING_OK),))
    await written(later, state)
    configurations = DeviceConfigurationMap()
    later.put_devices(DeviceUpdate(complete=True, configurations=configurations, instances={"a": DeviceInstance()}))
    devices = DeviceUpdate(complete=True, configurations=configurations).SerializeToString()
    await written(later, replace(state, devices=devices))


async def test_the_partly_written_file_of_a_killed_agent_is_ignored(tmp_path: Path) -> None:
    store = OfflineStore(tmp_path, "A")
    (tmp_path / "A.new").write_text("half")
    await write(store, STATE)
    assert store.load() == STATE


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def open_to_the_group(path: Path) -> None:
    path.chmod(0o620)


def become_a_link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to(path.with_name("other"))


def become_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut_off, "it is damaged"),
        (open_to_the_group, "it has mode 0620, so others could have changed it"),
        (become_a_link, "Too many levels of symbolic links"),
        (become_a_fifo, "it is not a regular file"),
        (become_a_folder, "Is a directory"),
    ],
)
async def test_a_file_that_cannot_be_trusted_is_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None], reason: str
) -> None:
    store = OfflineStore(tmp_path / "s", "A")
    store.load()
    await write(store, STATE)
    damage(store.path)
    with caplog.at_level(logging.WARNING):
        assert OfflineStore(tmp_path / "s", "A").load() is None
    assert f"is ignored: {reason}" in caplog.text


async def test_a_folder_that_cannot_be_used_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    store = OfflineStore(tmp_path / "file", "A")
    with caplog.at_level(logging.WARNING):
        assert store.load() is None
        assert not await store._write(b"x")
        assert not await store._write(b"x")
    assert "is ignored: the folder is not a folder" in caplog.text
    assert caplog.text.count("cannot be written: the folder is not a folder") == 1
