"""`ank doctor`: checks this machine, the certificates and the server, and prints how to fix what is wrong."""

import time
from collections.abc import Sequence

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.command_line.help import wrap
from ankaios.cli.connection import open_session
from ankaios.cli.doctor.certificate_checks import check_certificates
from ankaios.cli.doctor.machine_checks import (
    LOCAL_CHECKS,
    CheckResult,
    CheckStatus,
    Machine,
    Results,
    fine,
    note,
    wrong,
)
from ankaios.cli.session import RequestFailed
from ankaios.cli.terminal.output import CliError, CliOutput
from ankaios.common.config import require_security
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.middleware.connecting import effective_url

_STYLE = {CheckStatus.FINE: "good", CheckStatus.NOTE: "busy", CheckStatus.WRONG: "bad"}


def run(call: CommandCall) -> int:
    machine = Machine(now=time.time())
    results = [result for check in LOCAL_CHECKS for result in check(machine)]
    results += [*check_certificates(call.settings.given_pem), *_check_server(call)]
    print_results(call.output, results)
    count = sum(result.verdict is CheckStatus.WRONG for result in results)
    call.output.line(f"\n{count} {'problem' if count == 1 else 'problems'} to fix." if count else "\nAll fine.")
    return 1 if count else 0


def print_results(output: CliOutput, results: Sequence[CheckResult]) -> None:
    topics = max(len(result.topic) for result in results)
    margin = topics + 9
    for result in results:
        lines = wrap(result.text, output.width - margin)
        fix = wrap(f"fix: {result.fix}", output.width - margin) if result.fix else []
        lines += [output.paint(line, "hint") for line in fix]
        verdict = output.paint(result.verdict.value.ljust(5), _STYLE[result.verdict])
        output.line(f"{verdict}  {result.topic.ljust(topics)}  " + f"\n{' ' * margin}".join(lines))


def _check_storage(call: CommandCall) -> Results:
    """The storage and the other servers, as the leader sees them."""
    try:
        with open_session(call) as session:
            session.complete_state("agents")
            if not session.accepts_additions:
                return
            found = session.request_addition(base.Request(serversRequest=base.ServersRequest())).serversResponse
    except CliError as error:
        yield note("storage", str(error), error.hint)
        return
    for server in found.servers:
        if server.leader and server.problem:
            yield wrong("storage", f"'{server.storage}': {server.problem}", "see the log of ank-server")
        elif server.leader:
            yield fine("storage", f"'{server.storage}' has revision {server.revision}")
        yield from _check_members(server.members)
    standbys = [server.name for server in found.servers if not server.leader]
    if standbys:
        yield fine("standby", ", ".join(standbys))


def _check_members(members: Sequence[base.StorageMember]) -> Results:
    """Of etcd. The others continue without a member, but the next failure may stop them."""
    for member in members:
        if member.problem:
            yield wrong(
                "etcd", f"member '{member.name}' does not respond: {member.problem}", "start etcd on that machine"
            )
    if members and not any(member.problem for member in members):
        yield fine("etcd", f"{len(members)} {'member responds' if len(members) == 1 else 'members respond'}")


def _check_server(call: CommandCall) -> Results:
    """One request, with the same settings as every other command."""
    start = time.monotonic()
    try:
        with open_session(call) as session:
            agents = sorted(session.complete_state("agents").agents.agents)
    except CliError as error:
        reason = error.__cause__ if isinstance(error.__cause__, RequestFailed) else error
        yield wrong("server", str(reason), error.hint)
        return
    milliseconds = (time.monotonic() - start) * 1000
    url = effective_url(call.settings.server_url, require_security(call.settings.given_pem, call.settings.insecure))
    yield fine("server", f"'{url}' answers in {milliseconds:.0f} ms")
    yield from _check_storage(call)
    if agents:
        yield fine("agents", f"connected: {', '.join(agents)}")
    else:
        yield note("agents", "none is connected", "ank-agent --name NAME --insecure")
