"""`ank rollout status`: running atomic changes, and the last ones that have ended."""

from collections.abc import Iterable

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.interruptible import until_signal
from ankaios.cli.session import RequestRejected, Session
from ankaios.cli.terminal.output import CliError
from ankaios.cli.terminal.table import WRAP, print_table
from ankaios.cli.views.rollout_rows import HEADER, is_running, rollout_form, rollout_lines, rollout_rows
from ankaios.cli.views.times import current_ms
from ankaios.common.pb import ank_base_pb2 as base


def show_status(call: CommandCall) -> None:
    names: list[str] = call.values["names"]
    with open_session(call, "Failed to get rollouts") as session:
        try:
            wanted = base.RolloutsRequest(names=names, follow=call.values["follow"])
            response = session.request_addition(base.Request(rolloutsRequest=wanted))
        except RequestRejected as error:
            raise CliError(f"Failed to get rollouts: {error.message}", "see 'ank rollout status'") from error
        _show(call, response.rolloutsResponse.rollouts, bool(names))
        if call.values["follow"]:
            until_signal(session, lambda: _follow(call, session, response))
        session.goodbye()


def _follow(call: CommandCall, session: Session, response: base.Response) -> None:
    rollouts = response.rolloutsResponse.rollouts
    shown = rollout_rows(rollouts, 0)
    while any(is_running(rollout) for rollout in rollouts):
        rollouts = session.next_response(response.requestId, "rolloutsResponse").rolloutsResponse.rollouts
        if rollout_rows(rollouts, 0) != shown:
            shown = rollout_rows(rollouts, 0)
            _show(call, rollouts, True)


def _show(call: CommandCall, rollouts: Iterable[base.RolloutInfo], in_detail: bool) -> None:
    now = current_ms()
    if call.values["format"] == "json":
        call.output.json([rollout_form(rollout) for rollout in rollouts])
        return
    if not in_detail:
        print_table(call.output, HEADER, rollout_rows(rollouts, now), WRAP)
        return
    for rollout in rollouts:
        call.output.lines(rollout_lines(call.output, rollout, now))
