from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.server.core.stored_entries import EntryCollector, desired_entries
from ankaios.storage.state_store import EntryChange, Revision, StateChange


def test_the_first_value_before_and_the_last_value_after_count() -> None:
    entries = EntryCollector()
    entries.note_all([EntryChange("placement", "web", "a", "b"), EntryChange("placement", "web", "b", "c")])
    entries.note_all([EntryChange("placement", "db", "a", "b")])
    entries.note_all([EntryChange("placement", "db", "b", "a")])
    assert entries.take() == StateChange((EntryChange("placement", "web", "a", "c"),))
    assert entries.take() is None


def test_revisions_are_part_of_the_change() -> None:
    entries, revision = EntryCollector(), Revision(1, 0.0, "", (), ())
    entries.note_revision(revision, (7,))
    entries.note_dropped_revisions((8,))
    assert entries
    assert entries.take() == StateChange((), revision, (7, 8))
    assert not entries


def test_the_entries_of_a_desired_change_have_the_values_before_and_after() -> None:
    desired = {"apiVersion": "v1", "workloads": {"web": {"agent": "a"}}, "configs": {"c": "1"}}
    change = DesiredChange("v0.1", {"web": None, "db": {"agent": "b"}}, {"c": "2"}, {"d": {}}, {"agent": {"tag": "x"}})
    assert desired_entries(desired, change) == [
        EntryChange("apiVersion", "desiredState", "v1", "v0.1"),
        EntryChange("workload", "web", {"agent": "a"}, None),
        EntryChange("workload", "db", None, {"agent": "b"}),
        EntryChange("config", "c", "1", "2"),
        EntryChange("deviceConfiguration", "d", None, {}),
    ]
