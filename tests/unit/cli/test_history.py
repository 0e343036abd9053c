import json

import pytest

from ankaios.cli.command_line.arguments import HelpRequested
from ankaios.cli.command_line.parser import parse_command_line
from ankaios.cli.commands.history import revision_row
from ankaios.cli.tree.ank import ANK
from ankaios.cli.views.revision_diff import EntryDifference, difference_lines, net_differences
from ankaios.common.pb import ank_base_pb2 as base


def an_entry(name: str, before: object, after: object, kind: str = "workload") -> base.EntryChange:
    texts = {side: json.dumps(value) for side, value in (("before", before), ("after", after)) if value is not None}
    return base.EntryChange(kind=kind, name=name, **texts)


def a_revision(*entries: base.EntryChange) -> base.RevisionInfo:
    return base.RevisionInfo(number=7, timeMs=0, requester="alice", entries=entries, note="why")


def test_a_row_shows_what_was_added_changed_and_removed() -> None:
    revision = a_revision(
        an_entry("web", None, 1), an_entry("db", 1, 2), an_entry("mq", 1, None), an_entry("port", 1, 2, "config")
    )
    assert revision_row(revision)[0] == "7"
    assert revision_row(revision)[2:] == ("alice", "+web ~db -mq ~config:port", "why")


def test_a_row_shows_a_few_of_many_changes() -> None:
    entries = [an_entry(f"w{number}", None, 1) for number in range(9)]
    assert revision_row(a_revision(*entries))[3] == "+w0 +w1 +w2 +w3 +w4 and 4 more"


def test_the_difference_of_several_revisions_omits_equal_entries() -> None:
    revisions = [
        a_revision(an_entry("web", 1, 2), an_entry("db", None, 1)),
        a_revision(an_entry("web", 2, 3), an_entry("db", 1, None)),
    ]
    differences = net_differences(revisions)
    assert differences == [EntryDifference("workload", "web", 1, 3)]
    assert differences[0].reversed() == EntryDifference("workload", "web", 3, 1)


def test_differences_are_shown_as_lines_of_yaml() -> None:
    before = {"agent": "n1", "tags": {"a": "1"}}
    assert list(difference_lines([EntryDifference("workload", "web", before, {**before, "agent": "n2"})])) == [
        "workload web:",
        "@@ -1,3 +1,3 @@",
        "-agent: n1",
        "+agent: n2",
        " tags:",
        "   a: '1'",
    ]
    assert list(difference_lines([EntryDifference("config", "c", None, "text")]))[2:] == ["+text"]


def test_history_lists_without_and_shows_with_a_subcommand() -> None:
    assert parse_command_line(ANK, ["history", "-w", "web"]).values == {"workload": ["web"], "limit": 20}
    shown = parse_command_line(ANK, ["history", "show", "7"])
    assert shown.path[-1].function == "history:show_revision"
    assert shown.values == {"revision": 7}
    with pytest.raises(HelpRequested):
        parse_command_line(ANK, ["history", "help"])
