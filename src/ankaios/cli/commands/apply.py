"""`ank apply`: creates or replaces the workloads and configs of manifests, or deletes them (`-d`)."""

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.updates.manifest_files import read_update
from ankaios.cli.updates.update import change_and_wait
from ankaios.common.pb import ank_base_pb2 as base

_WORKLOAD = "desiredState.workloads."


def run(call: CommandCall) -> None:
    update = read_update(call)
    if update is None:
        return
    if call.values["dry_run"]:
        from ankaios.cli.commands.plan import print_plan, request_plan

        print_plan(call, request_plan(call, update))
        return
    update.MergeFrom(base.UpdateStateRequest(ifRevision=call.values["if_revision"]))
    with open_session(call) as session:
        if call.values["atomic"]:
            from ankaios.cli.updates.atomic_update import atomic_options, change_atomically

            update.atomic.CopyFrom(atomic_options(call))
            change_atomically(call, session, base.Request(updateStateRequest=update))
        else:
            names = [mask.removeprefix(_WORKLOAD) for mask in update.updateMask if mask.startswith(_WORKLOAD)]
            change_and_wait(call, session, base.Request(updateStateRequest=update), names)
        session.goodbye()
