"""`ank delete workload`, `ank delete config` and `ank delete device-configuration`."""

from collections.abc import Sequence

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.hints import hint_unknown_workloads
from ankaios.cli.session import RequestFailed, Session, execution_error, update_request
from ankaios.cli.terminal.output import CliError
from ankaios.cli.updates.update import change_and_wait
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.suggestions import did_you_mean


def delete_workloads(call: CommandCall) -> None:
    names: list[str] = call.values["workloads"]
    masks = [f"desiredState.workloads.{name}" for name in names]
    with open_session(call, "Failed to delete workloads") as session:
        success = change_and_wait(call, session, update_request(base.CompleteState(), masks), names)
        deleted = {text.partition(".")[0] for text in success.deletedWorkloads}
        hint_unknown_workloads(call, session, [name for name in names if name not in deleted])
        session.goodbye()


def delete_configs(call: CommandCall) -> None:
    failure = "Failed to delete configs"
    with open_session(call, failure) as session:
        _delete(session, [f"desiredState.configs.{name}" for name in call.values["names"]], failure)


def delete_device_configurations(call: CommandCall) -> None:
    """Brokers of the configurations end with them."""
    names: list[str] = call.values["names"]
    failure = "Failed to delete device configurations"
    with open_session(call, failure) as session:
        known = session.complete_state("desiredState.deviceConfigurations").desiredState.deviceConfigurations
        for name in names:
            if name not in known.deviceConfigurations:
                hint = did_you_mean("device configuration", name, known.deviceConfigurations)
                raise CliError(f"Device configuration '{name}' does not exist.", hint)
        _delete(session, [f"desiredState.deviceConfigurations.{name}" for name in names], failure)


def _delete(session: Session, masks: Sequence[str], failure: str) -> None:
    try:
        session.update(base.CompleteState(), masks)
    except RequestFailed as error:
        raise RequestFailed(f"{failure}: {execution_error(error)}", error.hint) from error
    session.goodbye()
