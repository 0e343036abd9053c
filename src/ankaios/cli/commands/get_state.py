"""`ank get state`: the complete state, or the parts that masks select, as YAML or JSON."""

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.hints import hint_unmatched_masks
from ankaios.cli.session import RequestFailed
from ankaios.cli.terminal.output import CliError
from ankaios.common.errors import Rejected
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.yaml_text import dump_yaml

_FAILED = "Could not retrieve state."


def run(call: CommandCall) -> None:
    masks: list[str] = call.values["masks"]
    with open_session(call) as session:
        try:
            state = session.complete_state(*masks)
        except RequestFailed as error:
            raise CliError(_FAILED, f"{error}. {error.hint}".rstrip()) from error
        try:
            form = COMPLETE_STATE.to_form(state)
        except Rejected as error:
            raise CliError(_FAILED, str(error)) from error
        if call.values["format"] == "json":
            call.output.json(form)
        else:
            call.output.line(dump_yaml(form))
        hint_unmatched_masks(call, session, masks, form)
