import msgspec

from ankaios.storage.core.encoding import write_set
from ankaios.storage.core.etcd_layout import CHUNK_SIZE, FORMAT, KeySpace, split_value
from ankaios.storage.core.etcd_transactions import (
    MAX_BYTES,
    MAX_OPERATIONS,
    JournalHeader,
    apply_operations,
    cleared_journal,
    commit_transaction,
    decode_part,
    delete_keys,
    encode_parts,
    found_journal,
    get_key,
    is_committed,
    is_leader,
    journal_transaction,
    key_operations,
    leader_transaction,
    put_key,
    split_into_batches,
    tidying,
    values_by_key,
)
from ankaios.storage.pb.etcd_api_pb2 import Compare, KeyValue, RangeResponse, RequestOp, ResponseOp, TxnResponse
from ankaios.storage.state_store import EntryKey, StateChange
from tests.unit.storage.changes import a_change

KEYS = KeySpace("/p")
WEB = KEYS.entry(EntryKey("workload", "web"))
TERM = 7


def names(made: list[RequestOp]) -> list[tuple[str, bytes]]:
    """Operations as pairs of what they do and the key."""
    return [
        ("put", each.request_put.key) if each.HasField("request_put") else ("delete", each.request_delete_range.key)
        for each in made
    ]


def test_a_change_becomes_one_operation_for_each_key() -> None:
    writes = write_set([a_change(4, "web", {"a": 1}), StateChange((), None, (1,))])
    made = key_operations(KEYS, values_by_key(KEYS, writes), {})
    assert names(made) == [
        ("put", WEB),
        ("put", KEYS.entry(EntryKey("placement", "web"))),
        ("put", KEYS.revision(4)),
        ("delete", KEYS.revision(1)),
    ]


def test_chunks_that_are_not_needed_any_more_are_deleted() -> None:
    chunks = [KEYS.chunk(WEB, index) for index in range(3)]
    assert names(key_operations(KEYS, {WEB: b"1"}, {WEB: 2})) == [
        ("put", WEB),
        *(("delete", each) for each in chunks[:2]),
    ]
    assert names(key_operations(KEYS, {WEB: None}, {WEB: 2})) == [
        ("delete", WEB),
        *(("delete", each) for each in chunks[:2]),
    ]
    large = b"x" * 2 * CHUNK_SIZE
    assert names(key_operations(KEYS, {WEB: large}, {WEB: 3})) == [
        ("put", WEB),
        ("put", chunks[0]),
        ("put", chunks[1]),
        ("delete", chunks[2]),
    ]


def test_batches_respect_both_limits_of_etcd() -> None:
    many = [put_key(b"%d" % number, b"") for number in range(2 * MAX_OPERATIONS + 1)]
    assert [len(batch) for batch in split_into_batches(many)] == [MAX_OPERATIONS, MAX_OPERATIONS, 1]
    large = [put_key(b"%d" % number, b"x" * CHUNK_SIZE) for number in range(4)]
    assert all(sum(each.ByteSize() for each in batch) <= MAX_BYTES for batch in split_into_batches(large))
    assert [each for batch in split_into_batches(large) for each in batch] == large
    assert split_into_batches([]) == []


def test_the_parts_of_a_large_change_contain_all_operations() -> None:
    made = [put_key(b"%d" % number, b"x" * 1000) for number in range(5000)]
    parts = encode_parts(made)
    assert len(parts) > 1
    assert all(len(part) <= MAX_BYTES for part in parts)
    assert [each for part in parts for each in decode_part(part)] == made


def test_a_journal_is_found_with_its_operations() -> None:
    made = [put_key(WEB, b"1"), delete_keys(KEYS.revision(1))]
    pairs = {KEYS.part("c", 0): encode_parts(made)[0], KEYS.part("other", 0): b"?"}
    assert found_journal(KEYS, pairs) == ([], [])
    assert found_journal(KEYS, {**pairs, KEYS.journal: msgspec.json.encode(JournalHeader("c", 1))}) == (made, [])
    assert apply_operations({KEYS.revision(1): b"x", b"y": b"z"}, made) == {WEB: b"1", b"y": b"z"}


