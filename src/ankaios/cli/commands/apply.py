"""`ank apply`: creates or replaces the workloads and configs of manifests, or deletes them (`-d`)."""

from ankaios.cli.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.input_file import hint_of
from ankaios.cli.manifest_files import read_change
from ankaios.cli.output import CliError
from ankaios.cli.update import update_and_wait
from ankaios.common.errors import Rejected
from ankaios.common.manifest import ManifestChange
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base


def run(call: CommandCall) -> None:
    """All errors in the manifests are found before the server is contacted."""
    deletes: bool = call.values["delete"]
    try:
        change = read_change(call.output, call.values["files"], call.values["agent"], need_agent=not deletes)
        if not change.masks:
            call.output.progress("Nothing to update.")
            return
        new_state = base.CompleteState() if deletes else _new_state(change)
    except Rejected as error:
        raise CliError(f"Command failed: '{error}'", hint_of(error)) from error
    _update(call, change, new_state)


def _new_state(change: ManifestChange) -> base.CompleteState:
    try:
        return COMPLETE_STATE.from_form({"desiredState": change.desired_state})
    except Rejected as error:
        raise Rejected(f"Invalid manifest data provided: {error}") from error


def _update(call: CommandCall, change: ManifestChange, new_state: base.CompleteState) -> None:
    names = change.desired_state.get("workloads", {}).keys()
    with open_session(call) as session:
        update_and_wait(call, session, new_state, change.masks, names, call.values["if_revision"])
        session.goodbye()
