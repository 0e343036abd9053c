import json
import logging
import os
from hashlib import blake2b
from pathlib import Path

import pytest

from ankaios.common.device_grant import DeviceGrant, DeviceMount, DeviceNode
from ankaios.common.errors import Unavailable
from ankaios.devices.checked_file import read_checked, write_checked
from ankaios.devices.claim_store import Allocation, ClaimRecord, ClaimStore
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.node_devices import HeldSlot
from ankaios.devices.core.slot_ledger import Claim, Slot
from tests.unit.devices.crashes import STEPS, crash_at

DEVICE = DiscoveredDevice("foo0", {"URL": "ä"}, (DeviceMount("/c", "/h", True),), (DeviceNode("/d", "/e", "rw"),))
INSTANCE = Instance.of("cam", DEVICE, True, "a")
GRANT = DeviceGrant(
    {"A": "1"}, (DeviceMount("/c", "/h"),), (DeviceNode("/d", "/e"),), {"k": "v"}, ("v/c=d",), "pod/web"
)
RECORD = ClaimRecord(
    "web.1.a",
    (Allocation("akri.sh/cam", "pod/web", ("0",), GRANT), Allocation("x/gpu", None, ("g0", "g1"))),
    (HeldSlot(Slot(INSTANCE.name, 1), Claim("a", "0", "web.1.a"), INSTANCE, 2),),
)


def a_store(folder: Path) -> ClaimStore:
    store = ClaimStore(folder)
    assert list(store.load()) == []  # makes the folders
    return store


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_checked(tmp_path / "record", RECORD)
    assert read_checked(tmp_path / "record", ClaimRecord) == RECORD


def test_records_are_kept_one_by_one(tmp_path: Path) -> None:
    store = ClaimStore(tmp_path)
    assert list(store.load()) == []
    other = ClaimRecord("other.1.a", ())
    for record in (RECORD, other, RECORD):
        store.save(record)
    assert sorted(ClaimStore(tmp_path).load(), key=lambda it: it.owner) == [other, RECORD]
    store.remove("web.1.a", 0)
    store.remove("web.1.a", 0)
    assert list(store.load()) == [other]


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"record": {}, "checksum": ""}'])
def test_a_record_with_invalid_content_is_dropped_and_logged(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = a_store(tmp_path)
    store.save(RECORD)
    (path,) = (tmp_path / "claims").iterdir()
    path.write_text(damage)
    with caplog.at_level(logging.WARNING):
        assert list(store.load()) == []
    assert "are not valid and are dropped" in caplog.text
    assert not path.exists()


def test_a_record_that_cannot_be_read_now_is_kept_for_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, claims = a_store(tmp_path), tmp_path / "claims"
    store.save(RECORD)
    (claims / "dir.json").mkdir()
    (claims / "link.json").symlink_to(tmp_path / "missing")
    with caplog.at_level(logging.WARNING):
        assert list(store.load()) == [RECORD]
    assert caplog.text.count("cannot be read now") == 2
    assert len(list(claims.iterdir())) == 3


def test_the_newest_record_comes_first(tmp_path: Path) -> None:
    store, claims = a_store(tmp_path), tmp_path / "claims"
    for age, owner in enumerate("abcdef"):
        before = set(claims.iterdir())
        store.save(ClaimRecord(owner, ()))
        (path,) = set(claims.iterdir()) - before
        os.utime(path, (1000 - age, 1000 - age))
    assert [record.owner for record in store.load()] == list("abcdef")


def test_the_loss_of_a_slot_is_recorded(tmp_path: Path) -> None:
    lost = ClaimRecord("web.1.a", (), (), lost=True)
    write_checked(tmp_path / "record", lost)
    assert read_checked(tmp_path / "record", ClaimRecord) == lost


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_keeps_the_previous_record(tmp_path: Path, step: str) -> None:
    store, newer = a_store(tmp_path), ClaimRecord("web.1.a", (), (), lost=True)
    store.save(RECORD)
    with crash_at(step):
        store.save(newer)
    after = ClaimStore(tmp_path)
    assert list(after.load()) == [RECORD]
    assert len(list((tmp_path / "claims").iterdir())) == 1  # the temporary file of the crash is removed
    after.save(newer)
    assert list(after.load()) == [newer]


def test_only_the_owner_of_the_agent_can_read_records(tmp_path: Path) -> None:
    a_store(tmp_path).save(RECORD)
    (path,) = (tmp_path / "claims").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_record_that_cannot_be_removed_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "claims").touch()
    with caplog.at_level(logging.WARNING):
        ClaimStore(tmp_path).remove("w1", 0)
    assert "cannot remove" in caplog.text
    assert "of 'w1'" in caplog.text


