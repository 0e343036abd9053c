"""`ank why`: the chain of causes of a workload's state, down to the root cause."""

from collections.abc import Iterable, Iterator

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.hints import unknown_workload_hint
from ankaios.cli.session import RequestRejected
from ankaios.cli.terminal.output import CliError, CliOutput
from ankaios.cli.terminal.table import one_line, printable
from ankaios.cli.views.times import current_ms, since_text, span_text, utc_time
from ankaios.common.pb import ank_base_pb2 as base

_GOOD = {"running", "succeeded"}


def run(call: CommandCall) -> None:
    name: str = call.values["name"]
    with open_session(call, "Failed to explain the workload") as session:
        try:
            response = session.request_addition(base.Request(whyRequest=base.WhyRequest(workload=name)))
        except RequestRejected as error:
            hint = unknown_workload_hint(session, name)
            raise CliError(f"Failed to explain the workload: {error.message}", hint) from error
        session.goodbye()
    causes = response.whyResponse.causes
    if call.values["format"] == "json":
        call.output.json([cause_form(cause) for cause in causes])
    else:
        call.output.lines(cause_lines(call.output, causes, current_ms()))


def cause_lines(output: CliOutput, causes: Iterable[base.Cause], now_ms: int) -> Iterator[str]:
    """One line for each cause, indented below the one that it explains, with the last output lines."""
    for depth, cause in enumerate(causes):
        indent = "   " * depth
        head = f"{cause.workload} ({cause.agent})" if cause.agent else cause.workload
        parts = [f"{one_line(cause.text)}{_next_attempt(cause, now_ms)}", since_text(cause.sinceMs, now_ms)]
        style = "good" if cause.kind in _GOOD else "bad" if cause.kind in ("failed", "restart", "rejected") else "busy"
        arrow = "\u2514\u2500 " if depth else ""
        yield f"{indent[3:]}{arrow}{output.paint(printable(head), style)} {', '.join(filter(None, parts))}"
        for line in cause.output:
            yield f"{indent}   {output.paint('|', 'dim')} {printable(line)}"


def _next_attempt(cause: base.Cause, now_ms: int) -> str:
    if not cause.nextAttemptMs:
        return ""
    left = cause.nextAttemptMs - now_ms
    return f"; next attempt in {span_text(left + 999)}" if left > 0 else "; next attempt now"


def cause_form(cause: base.Cause) -> dict[str, object]:
    return {
        "workload": cause.workload,
        "agent": cause.agent,
        "kind": cause.kind,
        "text": cause.text,
        "since": utc_time(cause.sinceMs) if cause.sinceMs else None,
        "nextAttempt": utc_time(cause.nextAttemptMs) if cause.nextAttemptMs else None,
        "output": list(cause.output),
    }
