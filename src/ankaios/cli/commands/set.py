"""`ank set state`: parts of the state as a file says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.cli.arguments import Call, Command, Positional
from ankaios.cli.commands import CHANGE

if TYPE_CHECKING:
    from ankaios.common.pb import ank_base_pb2 as base

COMMAND = Command(
    "set",
    "Set parts of the state",
    group=CHANGE,
    examples=(("ank set state desiredState.workloads.web.tags state.yaml", "set the tags of a workload"),),
    children=(
        Command(
            "state",
            "Set the parts of the state that masks name to what a file says",
            positionals=(
                Positional("masks", "Parts of the state", label="MASK", many=True, complete="masks"),
                Positional(
                    "file",
                    "State in the form of 'ank get state', or - for standard input",
                    label="FILE",
                    complete="files",
                ),
            ),
            details="A part that is not in the file is deleted.",
            examples=(
                ("ank set state desiredState.workloads.web.tags state.yaml", "set the tags of a workload"),
                ("ank get state | edit | ank set state desiredState -", "replace everything"),
            ),
            run="ankaios.cli.commands.set:run",
        ),
    ),
)


def run(call: Call) -> int:
    from ankaios.cli.connection import Session, run_session
    from ankaios.cli.failures import told_as
    from ankaios.cli.update import update_and_wait

    with told_as("Failed to set state"):
        new_state = _read_state(call.values["file"])

        def action(session: Session) -> None:
            update_and_wait(call, session, new_state, call.values["masks"], None)
            session.goodbye()

        run_session(call, action)
    return 0


def _read_state(file: str) -> base.CompleteState:
    from ankaios.cli.connection import CommandFailed
    from ankaios.cli.input_file import STANDARD_INPUT, advice, read_file, read_standard_input
    from ankaios.cli.output import CliError
    from ankaios.common.errors import Rejected

    try:
        text = read_standard_input() if file == STANDARD_INPUT else read_file(file)
    except OSError as fault:
        reason = f"{fault.strerror} (os error {fault.errno})"
        what = f"Could not read the state object file '{file}'.\nError: '{reason}'"
        raise CommandFailed(what, advice(fault)) from fault
    try:
        return _parse_state(text, "standard input" if file == STANDARD_INPUT else f"'{file}'")
    except Rejected as fault:
        raise CliError(f"Failed to set state: 'Could not serialize YAML object: '{fault}''") from fault


def _parse_state(text: bytes, what: str) -> base.CompleteState:
    from ankaios.common.errors import Rejected
    from ankaios.common.model.state import COMPLETE_STATE
    from ankaios.common.yaml_text import load_yaml

    form = load_yaml(text, what)
    if not isinstance(form, dict):
        raise Rejected(f"{what}: expected a map with 'desiredState' on top")
    desired = form.get("desiredState", {"apiVersion": ""})
    if not isinstance(desired, dict) or "apiVersion" not in desired:
        raise Rejected("desiredState: missing field `apiVersion`")
    try:
        return COMPLETE_STATE.from_form(form)
    except Rejected as fault:
        unknown = f"{what}: not in the form of 'ank get state': {fault}"
        raise Rejected(_explained(form.get("desiredState")) or unknown) from fault


def _explained(desired: object) -> str:
    """What the schema says of a state that may be a part of one, in which nothing is required."""
    from ankaios.common.manifest import violations

    if desired is None:
        return ""
    found = [(place, why) for place, why in violations(desired) if not why.endswith("is a required property")]
    return "; ".join(f"desiredState{place.replace('/', '.')}: {why}" for place, why in found)