def test_a_record_that_was_changed_is_not_accepted(tmp_path: Path) -> None:
    path = tmp_path / "record"
    write_checked(path, RECORD)
    document = json.loads(path.read_text())
    document["record"]["owner"] = "another owner"
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="checksum"):
        read_checked(path, ClaimRecord)


def test_a_record_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot keep the claims of 'web"):
        ClaimStore(tmp_path / "missing").save(RECORD)


def test_a_record_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    """The file outlives an upgrade of the agent while its workloads run."""
    written = (
        '{"checksum": "%s", "record": {"owner": "w", "allocations": [{"resource": "akri.sh/cam", "container": null, '
        '"ids": ["0"], "grant": {"envs": {"A": "1"}, "mounts": [], "devices": [], "annotations": {}, "cdi_devices": '
        '[], "container": null}}], "slots": [], "lost": false}}'
    )
    content = json.dumps(json.loads(written)["record"])
    path = tmp_path / "record"
    path.write_text(written % blake2b(content.encode(), digest_size=8).hexdigest())
    assert read_checked(path, ClaimRecord) == ClaimRecord(
        "w", (Allocation("akri.sh/cam", None, ("0",), DeviceGrant({"A": "1"})),)
    )


# --- the devices files of containers


def write(store: ClaimStore, **envs: str) -> DeviceGrant:
    return store.write_devices_file("w1", 0, DeviceGrant(envs), ())


def test_a_devices_file_can_be_read_by_all_users_and_is_part_of_the_grant(tmp_path: Path) -> None:
    grant = write(a_store(tmp_path), A="1")
    (path,) = (tmp_path / "files").iterdir()
    assert grant.envs == {"A": "1", "ANKAIOS_DEVICES_FILE": str(path)}
    assert (grant.mounts[0].host_path, grant.mounts[0].read_only) == (str(path), True)
    assert path.stat().st_mode & 0o777 == 0o444
    assert json.loads(path.read_text())


def test_a_devices_file_is_replaced_and_never_changed_in_place(tmp_path: Path) -> None:
    """A container that has it mounted keeps the content it was started with."""
    store = a_store(tmp_path)
    write(store, A="1")
    (path,) = (tmp_path / "files").iterdir()
    before = path.open()
    write(store, A="2")
    assert '"2"' in path.read_text()
    with before:
        assert '"2"' not in before.read()


def test_a_devices_file_with_the_same_content_is_not_written_again(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    write(store)
    (path,) = (tmp_path / "files").iterdir()
    before = path.stat()
    write(store)
    assert path.stat() == before


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_keeps_the_previous_devices_file(tmp_path: Path, step: str) -> None:
    store = a_store(tmp_path)
    write(store, A="1")
    (path,) = (tmp_path / "files").iterdir()
    before = path.read_text()
    with crash_at(step):
        write(store, A="2")
    assert path.read_text() == before
    again = a_store(tmp_path)
    assert list((tmp_path / "files").iterdir()) == [path]
    write(again, A="2")
    assert '"2"' in path.read_text()


def test_a_devices_file_that_cannot_be_written_leaves_no_temporary_file(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    write(store)
    (path,) = (tmp_path / "files").iterdir()
    store.remove("w1", 1)
    path.mkdir()
    with pytest.raises(Unavailable, match="cannot write the devices file"):
        write(store)
    assert list((tmp_path / "files").iterdir()) == [path]
