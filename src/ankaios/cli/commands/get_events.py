"""`ank get events`: one document for every change of the parts of the state that the masks select."""

from __future__ import annotations

import time
from typing import Any

from ankaios.cli.arguments import Call
from ankaios.cli.connection import Session, run_session
from ankaios.cli.failures import told_as
from ankaios.cli.interruptible import until_signal
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base


def run(call: Call) -> int:
    def action(session: Session) -> None:
        until_signal(session, lambda: _print_events(call, session))
        session.goodbye()

    with told_as("Failed to get events"):
        run_session(call, action)
    return 0


def _print_events(call: Call, session: Session) -> None:
    subscription, first = session.subscribe(call.values["masks"])
    if call.values["include_current_state"]:
        _print(call, first)
    while True:
        _print(call, session.next_event(subscription))


def _print(call: Call, event: base.CompleteStateResponse) -> None:
    if not call.output.quiet:
        call.output.write(event_text(event, timestamp(time.time_ns()), call.values["format"]))


def event_text(event: base.CompleteStateResponse, time_text: str, wanted: str) -> str:
    """One event as a YAML document or a line of JSON, with its newline."""
    form: dict[str, Any] = {}
    altered = event.alteredFields
    for key, paths in (
        ("addedFields", altered.addedFields),
        ("updatedFields", altered.updatedFields),
        ("removedFields", altered.removedFields),
    ):
        if paths:
            form[key] = list(paths)
    form["completeState"] = COMPLETE_STATE.to_form(event.completeState)
    if wanted == "json":
        import json

        return json.dumps({"timestamp": time_text, **form}, ensure_ascii=False, separators=(",", ":")) + "\n"
    from ankaios.common.yaml_text import dump_yaml

    return f"---\ntimestamp: {time_text}\n{dump_yaml(form)}"


def timestamp(nanoseconds: int) -> str:
    """UTC as RFC 3339, with as few groups of three digits behind the second as say everything."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    digits = f"{rest:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    fraction = f".{digits}" if digits else ""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + fraction + "+00:00"
