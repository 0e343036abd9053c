"""From manifest files to the update that `apply` sends and `plan` evaluates."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from ankaios.cli.arguments import CommandCall
from ankaios.cli.input_file import hint_of
from ankaios.cli.manifest_files import read_change
from ankaios.cli.output import CliError
from ankaios.common.errors import Rejected
from ankaios.common.manifest import ManifestChange
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base


class ManifestUpdate(Struct, frozen=True):
    """`names` are the workloads in the manifests."""

    new_state: base.CompleteState
    masks: Sequence[str]
    names: Collection[str]


def read_update(call: CommandCall, *, deletes: bool) -> ManifestUpdate | None:
    """None if the manifests contain nothing. All errors in them are found before the server is contacted."""
    try:
        change = read_change(call.output, call.values["files"], call.values["agent"], need_agent=not deletes)
        if not change.masks:
            call.output.progress("Nothing to update.")
            return None
        new_state = base.CompleteState() if deletes else _new_state(change)
    except Rejected as error:
        raise CliError(f"Command failed: '{error}'", hint_of(error)) from error
    return ManifestUpdate(new_state, change.masks, change.desired_state.get("workloads", {}).keys())


def _new_state(change: ManifestChange) -> base.CompleteState:
    try:
        return COMPLETE_STATE.from_form({"desiredState": change.desired_state})
    except Rejected as error:
        raise Rejected(f"Invalid manifest data provided: {error}") from error
