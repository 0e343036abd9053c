import json
import logging
import os
from pathlib import Path

import pytest

from ankaios.common.device_grant import DeviceGrant, DeviceMount, DeviceNode
from ankaios.common.errors import Unavailable
from ankaios.devices.claim_store import Allocation, ClaimStore, HeldSlot, Record, record_from_json, record_to_json
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.slot_ledger import Claim, Slot
from tests.unit.devices.crashes import STEPS, crash_at

DEVICE = DiscoveredDevice("foo0", {"URL": "ä"}, (DeviceMount("/c", "/h", True),), (DeviceNode("/d", "/e", "rw"),))
INSTANCE = Instance.of("cam", DEVICE, True, "a")
GRANT = DeviceGrant(
    {"A": "1"}, (DeviceMount("/c", "/h"),), (DeviceNode("/d", "/e"),), {"k": "v"}, ("v/c=d",), "pod/web"
)
RECORD = Record(
    "web.1.a",
    (Allocation("akri.sh/cam", "pod/web", ("0",), GRANT), Allocation("x/gpu", None, ("g0", "g1"))),
    (HeldSlot(Slot(INSTANCE.name, 1), Claim("a", "0", "web.1.a"), INSTANCE, 2),),
)


def test_a_record_is_read_as_it_was_written() -> None:
    assert record_from_json(record_to_json(RECORD)) == RECORD


def test_records_are_kept_one_by_one(tmp_path: Path) -> None:
    store = ClaimStore(tmp_path / "claims")
    assert list(store.load()) == []
    other = Record("other.1.a", ())
    for record in (RECORD, other, RECORD):
        store.save(record)
    assert sorted(ClaimStore(tmp_path / "claims").load(), key=lambda it: it.owner) == [other, RECORD]
    store.remove("web.1.a")
    store.remove("web.1.a")
    assert list(store.load()) == [other]


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"record": {}, "checksum": ""}'])
def test_what_cannot_be_read_is_dropped_and_said(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    store = ClaimStore(tmp_path)
    store.save(RECORD)
    (path,) = tmp_path.iterdir()
    path.write_text(damage)
    with caplog.at_level(logging.WARNING):
        assert list(store.load()) == []
    assert "cannot be read" in caplog.text
    assert not path.exists()


def test_what_the_disk_does_not_give_now_is_kept_for_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = ClaimStore(tmp_path)
    store.save(RECORD)
    (tmp_path / "dir.json").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "missing")
    with caplog.at_level(logging.WARNING):
        assert list(store.load()) == [RECORD]
    assert caplog.text.count("cannot be read now") == 2
    assert len(list(tmp_path.iterdir())) == 3


def test_the_newest_record_comes_first(tmp_path: Path) -> None:
    store = ClaimStore(tmp_path)
    for age, owner in enumerate("abcdef"):
        before = set(tmp_path.iterdir())
        store.save(Record(owner, ()))
        (path,) = set(tmp_path.iterdir()) - before
        os.utime(path, (1000 - age, 1000 - age))
    assert [record.owner for record in store.load()] == list("abcdef")


def test_that_a_slot_was_lost_is_kept() -> None:
    lost = Record("web.1.a", (), (), lost=True)
    assert record_from_json(record_to_json(lost)) == lost


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_leaves_the_record_before_whole(tmp_path: Path, step: str) -> None:
    store, newer = ClaimStore(tmp_path), Record("web.1.a", (), (), lost=True)
    store.save(RECORD)
    with crash_at(step):
        store.save(newer)
    after = ClaimStore(tmp_path)
    assert list(after.load()) == [RECORD]
    assert len(list(tmp_path.iterdir())) == 1  # what the crash left behind is gone
    after.save(newer)
    assert list(after.load()) == [newer]


def test_records_are_nobody_elses_business(tmp_path: Path) -> None:
    ClaimStore(tmp_path).save(RECORD)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_record_that_cannot_be_removed_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "claims").touch()
    with caplog.at_level(logging.WARNING):
        ClaimStore(tmp_path / "claims").remove("w1")
    assert "cannot remove the claims of 'w1'" in caplog.text


def test_a_record_that_was_changed_is_not_believed() -> None:
    document = json.loads(record_to_json(RECORD))
    document["record"]["owner"] = "somebody else"
    with pytest.raises(ValueError, match="checksum"):
        record_from_json(json.dumps(document))


def test_a_disk_that_refuses_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot keep the claims of 'web"):
        ClaimStore(tmp_path / "missing").save(RECORD)