def test_a_journal_that_lost_a_part_is_reported() -> None:
    found, missing = found_journal(KEYS, {KEYS.journal: msgspec.json.encode(JournalHeader("c", 1))})
    assert found == []
    assert missing == ["the part '/p/part/c/000000' of the last change is missing"]
    assert "cannot be read" in found_journal(KEYS, {KEYS.journal: b"?"})[1][0]
    damaged = {KEYS.journal: msgspec.json.encode(JournalHeader("c", 1)), KEYS.part("c", 0): b"\xff"}
    assert "cannot be read" in found_journal(KEYS, damaged)[1][0]


def test_cleanup_removes_the_data_of_earlier_leaders() -> None:
    commits = [KEYS.commit(term) for term in range(20)]
    chunked = split_value(KEYS, WEB, b"x" * 2 * CHUNK_SIZE)
    pairs = dict.fromkeys((*commits, KEYS.part("c", 0)), b"") | chunked
    orphan = {KEYS.chunk(KEYS.revision(1), 0): b""}
    made = tidying(KEYS, pairs | orphan)
    assert made[:2] == [get_key(KEYS.leader), put_key(KEYS.format, FORMAT)]
    assert {key for _, key in names(made[2:])} == {*commits[:4], KEYS.part("c", 0), *orphan}
    assert tidying(KEYS, {KEYS.format: FORMAT}) == [get_key(KEYS.leader)]


def test_a_commit_is_guarded_by_leader_journal_and_the_commit_before() -> None:
    request = commit_transaction(KEYS, TERM, b"before", b"after", [put_key(WEB, b"1")])
    assert list(request.compare) == [
        Compare(target=Compare.CREATE, key=KEYS.leader, create_revision=TERM),
        Compare(target=Compare.CREATE, key=KEYS.journal, create_revision=0),
        Compare(target=Compare.VALUE, key=KEYS.commit(TERM), value=b"before"),
    ]
    assert names(list(request.success)) == [("put", WEB), ("put", KEYS.commit(TERM))]
    assert list(request.failure) == [get_key(KEYS.leader), get_key(KEYS.commit(TERM))]
    first = commit_transaction(KEYS, TERM, None, b"after", [])
    assert first.compare[2] == Compare(target=Compare.CREATE, key=KEYS.commit(TERM), create_revision=0)


def test_every_other_write_is_guarded_by_the_leader() -> None:
    is_leading = Compare(target=Compare.CREATE, key=KEYS.leader, create_revision=TERM)
    has_journal = Compare(target=Compare.VALUE, key=KEYS.journal, value=b"journal")
    plain, step = leader_transaction(KEYS, TERM, []), journal_transaction(KEYS, TERM, b"journal", [])
    assert list(plain.compare) == [is_leading]
    assert list(step.compare) == [is_leading, has_journal]
    assert list(plain.failure) == list(step.failure) == [get_key(KEYS.leader)]


def found(*pairs: KeyValue | None) -> TxnResponse:
    """The response to a transaction whose guard failed."""
    ranges = [RangeResponse(kvs=[] if pair is None else [pair]) for pair in pairs]
    return TxnResponse(succeeded=False, responses=[ResponseOp(response_range=each) for each in ranges])


LEADER, OTHER_LEADER = KeyValue(create_revision=TERM), KeyValue(create_revision=TERM + 1)
AFTER, BEFORE = KeyValue(value=b"after"), KeyValue(value=b"before")


def test_the_response_shows_whether_a_commit_is_stored() -> None:
    assert is_committed(TxnResponse(succeeded=True), b"after")
    assert is_committed(found(LEADER, AFTER), b"after")
    assert is_committed(found(OTHER_LEADER, AFTER), b"after")
    assert not is_committed(found(OTHER_LEADER, BEFORE), b"after")
    assert not is_committed(found(None, None), b"after")
    assert not is_committed(found(LEADER, BEFORE), b"after")


def test_a_failed_guard_shows_whether_this_server_leads() -> None:
    assert is_leader(TxnResponse(succeeded=True), TERM)
    assert is_leader(found(LEADER), TERM)
    assert is_leader(found(LEADER, BEFORE), TERM)
    assert not is_leader(found(None, None), TERM)
    assert not is_leader(found(OTHER_LEADER), TERM)
    assert not is_leader(found(None), TERM)


def test_clearing_the_journal_removes_its_parts() -> None:
    journal, parts = cleared_journal(KEYS)
    assert journal == delete_keys(KEYS.journal)
    assert parts == delete_keys(KEYS.parts, b"/p/part0")
