"""`ank get state`: the complete state, or the parts that masks select, as YAML or JSON."""

from __future__ import annotations

from ankaios.cli.arguments import Call
from ankaios.cli.connection import CommandFailed, Session, run_session
from ankaios.cli.hints import hint_at_unmatched_masks
from ankaios.cli.output import CliError
from ankaios.common.errors import Rejected
from ankaios.common.model.state import COMPLETE_STATE


def run(call: Call) -> int:
    masks: list[str] = call.values["masks"]

    def action(session: Session) -> None:
        form = COMPLETE_STATE.to_form(session.complete_state(*masks))
        call.output.line(_printed(form, call.values["format"]))
        hint_at_unmatched_masks(call, session, masks, form)

    try:
        run_session(call, action)
    except CommandFailed as fault:
        raise CliError("Could not retrieve state.", " ".join(filter(None, (f"{fault}.", fault.hint)))) from fault
    except Rejected as fault:
        raise CliError("Could not retrieve state.", str(fault)) from fault
    return 0


def _printed(form: dict[str, object], wanted: str) -> str:
    if wanted == "json":
        import json

        return json.dumps(form, indent=2, ensure_ascii=False)
    from ankaios.common.yaml_text import dump_yaml

    return dump_yaml(form)
