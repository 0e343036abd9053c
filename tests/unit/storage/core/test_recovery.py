from collections.abc import Collection, Iterable

from msgspec.structs import replace

from ankaios.storage.core.content_summary import ConfirmedCommit, ContentSummary
from ankaios.storage.core.encoding import write_set
from ankaios.storage.core.recovery import (
    DatabaseContent,
    content_digests,
    incomplete_sets,
    problem_of,
    restore_content,
)
from ankaios.storage.state_store import EntryKey, StateChange
from tests.unit.storage.changes import a_change, a_workload

WORKLOADS = ("w1", "w2", "w3", "w4", "w5", "w6")


def content_after(changes: Iterable[StateChange]) -> DatabaseContent:
    """An intact database after one commit for each change."""
    changes = list(changes)
    writes = write_set(changes)
    content = DatabaseContent(
        entries={key: value for key, value in writes.entries.items() if value is not None},
        revisions={number: value for number, value in writes.revisions.items() if value is not None},
    )
    summary = ContentSummary("s", 2, len(changes), writes.last_revision, content_digests(content))
    return replace(content, summary=summary)


def changes(count: int, dropped: int = 0) -> list[StateChange]:
    """Workload n is added by revision n; the first revisions are dropped afterwards."""
    made = [a_change(n, f"w{n}", a_workload(n, 10)) for n in range(1, count + 1)]
    made[-1] = replace(made[-1], dropped_revisions=tuple(range(1, dropped + 1)))
    return made


def without(content: DatabaseContent, names: Collection[str] = (), numbers: Collection[int] = ()) -> DatabaseContent:
    """The same with lost rows; the summary still has them."""
    entries = {key: value for key, value in content.entries.items() if key.name not in names}
    revisions = {number: value for number, value in content.revisions.items() if number not in numbers}
    return replace(content, entries=entries, revisions=revisions)


def workloads(content: DatabaseContent) -> list[str]:
    return sorted(key.name for key in content.entries if key.kind == "workload")


def test_an_intact_database_has_no_problem() -> None:
    content = content_after(changes(6))
    assert problem_of(content, ConfirmedCommit("s", 6, 6)) is None
    assert problem_of(content, ConfirmedCommit("other", 99, 99)) is None
    assert incomplete_sets(content) == {}


def test_each_kind_of_damage_is_a_problem() -> None:
    content = content_after(changes(6))
    outdated = replace(content, entries={**content.entries, EntryKey("workload", "w1"): b"1"})
    assert problem_of(replace(content, problems=("a", "b")), None) == "the database is damaged (a; b)"
    assert problem_of(replace(content, summary=None), None) == "the database has no summary"
    assert problem_of(without(content, ["w2"]), None) == "rows of the database are missing or outdated"
    assert problem_of(outdated, None) == "rows of the database are missing or outdated"
    assert (
        problem_of(content, ConfirmedCommit("s", 8, 8)) == "the database ends at commit 6, but commit 8 was confirmed"
    )


def test_complete_rows_are_used_whatever_else_is_damaged() -> None:
    content = content_after(changes(6))
    restored = restore_content(
        replace(content, problems=("index",)), content_after(changes(3)), ConfirmedCommit("s", 6, 6)
    )
    assert restored.content == content
    assert (restored.sequence, restored.last_revision, restored.lost) == (6, 6, ())


def test_a_missing_entry_is_taken_from_the_history() -> None:
    content = content_after([*changes(6), a_change(7, "w2", {"new": 1}, a_workload(2, 10))])
    damaged = replace(content, entries={k: v for k, v in content.entries.items() if k != EntryKey("workload", "w2")})
    restored = restore_content(damaged, None, None)
    assert restored.content.entries == content.entries
    assert restored.lost == ()


def test_without_history_the_copy_is_rolled_forward_to_the_newest_revision() -> None:
    content = content_after(changes(6, dropped=4))
    restored = restore_content(without(content, ["w1"]), content_after(changes(4)), None)
    assert restored.content.entries == content.entries
    assert (restored.last_revision, restored.lost) == (6, ())


