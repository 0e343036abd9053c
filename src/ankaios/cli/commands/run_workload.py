"""`ank run workload`: runs one workload without a manifest."""

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.session import update_request
from ankaios.cli.updates.update import change_and_wait
from ankaios.common.pb import ank_base_pb2 as base


def run(call: CommandCall) -> None:
    values = call.values
    name: str = values["name"]
    new_state = base.CompleteState()
    new_state.desiredState.workloads.workloads[name].CopyFrom(
        base.Workload(
            agent=values["agent"],
            runtime=values["runtime"],
            runtimeConfig=values["config"],
            tags=base.Tags(tags=dict(values["tags"])),
        )
    )
    with open_session(call, "Failed to run workloads") as session:
        change_and_wait(call, session, update_request(new_state, [f"desiredState.workloads.{name}"]), [name])
        session.goodbye()
