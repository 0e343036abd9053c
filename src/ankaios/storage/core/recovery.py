"""Decides what is used if a database is damaged or outdated.

Input: the rows that could be read and verified, of the damaged database and of the copy that the store makes from time
to time, and the last commit that was confirmed. Output: the newest state that is complete, and what was lost. Pure.

The order of preference:
1. the rows of the database, if they are complete according to its summary;
2. the same, with missing entries taken from its history;
3. the copy with all later revisions of the database that can be read without a gap: an older, but complete state;
4. without a copy: the entries that could be read.
"""

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from ankaios.storage.core.content_summary import (
    REVISIONS,
    ConfirmedCommit,
    ContentSummary,
    SetDigest,
    digests_of,
    entry_set,
    row_checksum,
)
from ankaios.storage.core.encoding import decode_revision, encode_value
from ankaios.storage.state_store import EntryKey, Revision


class DatabaseContent(Struct, frozen=True):
    """The verified rows of a database. `problems` is empty if the database looked consistent."""

    summary: ContentSummary | None = None
    entries: dict[EntryKey, bytes] = field(default_factory=dict)
    revisions: dict[int, bytes] = field(default_factory=dict)
    records: dict[str, bytes] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def sequence(self) -> int:
        return 0 if self.summary is None else self.summary.sequence

    @property
    def last_revision(self) -> int:
        known = 0 if self.summary is None else self.summary.last_revision
        return max(known, max(self.revisions, default=0))


class RestoredContent(Struct, frozen=True):
    """`last_revision` and `sequence` are the highest numbers ever used, so that no number is used twice."""

    content: DatabaseContent
    sequence: int
    last_revision: int
    lost: tuple[str, ...]


def problem_of(content: DatabaseContent, head: ConfirmedCommit | None) -> str | None:
    """Return what is wrong with a database, or None."""
    if content.problems:
        return "the database is damaged (" + "; ".join(content.problems) + ")"
    if content.summary is None:
        return "the database has no summary"
    if incomplete_sets(content):
        return "rows of the database are missing or outdated"
    if head is not None and head.store == content.summary.store and head.sequence > content.sequence:
        return f"the database ends at commit {content.sequence}, but commit {head.sequence} was confirmed"
    return None


def incomplete_sets(content: DatabaseContent) -> dict[str, int]:
    """Return the sets that differ from the summary, with the number of rows that are missing."""
    expected = {} if content.summary is None else content.summary.sets
    found = content_digests(content)
    names = [name for name in {**expected, **found} if expected.get(name, SetDigest()) != found.get(name, SetDigest())]
    return {name: expected.get(name, SetDigest()).count - found.get(name, SetDigest()).count for name in names}


def content_digests(content: DatabaseContent) -> dict[str, SetDigest]:
    rows = [(entry_set(key.kind), key.name, value) for key, value in content.entries.items()]
    rows += [(REVISIONS, str(number), value) for number, value in content.revisions.items()]
    return digests_of((name, row_checksum(name, label, value)) for name, label, value in rows)


def restore_content(
    damaged: DatabaseContent, copy: DatabaseContent | None, head: ConfirmedCommit | None
) -> RestoredContent:
    """Return the best content, and one sentence for each thing that was lost."""
    used, reached = _best(damaged, copy)
    if copy is not None:
        used = _with_revisions_of_copy(used, copy, reached)
    last = max(damaged.last_revision, used.last_revision, 0 if head is None else head.revision)
    sequence = max(damaged.sequence, used.sequence, 0 if head is None else head.sequence)
    lost = (
        *_lost_revisions(reached, last),
        *_lost_entries(damaged, used, is_newest=reached == last),
        *_lost_history(damaged, used),
        *_lost_commits(damaged, used, head),
    )
    records = {**used.records, **damaged.records}
    return RestoredContent(replace(used, records=records, problems=()), sequence, last, lost)


def _best(damaged: DatabaseContent, copy: DatabaseContent | None) -> tuple[DatabaseContent, int]:
    """Return the content to use, and the revision whose state it has."""
    own = damaged if _has_all_entries(damaged) else _with_history(damaged)
    if copy is None or (_has_all_entries(own) and damaged.sequence >= copy.sequence):
        return own, damaged.last_revision
    return _roll_forward(copy, damaged)


def _has_all_entries(content: DatabaseContent) -> bool:
    return content.summary is not None and not incomplete_sets(content).keys() - {REVISIONS}


