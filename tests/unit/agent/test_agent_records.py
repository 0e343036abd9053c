"""Records of an agent: what is sent to the server, and what a new agent process reads."""

import errno
from collections.abc import Iterable
from pathlib import Path

import pytest

from ankaios.agent import agent_records
from ankaios.agent.agent_records import AgentRecords, RecordFile
from ankaios.agent.server_link import Outbox
from ankaios.common.execution_state import RUNNING_OK, exited
from ankaios.common.pb.grpc_api_pb2 import ToServer
from ankaios.common.state_records import StateRecord
from ankaios.common.workload import InstanceName

WEB = InstanceName("web", "1", "n1")


class Sent(Outbox):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[ToServer] = []

    def put_transient(self, message: ToServer, left: object = None) -> None:
        del left
        self.messages.append(message)


def records_in(path: Path, outbox: Outbox | None = None, now: float = 10.0) -> AgentRecords:
    return AgentRecords(path, outbox or Sent(), lambda: now)


def sent_since(records: AgentRecords, outbox: Sent, since: int = 0) -> list[int]:
    outbox.messages.clear()
    records.send_since(since)
    return [record.timeMs for message in outbox.messages for record in message.workloadRecords.records]


async def test_records_are_kept_after_a_restart_of_the_agent(tmp_path: Path) -> None:
    before = records_in(tmp_path / "records")
    before.note(WEB, exited(1))
    before.detail(WEB, exit_code=1, output=("last words",))
    outbox = Sent()
    after = records_in(tmp_path / "records", outbox, now=20.0)
    assert after.note(WEB, exited(1)) == 10_000, "the state has not changed"
    assert sent_since(after, outbox) == [10_000]
    assert list(outbox.messages[0].workloadRecords.records[0].output) == ["last words"]


async def test_details_are_sent_only_to_a_server_that_requested_them(tmp_path: Path) -> None:
    outbox = Sent()
    records = records_in(tmp_path / "records", outbox)
    records.note(WEB, exited(1))
    records.detail(WEB, exit_code=1)
    assert outbox.messages == []
    assert sent_since(records, outbox, since=10_000) == []
    records.detail(WEB, output=("x",))
    assert len(outbox.messages) == 1
    records.disconnected()
    records.detail(WEB, output=("y",))
    assert len(outbox.messages) == 1


async def test_damaged_lines_are_skipped_reported_and_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = records_in(tmp_path / "records")
    before.note(WEB, RUNNING_OK)
    before.note(InstanceName("db", "1", "n1"), RUNNING_OK)
    with (tmp_path / "records").open("ab") as file:
        file.write(b'00000000 {"name": 1}\n{"na')
    outbox = Sent()
    after = records_in(tmp_path / "records", outbox)
    assert sent_since(after, outbox) == [10_000, 10_000]
    assert f"2 of 4 records in '{tmp_path}/records' are damaged and ignored" in caplog.text
    after.note(WEB, exited(1))
    caplog.clear()
    assert sent_since(records_in(tmp_path / "records", outbox), outbox) == [10_000, 10_000, 10_000]
    assert caplog.text == ""


async def test_a_file_with_damage_at_any_byte_is_read_without_its_damaged_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "records"
    records_in(path).note(WEB, exited(1))
    records_in(path).detail(WEB, output=("ä",))
    intact, outbox = path.read_bytes(), Sent()
    for position in range(len(intact)):
        damaged = bytearray(intact)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        caplog.clear()
        sent = sent_since(records_in(path, outbox), outbox)
        assert sent in ([10_000], [])
        assert "are damaged and ignored" in caplog.text


async def test_a_long_file_is_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_records, "MOST_LINES", 50)
    records = records_in(tmp_path / "records")
    for number in range(200):
        records.note(WEB, exited(number))
    assert (tmp_path / "records").read_bytes().count(b"\n") <= 51 + 30


async def test_a_file_that_cannot_be_written_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    records = records_in(tmp_path / "missing" / "records")
    records.note(WEB, RUNNING_OK)
    records.note(WEB, exited(1))
    assert [line.message for line in caplog.records] == [
        f"records of workloads are not stored in '{tmp_path}/missing/records': No such file or directory"
    ]


async def test_a_record_that_was_written_partly_does_not_damage_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    records, written = records_in(tmp_path / "records"), RecordFile._write

    def write_partly(self: RecordFile, path: Path, mode: str, stored: Iterable[StateRecord]) -> None:
        written(self, path, mode, stored)
        path.write_bytes(path.read_bytes()[:-10])
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as full_disk:
        full_disk.setattr(RecordFile, "_write", write_partly)
        records.note(WEB, RUNNING_OK)
    records.note(InstanceName("db", "1", "n1"), RUNNING_OK)
    outbox = Sent()
    caplog.clear()
    assert sent_since(records_in(tmp_path / "records", outbox), outbox) == [10_000, 10_000]
    assert caplog.text == ""


async def test_the_file_is_readable_only_by_the_agent(tmp_path: Path) -> None:
    records_in(tmp_path / "records").note(WEB, RUNNING_OK)
    assert (tmp_path / "records").stat().st_mode & 0o777 == 0o600
