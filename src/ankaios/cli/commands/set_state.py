"""`ank set state`: sets the parts of the state that masks select to the content of a file."""

from typing import Any

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.input_file import STANDARD_INPUT, advice, read_input
from ankaios.cli.session import update_request
from ankaios.cli.terminal.output import CliError
from ankaios.cli.updates.update import change_and_wait
from ankaios.common.errors import Rejected
from ankaios.common.manifest import violations
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.yaml_text import load_yaml

_PREFIX = "Failed to set state"


def run(call: CommandCall) -> None:
    new_state = _read_state(call.values["file"])
    with open_session(call, _PREFIX) as session:
        change_and_wait(call, session, update_request(new_state, call.values["masks"]), None)
        session.goodbye()


def _read_state(file: str) -> base.CompleteState:
    try:
        return _parse_state(read_input(file), "standard input" if file == STANDARD_INPUT else f"'{file}'")
    except OSError as error:
        reason = f"{error.strerror} (os error {error.errno})"
        what = f"Could not read the state object file '{file}'.\nError: '{reason}'"
        raise CliError(f"{_PREFIX}: 'Command failed: '{what}''", advice(error)) from error
    except Rejected as error:
        raise CliError(f"{_PREFIX}: 'Could not serialize YAML object: '{error}''") from error


def _parse_state(text: bytes, what: str) -> base.CompleteState:
    form = load_yaml(text, what)
    if not isinstance(form, dict):
        raise Rejected(f"{what}: expected a map with 'desiredState' on top")
    desired = form.get("desiredState", {"apiVersion": ""})
    if not isinstance(desired, dict) or "apiVersion" not in desired:
        raise Rejected("desiredState: missing field `apiVersion`")
    try:
        return COMPLETE_STATE.from_form(form)
    except Rejected as error:
        unknown = f"{what}: not in the form of 'ank get state': {error}"
        raise Rejected(_schema_violations(form.get("desiredState")) or unknown) from error


def _schema_violations(desired: Any) -> str:
    """The violations of the schema, without missing fields: the file may contain only parts of the state."""
    if desired is None:
        return ""
    found = [(place, why) for place, why in violations(desired) if not why.endswith("is a required property")]
    return "; ".join(f"desiredState{place.replace('/', '.')}: {why}" for place, why in found)
