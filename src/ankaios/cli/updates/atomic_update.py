"""`--atomic` of `ank apply` and `ank rollback`: sends a change that the server monitors, and shows its rollout."""

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.interruptible import run_until_killed
from ankaios.cli.session import Session
from ankaios.cli.terminal.live_display import LiveDisplay
from ankaios.cli.terminal.output import CliError
from ankaios.cli.updates.update import NOTHING_CHANGED
from ankaios.cli.views.rollout_rows import is_running, phase_text, rollout_lines
from ankaios.cli.views.times import current_ms
from ankaios.common.pb import ank_base_pb2 as base

UNSUPPORTED = "the server does not support atomic changes, so nothing was changed"


def atomic_options(call: CommandCall) -> base.AtomicOptions:
    return base.AtomicOptions(timeoutMs=call.values["timeout"], settleMs=call.values["settle"])


def change_atomically(call: CommandCall, session: Session, request: base.Request) -> None:
    """Raises `CliError` with the reason if the server has restored the previous state."""
    session.complete_state("agents")
    if not session.accepts_additions:
        raise CliError(UNSUPPORTED, "servers of Eclipse Ankaios ignore '--atomic' and apply the change without it")
    success = session.receive_success(session.send_change(request))
    if not success.HasField("rollout"):
        call.output.progress(NOTHING_CHANGED)
        return
    call.output.progress(f"Applied as {success.rollout}, which the server monitors (Ctrl+C does not end it).")
    if call.settings.no_wait:
        call.output.progress(f"See 'ank rollout status {success.rollout}'.")
        return
    ended: list[base.RolloutInfo] = []
    run_until_killed(session, lambda: ended.append(_follow(call, session, success.rollout)))
    if ended:
        _print_result(call, ended[0])


def _follow(call: CommandCall, session: Session, name: str) -> base.RolloutInfo:
    response = session.request_addition(base.Request(rolloutsRequest=base.RolloutsRequest(names=[name], follow=True)))
    with LiveDisplay(call.output) as display:
        shown: base.RolloutInfo | None = None
        while True:
            (rollout,) = response.rolloutsResponse.rollouts
            if rollout != shown:
                shown = rollout
                display.show(list(rollout_lines(call.output, rollout, current_ms())))
            if not is_running(rollout):
                return rollout
            response = session.next_response(response.requestId, "rolloutsResponse")


def _print_result(call: CommandCall, rollout: base.RolloutInfo) -> None:
    if rollout.phase == base.ROLLOUT_COMPLETED:
        call.output.progress(f"{rollout.name} is completed: all workloads are ready.")
        return
    if rollout.phase == base.ROLLOUT_RESTORED:
        raise CliError(f"{rollout.name} failed and the previous state is restored: {rollout.reason}")
    raise CliError(f"{rollout.name} failed ({phase_text(rollout)}): {rollout.reason}")
