"""Records of workload states: order, limits, amendments and storing."""

from ankaios.common.execution_state import PENDING_STARTING, RUNNING_OK, exited
from ankaios.common.proto_conversion import record_from_pb, record_to_pb
from ankaios.common.state_records import MOST_OF_WORKLOAD, StateRecord, StateRecords
from ankaios.common.workload import InstanceName

WEB = InstanceName("web", "1", "n1")
DB = InstanceName("db", "2", "n2")


def test_a_state_that_is_reported_again_is_not_recorded_again() -> None:
    records = StateRecords()
    first = records.add(StateRecord(WEB, 10, RUNNING_OK))
    assert records.add(StateRecord(WEB, 20, RUNNING_OK)) is first
    assert [record.time_ms for record in records.of_workload("web")] == [10]


def test_the_oldest_records_of_a_workload_are_dropped() -> None:
    records = StateRecords()
    for time in range(100):
        records.add(StateRecord(WEB, time, exited(time)))
    kept = [record.time_ms for record in records.of_workload("web")]
    assert kept == list(range(100 - MOST_OF_WORKLOAD, 100))


def test_a_missed_record_is_inserted_at_its_time() -> None:
    records = StateRecords()
    records.add(StateRecord(WEB, 10, PENDING_STARTING))
    records.add(StateRecord(WEB, 30, RUNNING_OK))
    records.amend(StateRecord(WEB, 20, exited(1)))
    assert [record.time_ms for record in records.of_workload("web")] == [10, 20, 30]


def test_details_are_added_to_the_last_record_of_the_instance() -> None:
    records = StateRecords()
    records.add(StateRecord(WEB, 10, exited(1)))
    records.add(StateRecord(DB, 20, RUNNING_OK))
    records.detail(WEB, exit_code=1, output=("a", "b"))
    (record,) = records.of_workload("web")
    assert (record.exit_code, record.output) == (1, ("a", "b"))
    assert records.detail(InstanceName("other", "1", "n1"), exit_code=1) is None


def test_records_are_selected_by_workload_and_time() -> None:
    records = StateRecords()
    for record in (StateRecord(WEB, 10, RUNNING_OK), StateRecord(DB, 5, RUNNING_OK), StateRecord(WEB, 20, exited(1))):
        records.add(record)
    assert [(it.name.workload, it.time_ms) for it in records.select()] == [("db", 5), ("web", 10), ("web", 20)]
    assert [it.time_ms for it in records.select(["web"], since_ms=10)] == [20]
    assert records.newest_of_agent("n1") == 20
    assert records.newest_of_agent("unknown") == 0


def test_stored_records_are_loaded_and_unreadable_ones_counted() -> None:
    records = StateRecords()
    records.add(StateRecord(WEB, 10, exited(1), out_of_memory=True, output=("x",)))
    stored = records.take_changed()
    assert records.take_changed() == {}
    loaded = StateRecords()
    assert loaded.load([*stored["web"], {"name": 1}, 7]) == 2
    assert list(loaded) == list(records)


def test_a_record_passes_through_its_message_unchanged() -> None:
    record = StateRecord(WEB, 10, exited(1), exit_code=1, output=("x",), out_of_memory=True, next_ms=99)
    assert record_from_pb(record_to_pb(record)) == record
