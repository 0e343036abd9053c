"""Entries and revisions as bytes, and several changes as one set of writes.

Input: changes as the server's core returns them. Output: the final bytes of each entry and revision. JSON, so that the
content can be read with the tools of SQLite and etcd.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct, field

from ankaios.storage.state_store import EntryKey, JsonValue, Revision, StateChange

_encoder = msgspec.json.Encoder()
_revisions = msgspec.json.Decoder(Revision)


class WriteSet(Struct, frozen=True):
    """Everything one commit writes, each key once. None removes."""

    entries: dict[EntryKey, bytes | None] = field(default_factory=dict)
    revisions: dict[int, bytes | None] = field(default_factory=dict)
    last_revision: int = 0


def write_set(changes: Iterable[StateChange]) -> WriteSet:
    """Combine changes in their order: a later change of an entry replaces an earlier one."""
    entries: dict[EntryKey, bytes | None] = {}
    revisions: dict[int, bytes | None] = {}
    last = 0
    for change in changes:
        entries.update((entry.key, encode_value(entry.after)) for entry in change.entries)
        if change.revision is not None:
            revisions[change.revision.number] = encode_revision(change.revision)
            last = max(last, change.revision.number)
        revisions.update(dict.fromkeys(change.dropped_revisions))
    return WriteSet(entries, revisions, last)


def encode_value(value: JsonValue) -> bytes | None:
    return None if value is None else _encoder.encode(value)


def decode_value(data: bytes) -> JsonValue:
    return msgspec.json.decode(data)


def encode_revision(revision: Revision) -> bytes:
    return _encoder.encode(revision)


def decode_revision(data: bytes) -> Revision:
    return _revisions.decode(data)
