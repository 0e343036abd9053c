"""`ank get events`: one document for every change of the parts of the state that masks select."""

import time
from typing import Any

from ankaios.cli.arguments import CommandCall
from ankaios.cli.connection import follow_servers
from ankaios.cli.interruptible import until_signal
from ankaios.cli.session import Session
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.yaml_text import dump_yaml


def run(call: CommandCall) -> None:
    follow_servers(call, "Failed to get events", lambda session, lost_at: _follow(call, session, lost_at is not None))


def _follow(call: CommandCall, session: Session, is_again: bool) -> None:
    until_signal(session, lambda: _print_events(call, session, is_again))


def _print_events(call: CommandCall, session: Session, is_again: bool) -> None:
    subscription, current = session.subscribe(call.values["masks"])
    if call.values["include_current_state"] and not is_again:
        _print(call, current)
    while True:
        _print(call, session.next_event(subscription))


def _print(call: CommandCall, event: base.CompleteStateResponse) -> None:
    if not call.output.quiet:
        call.output.write(event_text(event, timestamp(time.time_ns()), call.values["format"]))


def event_text(event: base.CompleteStateResponse, time_text: str, output_format: str) -> str:
    """The event as a YAML document or a line of JSON, with a newline at the end."""
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
    if output_format == "json":
        import json

        return json.dumps({"timestamp": time_text, **form}, ensure_ascii=False, separators=(",", ":")) + "\n"
    return f"---\ntimestamp: {time_text}\n{dump_yaml(form)}"


def timestamp(nanoseconds: int) -> str:
    """UTC in RFC 3339 format, with 0, 3, 6 or 9 digits after the second, as few as possible."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    digits = f"{rest:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    fraction = f".{digits}" if digits else ""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + fraction + "+00:00"
