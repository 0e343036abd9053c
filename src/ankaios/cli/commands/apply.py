"""`ank apply`: creates or replaces the workloads and configs of manifests, or deletes them (`-d`)."""

from ankaios.cli.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.manifest_update import read_update
from ankaios.cli.update import update_and_wait


def run(call: CommandCall) -> None:
    update = read_update(call, deletes=call.values["delete"])
    if update is None:
        return
    if call.values["dry_run"]:
        from ankaios.cli.commands.plan import print_plan, request_plan

        print_plan(call, request_plan(call, update))
        return
    with open_session(call) as session:
        if call.values["atomic"]:
            from ankaios.cli.atomic_update import apply_atomically

            apply_atomically(call, session, update)
            session.goodbye()
            return
        update_and_wait(call, session, update.new_state, update.masks, update.names, call.values["if_revision"])
        session.goodbye()
