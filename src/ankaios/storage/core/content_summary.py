"""What a complete store must contain: the number and a combined checksum of the rows of each kind.

Input: checksums of rows. Output: a summary that is stored with each commit, so that a lost, damaged or outdated row is
found even if the database itself looks consistent. Owns nothing.
"""

from collections.abc import Iterable
from hashlib import blake2b

from msgspec import Struct, field

REVISIONS, RECORDS = "revision", "record"


class SetDigest(Struct, frozen=True, array_like=True):
    """A set of rows. The digest combines their checksums and does not depend on their order."""

    count: int = 0
    digest: int = 0

    def replaced(self, old: int | None, new: int | None) -> "SetDigest":
        """Return the digest after a row with checksum `old` became one with checksum `new`; None means no row."""
        count = self.count + (new is not None) - (old is not None)
        return SetDigest(count, self.digest ^ (old or 0) ^ (new or 0))


class ConfirmedCommit(Struct, frozen=True):
    """The numbers of a commit. Those of the last confirmed one are also stored outside of the database."""

    store: str
    sequence: int
    revision: int


class ContentSummary(Struct, frozen=True):
    """`store` identifies the database, `sequence` counts its commits, `sets` has one digest for each kind of rows."""

    store: str
    version: int
    sequence: int = 0
    last_revision: int = 0
    sets: dict[str, SetDigest] = field(default_factory=dict)

    @property
    def commit(self) -> ConfirmedCommit:
        return ConfirmedCommit(self.store, self.sequence, self.last_revision)


def entry_set(kind: str) -> str:
    return f"entry/{kind}"


def row_checksum(set_name: str, name: str, value: bytes) -> int:
    """Return a signed 64-bit number, as SQLite stores integers."""
    label = f"{set_name}\0{name}\0".encode()
    return int.from_bytes(blake2b(label + value, digest_size=8).digest(), "big", signed=True)


def digests_of(rows: Iterable[tuple[str, int]]) -> dict[str, SetDigest]:
    """Return the digest of each set; rows are pairs of set name and checksum."""
    sets: dict[str, SetDigest] = {}
    for name, checksum in rows:
        sets[name] = sets.get(name, SetDigest()).replaced(None, checksum)
    return sets
