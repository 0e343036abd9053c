"""`ank history`, `ank history show`, `ank diff` and `ank rollback`: the revisions of the desired state."""

from collections.abc import Iterable

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.session import Session
from ankaios.cli.terminal.description import Description
from ankaios.cli.terminal.output import CliError, CliOutput
from ankaios.cli.terminal.table import CUT_LAST, printable, styled_table
from ankaios.cli.updates.update import change_and_wait
from ankaios.cli.views.revision_diff import EntryDifference, difference_lines, net_differences
from ankaios.cli.views.times import local_second
from ankaios.common.pb import ank_base_pb2 as base

HEADER = ("REVISION", "TIME", "REQUESTER", "CHANGES", "NOTE")
_SIGNS = {(False, True): "+", (True, False): "-"}
_MOST_SHOWN = 5


def list_revisions(call: CommandCall) -> None:
    wanted = base.HistoryRequest(workloads=call.values["workload"], limit=call.values["limit"])
    with open_session(call, "Failed to get the history") as session:
        revisions = _history(session, wanted).revisions
        session.goodbye()
    rows = [revision_row(revision) for revision in revisions]
    call.output.line("\n".join(styled_table(call.output, HEADER, rows, overflow=CUT_LAST)))


def revision_row(revision: base.RevisionInfo) -> tuple[str, ...]:
    changes = [f"{_sign(entry)}{_short_name(entry)}" for entry in revision.entries]
    more = [f"and {len(changes) - _MOST_SHOWN} more"] if len(changes) > _MOST_SHOWN else []
    shown = " ".join([*changes[:_MOST_SHOWN], *more])
    return str(revision.number), local_second(revision.timeMs), revision.requester, shown, revision.note


def _sign(entry: base.EntryChange) -> str:
    return _SIGNS.get((entry.HasField("before"), entry.HasField("after")), "~")


def _short_name(entry: base.EntryChange) -> str:
    return entry.name if entry.kind == "workload" else f"{entry.kind}:{entry.name}"


def show_revision(call: CommandCall) -> None:
    number: int = call.values["revision"]
    wanted = base.HistoryRequest(first=number, last=number, values=True)
    with open_session(call, "Failed to show the revision") as session:
        response = _history(session, wanted)
        session.goodbye()
    if not response.revisions:
        raise _unknown_revision(number, response)
    (revision,) = response.revisions
    description = Description()
    description.fact("Revision", str(revision.number))
    description.fact("Time", local_second(revision.timeMs))
    description.fact("Requester", revision.requester)
    description.fact("Masks", ", ".join(revision.updateMasks))
    description.fact("Note", revision.note)
    call.output.line(description.text(call.output))
    _print_differences(call.output, net_differences([revision]))


def show_difference(call: CommandCall) -> None:
    """From the first revision to the second, or to the current state."""
    first: int = call.values["first"]
    second: int | None = call.values["second"]
    with open_session(call, "Failed to compare the revisions") as session:
        low, high = (first, None) if second is None else (min(first, second), max(first, second))
        response = _history(session, base.HistoryRequest(first=low + 1, last=high, values=True))
        session.goodbye()
    newest = response.current if high is None else high
    if max(low, newest) > response.current:
        raise _unknown_revision(max(low, newest), response)
    if len(response.revisions) < newest - low:
        raise CliError(
            f"The history does not contain all revisions from {low} to {newest}.", "'ank history' lists the revisions"
        )
    differences = net_differences(response.revisions)
    _print_differences(call.output, differences if low == first else [each.reversed() for each in differences])


def roll_back(call: CommandCall) -> None:
    wanted = base.RollbackRequest(revision=call.values["revision"], workloads=call.values["workload"])
    with open_session(call, "Failed to roll back") as session:
        if call.values["atomic"]:
            from ankaios.cli.updates.atomic_update import atomic_options, change_atomically

            wanted.atomic.CopyFrom(atomic_options(call))
            change_atomically(call, session, base.Request(rollbackRequest=wanted))
        else:
            change_and_wait(call, session, base.Request(rollbackRequest=wanted), call.values["workload"] or None)
        session.goodbye()


def _history(session: Session, wanted: base.HistoryRequest) -> base.HistoryResponse:
    return session.request_addition(base.Request(historyRequest=wanted)).historyResponse


def _unknown_revision(number: int, response: base.HistoryResponse) -> CliError:
    if number > response.current:
        return CliError(f"There is no revision {number}.", f"the newest revision is {response.current}")
    return CliError(f"Revision {number} is not in the history.", "'ank history' lists the revisions")


def _print_differences(output: CliOutput, differences: Iterable[EntryDifference]) -> None:
    styles = {"+": "good", "-": "bad", "@": "dim"}
    for line in difference_lines(differences):
        style = styles.get(line[:1], "")
        shown = printable(line) if output.is_terminal else line
        output.line(output.paint(shown, style) if style else shown)
