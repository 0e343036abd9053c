import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ankaios.storage.core.encoding import encode_revision
from ankaios.storage.core.etcd_layout import (
    CHUNK_SIZE,
    CommitMark,
    KeySpace,
    chunk_count,
    chunk_counts,
    chunks_of,
    decode_content,
    decode_mark,
    orphaned_chunks,
    range_end,
    split_value,
)
from ankaios.storage.state_store import EntryKey
from tests.unit.storage.changes import a_revision

KEYS = KeySpace("/fleet/car")


@given(st.text(min_size=1).filter(lambda kind: "/" not in kind), st.text())
def test_an_entry_is_found_again_whatever_its_name_is(kind: str, name: str) -> None:
    content = decode_content(KEYS, {KEYS.entry(EntryKey(kind, name)): b'{"a":1}'})
    assert content.entries == {EntryKey(kind, name): {"a": 1}}


def test_the_keys_are_below_the_prefix_and_do_not_overlap() -> None:
    keys = [
        KEYS.entry(EntryKey("workload", "a")),
        KEYS.revision(1),
        KEYS.record("a"),
        KEYS.commit(1),
        KEYS.part("1-1", 0),
        KEYS.chunk(KEYS.revision(1), 0),
        *(KEYS.leader, KEYS.journal, KEYS.format),
    ]
    start, end = KEYS.everything
    assert all(start <= key < end for key in keys)
    assert len(set(keys)) == len(keys)
    assert not end > b"/fleet/car2/leader"


def test_the_end_of_a_range_is_behind_all_keys_with_the_prefix() -> None:
    assert b"/a/" + b"\xff" * 9 < range_end(b"/a/") == b"/a0"


@given(st.integers(0, 4 * CHUNK_SIZE))
def test_a_large_value_is_split_and_joined_again(size: int) -> None:
    value = b'"' + b"x" * size + b'"'
    key = KEYS.entry(EntryKey("config", "large"))
    pairs = split_value(KEYS, key, value)
    assert all(len(each) <= CHUNK_SIZE for each in pairs.values())
    assert len(pairs) == 1 + chunks_of(value)
    assert chunk_count(pairs[key]) == chunks_of(value)
    assert decode_content(KEYS, pairs).entries == {EntryKey("config", "large"): "x" * size}


def test_chunks_without_their_value_are_orphaned() -> None:
    key = KEYS.entry(EntryKey("config", "large"))
    pairs = split_value(KEYS, key, b"x" * 2 * CHUNK_SIZE + b"x")
    assert list(orphaned_chunks(KEYS, pairs)) == []
    assert list(orphaned_chunks(KEYS, {**pairs, key: b"1"})) == [KEYS.chunk(key, index) for index in range(3)]
    assert list(orphaned_chunks(KEYS, {**pairs, key: b"#chunks 2"})) == [KEYS.chunk(key, 2)]
    assert list(orphaned_chunks(KEYS, {KEYS.chunks + b"something else": b""})) == []


def test_a_chunk_is_no_value_even_if_it_looks_like_a_reference_to_chunks() -> None:
    key = KEYS.entry(EntryKey("config", "large"))
    pairs = {key: b"#chunks 1", KEYS.chunk(key, 0): b"#chunks 7"}
    assert chunk_counts(KEYS, pairs) == {key: 1}


def test_values_that_cannot_be_used_are_named_and_the_others_are_loaded() -> None:
    pairs = {
        KEYS.entry(EntryKey("workload", "good")): b"1",
        KEYS.entry(EntryKey("workload", "bad")): b"{",
        KEYS.entry(EntryKey("workload", "half")): b"#chunks 1",
        KEYS.revision(1): b"{}",
        KEYS.revision(2): encode_revision(a_revision(2)),
        KEYS.leader: b"not JSON",
    }
    content = decode_content(KEYS, pairs)
    assert content.entries == {EntryKey("workload", "good"): 1}
    assert content.revisions == {2: a_revision(2)}
    assert [text.split("'")[1] for text in content.unreadable] == [
        "/fleet/car/entry/workload/bad",
        "/fleet/car/entry/workload/half",
        "/fleet/car/revision/0000000000000001",
    ]


def test_the_highest_revision_is_known_from_the_marks_of_all_terms() -> None:
    marks = {KEYS.commit(term): msgspec.json.encode(CommitMark(term, revision)) for term, revision in ((1, 9), (5, 7))}
    assert decode_content(KEYS, marks).last_revision == 9
    assert decode_content(KEYS, {KEYS.revision(3): encode_revision(a_revision(3))}).last_revision == 3
    assert decode_content(KEYS, {}).last_revision == 0


def test_a_damaged_mark_counts_no_commits() -> None:
    assert decode_mark(msgspec.json.encode(CommitMark(3, 4))) == CommitMark(3, 4)
    assert decode_mark(b"?") == decode_mark(None) == CommitMark()