def test_rolling_forward_stops_at_a_lost_revision_and_reports_the_rest_as_lost() -> None:
    content = content_after(changes(6, dropped=2))
    restored = restore_content(without(content, ["w1"], [5]), content_after(changes(3)), ConfirmedCommit("s", 6, 6))
    assert workloads(restored.content) == ["w1", "w2", "w3", "w4"]
    assert sorted(restored.content.revisions) == [1, 2, 3, 4]
    assert restored.last_revision == 6
    assert restored.lost == ("the state is that of revision 4; revisions 5 to 6 are lost",)


def test_deleted_entries_are_not_restored_from_the_copy() -> None:
    content = content_after([*changes(6), a_change(7, "w3", None, a_workload(3, 10))])
    restored = restore_content(without(content, ["w1"], [1]), content_after(changes(5)), None)
    assert workloads(restored.content) == ["w1", "w2", "w4", "w5", "w6"]
    assert restored.lost == ("entries of kind 'placement' may be outdated",)


def test_entries_without_history_are_newer_in_the_damaged_database() -> None:
    moved = StateChange((a_change(9, "w2", 1).entries[1],))
    content = content_after([*changes(6, dropped=6), moved])
    damaged = replace(content, entries={k: v for k, v in content.entries.items() if k != EntryKey("workload", "w1")})
    restored = restore_content(damaged, content_after(changes(6)), None)
    assert restored.content.entries[EntryKey("placement", "w2")] == b'{"agent":"agent_9"}'
    assert workloads(restored.content) == list(WORKLOADS)
    assert restored.lost == ()


def test_an_entry_without_history_that_comes_from_the_copy_may_be_outdated() -> None:
    moved = StateChange((a_change(9, "w2", 1).entries[1],))
    content = content_after([*changes(6), moved])
    restored = restore_content(without(content, ["w2"]), content_after(changes(6)), None)
    assert restored.lost == ("entries of kind 'placement' may be outdated",)


def test_without_a_copy_the_report_counts_what_is_lost() -> None:
    content = content_after(changes(6, dropped=6))
    restored = restore_content(without(content, ["w1", "w2"]), None, None)
    assert workloads(restored.content) == ["w3", "w4", "w5", "w6"]
    assert restored.lost == (
        "2 of 6 entries of kind 'placement' are lost",
        "2 of 6 entries of kind 'workload' are lost",
    )


def test_a_database_without_summary_and_copy_reports_that_the_loss_is_unknown() -> None:
    content = replace(content_after(changes(3)), summary=None)
    restored = restore_content(content, None, ConfirmedCommit("s", 5, 4))
    assert workloads(restored.content) == ["w1", "w2", "w3"]
    assert (restored.sequence, restored.last_revision) == (5, 4)
    assert restored.lost == (
        "the state is that of revision 3; revision 4 is lost",
        "how many entries were lost or are outdated is not known",
        "the history may be incomplete",
        "commits 1 to 5 are lost",
    )


def test_an_outdated_database_reports_the_confirmed_commits_that_are_missing() -> None:
    restored = restore_content(content_after(changes(4)), None, ConfirmedCommit("s", 6, 6))
    assert workloads(restored.content) == ["w1", "w2", "w3", "w4"]
    assert restored.lost == ("the state is that of revision 4; revisions 5 to 6 are lost", "commits 5 to 6 are lost")


def test_a_copy_that_is_newer_than_the_database_is_used() -> None:
    restored = restore_content(content_after(changes(3)), content_after(changes(5)), ConfirmedCommit("s", 5, 5))
    assert workloads(restored.content) == ["w1", "w2", "w3", "w4", "w5"]
    assert restored.lost == ()


def test_gaps_of_the_history_are_filled_from_the_copy_but_dropped_revisions_are_not() -> None:
    content = content_after(changes(6, dropped=2))
    restored = restore_content(without(content, (), [4, 6]), content_after(changes(5)), None)
    assert sorted(restored.content.revisions) == [3, 4, 5]
    assert restored.lost == ("1 revision of the history is lost",)


def test_records_of_both_databases_are_used() -> None:
    damaged = replace(without(content_after(changes(6, dropped=6)), ["w1"]), records={"a": b"2"})
    copy = replace(content_after(changes(5)), records={"a": b"1", "b": b"1"})
    assert restore_content(damaged, copy, None).content.records == {"a": b"2", "b": b"1"}
