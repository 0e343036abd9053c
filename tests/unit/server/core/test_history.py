import pytest

from ankaios.common.errors import Rejected
from ankaios.server.core.history import History, HistoryLimits
from ankaios.storage.state_store import EntryChange, EntryKey

WEB, DB = EntryKey("workload", "web"), EntryKey("workload", "db")


def a_change(key: EntryKey, before: object, after: object) -> EntryChange:
    return EntryChange(key.kind, key.name, before, after)


def a_history(limits: HistoryLimits | None = None) -> History:
    """Revision 1 adds web, 2 adds db, 3 changes web."""
    history = History(limits)
    history.add(10.0, "alice", ["m"], [a_change(WEB, None, 1)])
    history.add(20.0, "bob", [], [a_change(DB, None, 1)])
    history.add(30.0, "alice", [], [a_change(WEB, 1, 2)], note="why")
    return history


def numbers(history: History, **options: object) -> list[int]:
    return [revision.number for revision in history.select(**options)]  # type: ignore[arg-type]


def test_revisions_are_numbered_and_selected_by_range_limit_and_workload() -> None:
    history = a_history()
    assert history.current == 3
    assert numbers(history) == [1, 2, 3]
    assert numbers(history, first=2) == [2, 3]
    assert numbers(history, last=2) == [1, 2]
    assert numbers(history, limit=1) == [3]
    assert numbers(history, workloads=["web"]) == [1, 3]
    assert numbers(history, workloads=["web"], limit=1, last=2) == [1]


def test_the_values_of_a_revision_are_those_before_the_later_changes() -> None:
    history = a_history()
    assert history.values_at(3) == {}
    assert history.values_at(2) == {WEB: 1}
    assert history.values_at(1) == {DB: None, WEB: 1}
    assert history.values_at(0) == {WEB: None, DB: None}


def test_a_change_since_a_revision_is_found_by_its_entry() -> None:
    history = a_history()
    assert history.changed_since(1, {WEB}) == (WEB, history.select(first=3)[0])
    assert history.changed_since(2, {DB}) is None
    assert history.changed_since(3, {WEB, DB}) is None


def test_a_revision_that_does_not_exist_is_rejected() -> None:
    with pytest.raises(Rejected, match="there is no revision 4, the newest is 3"):
        a_history().values_at(4)


@pytest.mark.parametrize(
    ("limits", "now"),
    [(HistoryLimits(revisions=1), 30.0), (HistoryLimits(seconds=5.0), 31.0), (HistoryLimits(entries=1), 30.0)],
)
def test_number_age_and_size_are_bounded_and_dropped_revisions_cannot_be_used(
    limits: HistoryLimits, now: float
) -> None:
    history = a_history(limits)
    assert history.drop_old(now) == (1, 2)
    assert history.drop_old(now) == ()
    assert numbers(history) == [3]
    assert history.values_at(2) == {WEB: 1}
    with pytest.raises(Rejected, match="does not contain all changes since revision 1, only since 2"):
        history.changed_since(1, {WEB})


def test_the_newest_revision_is_never_dropped() -> None:
    history = a_history(HistoryLimits(revisions=0, seconds=0.0, entries=0))
    assert history.drop_old(1e9) == (1, 2)
    assert numbers(history) == [3]


def test_a_restored_history_continues_after_the_highest_number_ever_used() -> None:
    history = History()
    history.restore(reversed(a_history().select()), last=7)
    assert numbers(history) == [1, 2, 3]
    assert history.current == 7
    with pytest.raises(Rejected, match="only since 7"):
        history.values_at(3)
    assert history.add(40.0, "", [], []).number == 8
    empty = History()
    empty.restore([], 0)
    assert empty.current == 0
