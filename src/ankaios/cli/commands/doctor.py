"""`ank doctor`: what is fine on this machine, what is not, and how to fix it."""

from __future__ import annotations

from ankaios.cli.arguments import Call, Command
from ankaios.cli.commands import TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ankaios.cli.doctor import Finding

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
    topics = max(len(finding.topic) for finding in findings)
    for finding in findings:
        mark = call.output.paint(finding.verdict.value.ljust(5), _STYLE[finding.verdict.value])
        call.output.line(f"{mark}  {finding.topic.ljust(topics)}  {finding.text}")
        if finding.fix:
            call.output.line(f"{' ' * (topics + 9)}{call.output.paint('fix: ' + finding.fix, 'hint')}")
    wrong = sum(finding.verdict is Verdict.WRONG for finding in findings)
    call.output.line(f"\n{wrong} thing(s) to fix." if wrong else "\nAll fine.")
    return 1 if wrong else 0


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
    yield Finding("server", Verdict.FINE, f"'{call.settings.server_url}' answers in {took:.0f} ms")
    if agents:
        yield Finding("agents", Verdict.FINE, f"connected: {', '.join(agents)}")
    else:
        yield Finding("agents", Verdict.NOTE, "none is connected", "ank-agent --name NAME --insecure")