def _with_history(content: DatabaseContent) -> DatabaseContent:
    """Add entries that are missing and whose last known value is in the history."""
    newest: dict[EntryKey, bytes | None] = {}
    for revision in _decoded(content.revisions).values():
        newest.update((change.key, encode_value(change.after)) for change in revision.entries)
    known = {key: value for key, value in newest.items() if value is not None}
    return replace(content, entries={**known, **content.entries})


def _decoded(revisions: Mapping[int, bytes]) -> dict[int, Revision]:
    return {number: decode_revision(revisions[number]) for number in sorted(revisions)}


def _roll_forward(copy: DatabaseContent, damaged: DatabaseContent) -> tuple[DatabaseContent, int]:
    """Apply later revisions to the copy, until one is missing."""
    later = _decoded({number: value for number, value in damaged.revisions.items() if number > copy.last_revision})
    entries, revisions, reached = dict(copy.entries), dict(copy.revisions), copy.last_revision
    while (revision := later.get(reached + 1)) is not None:
        reached += 1
        revisions[reached] = damaged.revisions[reached]
        for change in revision.entries:
            _assign(entries, change.key, encode_value(change.after))
    if damaged.summary is not None and damaged.sequence >= copy.sequence:
        entries = _with_other_kinds(entries, damaged, _kinds(revisions))
    return replace(copy, entries=entries, revisions=revisions), reached


def _assign(entries: dict[EntryKey, bytes], key: EntryKey, value: bytes | None) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value


def _kinds(revisions: Mapping[int, bytes]) -> set[str]:
    """Return the kinds of entries that have a history."""
    return {change.kind for revision in _decoded(revisions).values() for change in revision.entries}


def _with_other_kinds(
    entries: dict[EntryKey, bytes], damaged: DatabaseContent, kinds: set[str]
) -> dict[EntryKey, bytes]:
    """Entries of kinds without history are newer in the damaged database; all of them are used if none is missing."""
    missing = incomplete_sets(damaged)
    outdated = {key for key in entries if key.kind not in kinds and entry_set(key.kind) not in missing}
    kept = {key: value for key, value in entries.items() if key not in outdated}
    return kept | {key: value for key, value in damaged.entries.items() if key.kind not in kinds}


def _with_revisions_of_copy(used: DatabaseContent, copy: DatabaseContent, reached: int) -> DatabaseContent:
    """Fill gaps of the history; revisions before the oldest one have been dropped."""
    oldest = min(used.revisions, default=0)
    known = {number: value for number, value in copy.revisions.items() if oldest <= number <= reached}
    return replace(used, revisions={**known, **used.revisions})


def _lost_entries(damaged: DatabaseContent, used: DatabaseContent, *, is_newest: bool) -> tuple[str, ...]:
    """Compare with the summary. If an older revision is used, its entries differ for that reason."""
    if damaged.summary is None:
        return ("how many entries were lost or are outdated is not known",)
    if used.sequence > damaged.sequence:
        return ()  # a complete copy that is newer
    missing = incomplete_sets(replace(used, summary=damaged.summary))
    ignored = {REVISIONS} if is_newest else {REVISIONS, *map(entry_set, _kinds(used.revisions))}
    return tuple(
        f"entries of kind '{name.removeprefix('entry/')}' may be outdated"
        if count <= 0
        else f"{count} of {damaged.summary.sets[name].count} entries of kind '{name.removeprefix('entry/')}' are lost"
        for name, count in sorted(missing.items())
        if name not in ignored
    )


def _lost_revisions(reached: int, last: int) -> tuple[str, ...]:
    if reached >= last:
        return ()
    return (f"the state is that of revision {reached}; {_range('revision', reached + 1, last)} lost",)


def _lost_history(damaged: DatabaseContent, used: DatabaseContent) -> tuple[str, ...]:
    if damaged.summary is None:
        return ("the history may be incomplete",)
    missing = damaged.summary.sets.get(REVISIONS, SetDigest()).count - len(used.revisions)
    if missing <= 0:
        return ()
    return ("1 revision of the history is lost" if missing == 1 else f"{missing} revisions of the history are lost",)


def _lost_commits(damaged: DatabaseContent, used: DatabaseContent, head: ConfirmedCommit | None) -> tuple[str, ...]:
    found = max(damaged.sequence, used.sequence)
    if head is None or head.sequence <= found:
        return ()
    return (f"{_range('commit', found + 1, head.sequence)} lost",)


def _range(what: str, first: int, last: int) -> str:
    return f"{what} {first} is" if first == last else f"{what}s {first} to {last} are"
