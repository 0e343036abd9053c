"""How state is stored in etcd: the names of keys, large values in several keys, and how both are decoded.

Input: a prefix; keys and values as etcd returns them. Output: keys, and the content of the store. Pure.

| key below the prefix | value |
|---|---|
| `/entry/KIND/NAME` | an entry |
| `/revision/NUMBER` | a revision of the history |
| `/record/NAME` | the records of a workload |
| `/chunk/KEY/INDEX` | a part of a value that is too large for one key |
| `/commit/TERM` | the last commit of a leader |
| `/journal`, `/part/ID/INDEX` | a change that is too large for one transaction |
| `/leader` | the current leader |
| `/format` | the version of this layout |
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct, field

from ankaios.storage.core.encoding import decode_revision, decode_value
from ankaios.storage.state_store import EntryKey, JsonValue, Revision

FORMAT = b"1"
CHUNK_SIZE = 512 * 1024  # etcd accepts requests up to 1.5 MiB
_CHUNKED = b"#chunks "  # no JSON text begins like this
_INDEX_SIZE = len("/0000")


class KeySpace:
    """The keys of one store."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode()
        self.leader = self._prefix + b"/leader"
        self.format = self._prefix + b"/format"
        self.journal = self._prefix + b"/journal"
        self.entries = self._prefix + b"/entry/"
        self.revisions = self._prefix + b"/revision/"
        self.records = self._prefix + b"/record/"
        self.commits = self._prefix + b"/commit/"
        self.parts = self._prefix + b"/part/"
        self.chunks = self._prefix + b"/chunk/"
        self.servers = self._prefix + b"/server/"
        self.everything = (self._prefix + b"/", range_end(self._prefix + b"/"))

    def entry(self, key: EntryKey) -> bytes:
        return self.entries + f"{key.kind}/{key.name}".encode()

    def revision(self, number: int) -> bytes:
        return self.revisions + b"%016d" % number

    def record(self, name: str) -> bytes:
        return self.records + name.encode()

    def commit(self, term: int) -> bytes:
        return self.commits + b"%020d" % term

    def part(self, change: str, index: int) -> bytes:
        return self.parts + f"{change}/{index:06d}".encode()

    def chunk(self, key: bytes, index: int) -> bytes:
        return self.chunks + key.removeprefix(self._prefix) + b"/%04d" % index

    def key_of_chunk(self, chunk: bytes) -> bytes:
        return self._prefix + chunk.removeprefix(self.chunks)[:-_INDEX_SIZE]


def range_end(prefix: bytes) -> bytes:
    """Return the end of the range of all keys with this prefix."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


class CommitMark(Struct, frozen=True):
    """The value of a commit key: how many commits a leader has made, and the highest revision."""

    sequence: int = 0
    revision: int = 0


def decode_mark(value: bytes | None) -> CommitMark:
    """A missing or damaged mark is one without commits."""
    try:
        return CommitMark() if value is None else msgspec.json.decode(value, type=CommitMark)
    except msgspec.DecodeError:
        return CommitMark()


def chunk_count(value: bytes) -> int:
    """Return the number of chunks that a stored value refers to."""
    number = value.removeprefix(_CHUNKED)
    return int(number) if value.startswith(_CHUNKED) and number.isdigit() else 0


def chunks_of(value: bytes | None) -> int:
    """Return the number of chunks that a value will have; 0 if it fits into its own key."""
    return 0 if value is None or len(value) <= CHUNK_SIZE else -(-len(value) // CHUNK_SIZE)


def split_value(keys: KeySpace, key: bytes, value: bytes) -> dict[bytes, bytes]:
    """Return what to put for one value: a single pair, or a reference and its chunks."""
    if not chunks_of(value):
        return {key: value}
    chunks = [value[start : start + CHUNK_SIZE] for start in range(0, len(value), CHUNK_SIZE)]
    pairs = {keys.chunk(key, index): chunk for index, chunk in enumerate(chunks)}
    return {key: _CHUNKED + str(len(chunks)).encode(), **pairs}


class EtcdContent(Struct, frozen=True):
    """`unreadable` has one sentence for each value that cannot be used."""

    entries: dict[EntryKey, JsonValue] = field(default_factory=dict)
    revisions: dict[int, Revision] = field(default_factory=dict)
    records: dict[str, JsonValue] = field(default_factory=dict)
    last_revision: int = 0
    unreadable: list[str] = field(default_factory=list)


def decode_content(keys: KeySpace, pairs: Mapping[bytes, bytes]) -> EtcdContent:
    """Return the content of the store from all its keys."""
    content, last = EtcdContent(), 0
    for key, value in pairs.items():
        try:
            if key.startswith(keys.commits):
                last = max(last, decode_mark(value).revision)
            else:
                _decode_pair(keys, key, _whole_value(keys, pairs, key, value), content)
        except (ValueError, KeyError, msgspec.DecodeError) as error:
            content.unreadable.append(f"the value of '{key.decode(errors='replace')}' cannot be used: {error}")
    return msgspec.structs.replace(content, last_revision=max(last, *content.revisions, 0))


def _decode_pair(keys: KeySpace, key: bytes, value: bytes, content: EtcdContent) -> None:
    if key.startswith(keys.entries):
        kind, _, name = key.removeprefix(keys.entries).decode().partition("/")
        content.entries[EntryKey(kind, name)] = decode_value(value)
    elif key.startswith(keys.revisions):
        revision = decode_revision(value)
        content.revisions[revision.number] = revision
    elif key.startswith(keys.records):
        content.records[key.removeprefix(keys.records).decode()] = decode_value(value)


def _whole_value(keys: KeySpace, pairs: Mapping[bytes, bytes], key: bytes, value: bytes) -> bytes:
    count = chunk_count(value)
    return b"".join(pairs[keys.chunk(key, index)] for index in range(count)) if count else value


def chunk_counts(keys: KeySpace, pairs: Mapping[bytes, bytes]) -> dict[bytes, int]:
    """Return the keys whose values are stored in chunks."""
    counts = ((key, chunk_count(value)) for key, value in pairs.items() if not key.startswith(keys.chunks))
    return {key: count for key, count in counts if count}


def orphaned_chunks(keys: KeySpace, pairs: Mapping[bytes, bytes]) -> Iterable[bytes]:
    """Return chunks that no value refers to."""
    for key in pairs:
        index = key[-_INDEX_SIZE + 1 :]
        if key.startswith(keys.chunks) and index.isdigit():
            count = chunk_count(pairs.get(keys.key_of_chunk(key), b""))
            if int(index) >= count:
                yield key
