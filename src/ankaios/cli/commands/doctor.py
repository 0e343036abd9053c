"""`ank doctor`: what is fine on this machine, what is not, and how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.cli.arguments import Call, Command
from ankaios.cli.commands import TOOLS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ankaios.cli.doctor import Finding
    from ankaios.cli.output import Output

COMMAND = Command(
    "doctor",
    "Check this machine and the connection to the server",
    group=TOOLS,
    examples=(("ank doctor", "check everything"),),
    details="Ends with 1 if something is wrong. Looks only; changes nothing.",
    run="ankaios.cli.commands.doctor:run",
)

_STYLE = {"ok": "good", "note": "busy", "wrong": "bad"}


def run(call: Call) -> int:
    import time

    from ankaios.cli.doctor import LOCAL_CHECKS, Surroundings, Verdict

    around = Surroundings(now=time.time())
    findings = [finding for check in LOCAL_CHECKS for finding in check(around)]
    findings += [*_certificate_findings(call), *_server_findings(call)]
    _show(call.output, findings)
    wrong = sum(finding.verdict is Verdict.WRONG for finding in findings)
    call.output.line(f"\n{wrong} thing(s) to fix." if wrong else "\nAll fine.")
    return 1 if wrong else 0


def _show(output: Output, findings: Sequence[Finding]) -> None:
    from ankaios.cli.help import wrap

    topics = max(len(finding.topic) for finding in findings)
    margin = topics + 9
    for finding in findings:
        verdict = finding.verdict.value
        lines = wrap(finding.text, output.width - margin)
        fix = wrap(f"fix: {finding.fix}", output.width - margin) if finding.fix else []
        lines += [output.paint(line, "hint") for line in fix]
        mark = output.paint(verdict.ljust(5), _STYLE[verdict])
        output.line(f"{mark}  {finding.topic.ljust(topics)}  " + f"\n{' ' * margin}".join(lines))


def _certificate_findings(call: Call) -> Iterator[Finding]:
    from ankaios.cli.certificate_checks import check_certificates

    if call.settings.given_pem is not None:
        yield from check_certificates(call.settings.given_pem)


def _server_findings(call: Call) -> Iterator[Finding]:
    """One real round trip, with the settings every other command would use."""
    import time

    from ankaios.cli.connection import CommandFailed, Session, run_session
    from ankaios.cli.doctor import Finding, Verdict
    from ankaios.cli.output import CliError
    from ankaios.common.config import GivenPem, require_security
    from ankaios.middleware.connecting import effective_url

    agents: list[str] = []
    began = time.monotonic()

    def action(session: Session) -> None:
        agents.extend(sorted((session.complete_state("agents")).agents.agents))

    try:
        run_session(call, action)
    except (CliError, CommandFailed) as fault:
        yield Finding("server", Verdict.WRONG, str(fault), fault.hint)
        return
    took = (time.monotonic() - began) * 1000
    pem = require_security(call.settings.given_pem or GivenPem(), call.settings.insecure)
    shown = effective_url(call.settings.server_url, pem)
    yield Finding("server", Verdict.FINE, f"'{shown}' answers in {took:.0f} ms")
    if agents:
        yield Finding("agents", Verdict.FINE, f"connected: {', '.join(agents)}")
    else:
        yield Finding("agents", Verdict.NOTE, "none is connected", "ank-agent --name NAME --insecure")
