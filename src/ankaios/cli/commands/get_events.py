"""`ank get events`: one document for every change of the parts of the state that masks select."""

import time
from typing import Any

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import follow_servers, open_session
from ankaios.cli.interruptible import until_signal
from ankaios.cli.session import Session
from ankaios.cli.views.times import rfc3339_time
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.yaml_text import dump_yaml


def run(call: CommandCall) -> None:
    if call.values["since"] is not None:
        _print_records(call)
        return
    follow_servers(call, "Failed to get events", lambda session, lost_at: _follow(call, session, lost_at is not None))


def _follow(call: CommandCall, session: Session, is_again: bool) -> None:
    until_signal(session, lambda: _print_events(call, session, is_again))


def _print_events(call: CommandCall, session: Session, is_again: bool) -> None:
    response = session.subscribe(call.values["masks"])
    if call.values["include_current_state"] and not is_again:
        _print(call, response.completeStateResponse)
    while True:
        response = session.next_response(response.requestId, "completeStateResponse")
        _print(call, response.completeStateResponse)


def _print_records(call: CommandCall) -> None:
    """What happened to workloads since then; with `-f` also what happens from now on."""
    from ankaios.cli.terminal.table import WRAP, print_table
    from ankaios.cli.views.record_rows import HEADER, record_as_json, record_rows

    wanted = base.RecordsRequest(
        workloads=call.values["masks"], sinceMs=call.values["since"], follow=call.values["follow"]
    )
    with open_session(call, "Failed to get events") as session:
        response = session.request_addition(base.Request(recordsRequest=wanted))
        records = response.recordsResponse.records
        if call.values["format"] == "json":
            for record in records:
                call.output.line(record_as_json(record))
        else:
            print_table(call.output, HEADER, record_rows(records), WRAP)
        if call.values["follow"]:
            until_signal(session, lambda: _follow_records(call, session, response.requestId))
        session.goodbye()


def _follow_records(call: CommandCall, session: Session, request_id: str) -> None:
    from ankaios.cli.views.record_rows import record_as_json, record_rows

    while True:
        for record in session.next_response(request_id, "recordsResponse").recordsResponse.records:
            if call.values["format"] == "json":
                call.output.line(record_as_json(record))
            else:
                call.output.line("   ".join(record_rows([record])[0]).rstrip())


def _print(call: CommandCall, event: base.CompleteStateResponse) -> None:
    if not call.output.quiet:
        call.output.write(event_text(event, rfc3339_time(time.time_ns()), call.values["format"]))


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
