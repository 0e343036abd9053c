"""Transactions for etcd, each of them guarded so that only the leader can write, and so that a repetition does no harm.

Input: a set of writes. Output: requests within the limits of etcd, and the meaning of responses. Pure.

A change that fits into one transaction is written by one. A larger one is written in three steps: its operations, as
parts that are not valid yet; one transaction that writes the journal, which makes the change valid; then the
operations of the parts, and the removal of the journal. A leader that finds a journal completes it. It removes parts
without journal.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from google.protobuf.message import DecodeError
from msgspec import Struct

from ankaios.storage.core.encoding import WriteSet
from ankaios.storage.core.etcd_layout import FORMAT, KeySpace, orphaned_chunks, range_end, split_value
from ankaios.storage.pb.etcd_api_pb2 import (
    Compare,
    DeleteRangeRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnRequest,
    TxnResponse,
)

MAX_OPERATIONS = 120  # etcd allows 128 by default
MAX_BYTES = 1024 * 1024  # etcd allows 1.5 MiB by default
_OVERHEAD = 32  # bytes of an operation besides key and value
_KEPT_COMMITS = 16  # of earlier terms: a former leader finds out whether its last commit was stored


class JournalHeader(Struct, frozen=True):
    """The header of a large change."""

    change: str
    parts: int


def values_by_key(keys: KeySpace, writes: WriteSet) -> dict[bytes, bytes | None]:
    values = {keys.entry(key): value for key, value in writes.entries.items()}
    return values | {keys.revision(number): value for number, value in writes.revisions.items()}


def key_operations(
    keys: KeySpace, values: Mapping[bytes, bytes | None], chunks: Mapping[bytes, int]
) -> list[RequestOp]:
    """Put or delete these values. `chunks`: how many chunks the stored values have; surplus ones are deleted."""
    made: list[RequestOp] = []
    for key, value in values.items():
        pairs = {} if value is None else split_value(keys, key, value)
        made += [put_key(name, data) for name, data in pairs.items()]
        if value is None:
            made.append(delete_keys(key))
        made += [
            delete_keys(keys.chunk(key, index)) for index in range(len(pairs) - 1, chunks.get(key, 0)) if index >= 0
        ]
    return made


def put_key(key: bytes, value: bytes, lease: int = 0) -> RequestOp:
    return RequestOp(request_put=PutRequest(key=key, value=value, lease=lease))


def delete_keys(key: bytes, end: bytes = b"") -> RequestOp:
    return RequestOp(request_delete_range=DeleteRangeRequest(key=key, range_end=end))


def get_key(key: bytes) -> RequestOp:
    return RequestOp(request_range=RangeRequest(key=key))


def split_into_batches(made: Sequence[RequestOp], max_operations: int = MAX_OPERATIONS) -> list[list[RequestOp]]:
    """Split operations so that each list fits into one transaction."""
    lists: list[list[RequestOp]] = []
    size = 0
    for each in made:
        cost = each.ByteSize() + _OVERHEAD
        if not lists or len(lists[-1]) >= max_operations or size + cost > MAX_BYTES:
            lists.append([])
            size = 0
        lists[-1].append(each)
        size += cost
    return lists


def encode_parts(made: Sequence[RequestOp]) -> list[bytes]:
    """Return the parts of a large change; each fits into one value."""
    return [TxnRequest(success=batch).SerializeToString() for batch in split_into_batches(made, len(made))]


def decode_part(value: bytes) -> list[RequestOp]:
    """Raises `google.protobuf.message.DecodeError`."""
    return list(TxnRequest.FromString(value).success)


def apply_operations(pairs: Mapping[bytes, bytes], made: Iterable[RequestOp]) -> dict[bytes, bytes]:
    """Return what etcd will contain after these operations."""
    result = dict(pairs)
    for each in made:
        if each.HasField("request_put"):
            result[each.request_put.key] = each.request_put.value
        else:
            result.pop(each.request_delete_range.key, None)
    return result


def found_journal(keys: KeySpace, pairs: Mapping[bytes, bytes]) -> tuple[list[RequestOp], list[str]]:
    """Return the operations of a large change that was not completed, and one sentence for each missing part."""
    value = pairs.get(keys.journal)
    if value is None:
        return [], []
    made: list[RequestOp] = []
    missing: list[str] = []
    try:
        journal = msgspec.json.decode(value, type=JournalHeader)
        for part in (keys.part(journal.change, index) for index in range(journal.parts)):
            if part in pairs:
                made += decode_part(pairs[part])
            else:
                missing.append(f"the part '{part.decode(errors='replace')}' of the last change is missing")
    except (msgspec.DecodeError, DecodeError) as error:
        missing.append(f"the journal of the last change cannot be read: {error}")
    return made, missing


def tidying(keys: KeySpace, pairs: Mapping[bytes, bytes]) -> list[RequestOp]:
    """Remove what earlier leaders left behind. The first operation shows that this server leads, and needs no space."""
    commits = sorted(key for key in pairs if key.startswith(keys.commits))[:-_KEPT_COMMITS]
    parts = [key for key in pairs if key.startswith(keys.parts)]
    surplus = [*commits, *parts, *orphaned_chunks(keys, pairs)]
    version = [] if keys.format in pairs else [put_key(keys.format, FORMAT)]
    return [get_key(keys.leader), *version, *map(delete_keys, surplus)]


# Guards


def has_revision(key: bytes, create_revision: int) -> Compare:
    """The key exists since this revision of etcd; 0: it does not exist."""
    return Compare(target=Compare.CREATE, key=key, create_revision=create_revision)


def has_value(key: bytes, value: bytes) -> Compare:
    return Compare(target=Compare.VALUE, key=key, value=value)


def leader_transaction(keys: KeySpace, term: int, made: Iterable[RequestOp]) -> TxnRequest:
    """Written only by the leader; may be repeated."""
    return TxnRequest(compare=[has_revision(keys.leader, term)], success=made, failure=[get_key(keys.leader)])


def commit_transaction(
    keys: KeySpace, term: int, before: bytes | None, after: bytes, made: Iterable[RequestOp]
) -> TxnRequest:
    """Written once, however often it is sent: the value of the commit key changes from `before` to `after`."""
    commit = keys.commit(term)
    counted = has_revision(commit, 0) if before is None else has_value(commit, before)
    return TxnRequest(
        compare=[has_revision(keys.leader, term), has_revision(keys.journal, 0), counted],
        success=[*made, put_key(commit, after)],
        failure=[get_key(keys.leader), get_key(commit)],
    )


def is_committed(response: TxnResponse, after: bytes) -> bool:
    """A `commit_transaction` that was sent again fails its guard if an earlier attempt was successful."""
    if response.succeeded:
        return True
    commit = response.responses[1].response_range.kvs
    return bool(commit) and commit[0].value == after


def journal_transaction(keys: KeySpace, term: int, journal: bytes, made: Iterable[RequestOp]) -> TxnRequest:
    """Written only by the leader, and only while this change is not completed; may be repeated."""
    return TxnRequest(
        compare=[has_revision(keys.leader, term), has_value(keys.journal, journal)],
        success=made,
        failure=[get_key(keys.leader)],
    )


def cleared_journal(keys: KeySpace) -> list[RequestOp]:
    return [delete_keys(keys.journal), delete_keys(keys.parts, range_end(keys.parts))]


def is_leader(response: TxnResponse, term: int) -> bool:
    """Whether the guard of a transaction found the leader."""
    if response.succeeded:
        return True
    leader = response.responses[0].response_range.kvs
    return bool(leader) and leader[0].create_revision == term
