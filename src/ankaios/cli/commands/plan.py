"""`ank plan` and `ank apply --dry-run`: print what applying manifests would do, without doing it."""

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.terminal.output import CliError
from ankaios.cli.updates.manifest_files import read_update
from ankaios.cli.views.plan_view import has_changes, plan_as_form, plan_lines
from ankaios.common.pb import ank_base_pb2 as base

CHANGES = 3


def run(call: CommandCall) -> int:
    update = read_update(call)
    if update is None:
        return 0
    plan = request_plan(call, update)
    if call.values["format"] == "json":
        call.output.json(plan_as_form(plan))
        if not plan.accepted:
            return 1
    else:
        print_plan(call, plan)
    return CHANGES if call.values["exit_code"] and has_changes(plan) else 0


def request_plan(call: CommandCall, update: base.UpdateStateRequest) -> base.PlanResponse:
    with open_session(call) as session:
        plan = session.request_addition(base.Request(planRequest=base.PlanRequest(update=update))).planResponse
        session.goodbye()
        return plan


def print_plan(call: CommandCall, plan: base.PlanResponse) -> None:
    if not plan.accepted:
        raise CliError(f"Plan rejected by rule '{plan.rejectedBy}': {plan.rejection}", "nothing was changed")
    call.output.lines(plan_lines(call.output, plan))
