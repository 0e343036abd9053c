"""`ank delete workload` and `ank delete config`."""

from __future__ import annotations

from ankaios.cli.arguments import Call, Command, Positional
from ankaios.cli.commands import CHANGE

COMMAND = Command(
    "delete",
    "Delete workloads or configuration items",
    group=CHANGE,
    examples=(("ank delete workload web", "stop and remove a workload"),),
    children=(
        Command(
            "workload",
            "Delete workloads and wait until they are gone",
            aliases=("workloads",),
            positionals=(
                Positional("names", "Which workloads", label="WORKLOAD_NAME", many=True, complete="workloads"),
            ),
            examples=(("ank delete workload web db", "stop and remove two workloads"),),
            run="ankaios.cli.commands.delete:run_workloads",
        ),
        Command(
            "config",
            "Delete configuration items",
            aliases=("configs",),
            positionals=(Positional("names", "Which keys", label="CONFIG_NAME", many=True, complete="configs"),),
            examples=(("ank delete config ports", "remove one item"),),
            run="ankaios.cli.commands.delete:run_configs",
        ),
    ),
)


def run_workloads(call: Call) -> int:
    from ankaios.cli.connection import Session, run_session
    from ankaios.cli.failures import told_as
    from ankaios.cli.hints import hint_at_unknown_workloads
    from ankaios.cli.update import update_and_wait
    from ankaios.common.pb import ank_base_pb2 as base

    names: list[str] = call.values["names"]

    def action(session: Session) -> None:
        masks = [f"desiredState.workloads.{name}" for name in names]
        success = update_and_wait(call, session, base.CompleteState(), masks, names)
        deleted = {text.partition(".")[0] for text in success.deletedWorkloads}
        hint_at_unknown_workloads(call, session, [name for name in names if name not in deleted])
        session.goodbye()

    with told_as("Failed to delete workloads"):
        run_session(call, action)
    return 0


def run_configs(call: Call) -> int:
    from ankaios.cli.connection import CommandFailed, Session, run_session
    from ankaios.cli.failures import execution_error, told_as
    from ankaios.common.pb import ank_base_pb2 as base

    def action(session: Session) -> None:
        masks = [f"desiredState.configs.{name}" for name in call.values["names"]]
        try:
            session.update(base.CompleteState(), masks)
        except CommandFailed as fault:
            raise CommandFailed(f"Failed to delete configs: {execution_error(fault)}", fault.hint) from fault
        session.goodbye()

    with told_as("Failed to delete configs"):
        run_session(call, action)
    return 0
