from ankaios.storage.core.encoding import (
    WriteSet,
    decode_revision,
    decode_value,
    encode_revision,
    encode_value,
    write_set,
)
from ankaios.storage.state_store import EntryChange, EntryKey, StateChange
from tests.unit.storage.changes import a_change, a_revision


def test_several_changes_become_one_set_of_writes_and_the_last_value_counts() -> None:
    first, second = a_change(1, "web", {"n": 1}), a_change(2, "web", {"n": 2}, {"n": 1})
    writes = write_set([first, second, StateChange((EntryChange("config", "c", 1, None),), None, (1,))])
    assert writes.entries == {
        EntryKey("workload", "web"): b'{"n":2}',
        EntryKey("placement", "web"): b'{"agent":"agent_2"}',
        EntryKey("config", "c"): None,
    }
    assert second.revision is not None
    assert writes.revisions == {1: None, 2: encode_revision(second.revision)}
    assert writes.last_revision == 2


def test_no_change_writes_nothing() -> None:
    assert write_set([]) == WriteSet()


def test_a_revision_is_decoded_as_it_was_encoded() -> None:
    revision = a_revision(7, (EntryChange("workload", "wéb", None, {"a": [1, 2.5, True, "ü"]}),))
    assert decode_revision(encode_revision(revision)) == revision


def test_a_value_is_stored_as_json() -> None:
    assert encode_value({"a": None}) == b'{"a":null}'
    assert encode_value(None) is None
    assert decode_value(b'{"a":[1]}') == {"a": [1]}
