"""`ank logs` as a process against a scripted server."""

import signal

import pytest

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer
from tests.integration.cli.ank import ERROR, ID, ank, example_state, start
from tests.integration.cli.scripted_server import ScriptedServer, response

WEB = base.WorkloadInstanceName(workloadName="web", agentName="n1", id=ID)
DB = base.WorkloadInstanceName(workloadName="db", agentName="n2", id="2")


def two_workloads() -> base.CompleteState:
    state = example_state()
    db = state.workloadStates.agentStateMap["n2"].wlNameStateMap["db"].idStateMap["2"]
    db.CopyFrom(base.ExecutionState(additionalInfo="", running=base.RUNNING_OK))
    return state


def entries(message: ToServer, *lines: tuple[base.WorkloadInstanceName, str]) -> FromServer:
    listed = [base.LogEntry(workloadName=name, message=text) for name, text in lines]
    return response(message, logEntriesResponse=base.LogEntriesResponse(logEntries=listed))


def stop(message: ToServer, name: base.WorkloadInstanceName) -> FromServer:
    return response(message, logsStopResponse=base.LogsStopResponse(workloadName=name))


def accepted(message: ToServer, *names: base.WorkloadInstanceName) -> FromServer:
    return response(message, logsRequestAccepted=base.LogsRequestAccepted(workloadNames=names))


def finite(message: ToServer) -> list[FromServer] | None:
    if not message.request.HasField("logsRequest"):
        return None
    names = message.request.logsRequest.workloadNames
    answers = [accepted(message, *names)]
    for name in names:
        answers += [entries(message, (name, f"one of {name.workloadName}"), (name, "two")), stop(message, name)]
    return answers


def logs_request(server: ScriptedServer) -> base.LogsRequest:
    return next(r.logsRequest for r in server.requests if r.HasField("logsRequest"))


def test_lines_are_printed_as_they_are_until_the_workload_stops() -> None:
    with ScriptedServer(two_workloads(), finite) as server:
        done = ank("logs", "web", url=server.url)
        server.wait_for(lambda message: message.HasField("goodbye"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "one of web\ntwo\n", "")
    assert logs_request(server) == base.LogsRequest(workloadNames=[WEB])
    assert list(server.requests[0].completeStateRequest.fieldMask) == ["workloadStates"]


def test_lines_have_names_for_several_workloads_or_with_the_option() -> None:
    with ScriptedServer(two_workloads(), finite) as server:
        both = ank("logs", "web", "db", url=server.url)
        one = ank("logs", "-n", "db", url=server.url)
    assert both.stdout == "web one of web\nweb two\ndb one of db\ndb two\n"
    assert one.stdout == "db one of db\ndb two\n"


def test_options_reach_the_server_only_when_given() -> None:
    with ScriptedServer(two_workloads(), finite) as server:
        ank("logs", "web", "-f", "--tail", "0", "-s", "1767225600", "--until", "2026-01-01T00:00:00Z", url=server.url)
    assert logs_request(server) == base.LogsRequest(
        workloadNames=[WEB], follow=True, tail=0, since="1767225600", until="2026-01-01T00:00:00Z"
    )
    with ScriptedServer(two_workloads(), finite) as server:
        assert ank("logs", "-t", "-1", "web", url=server.url).returncode == 0
    assert logs_request(server) == base.LogsRequest(workloadNames=[WEB])


def test_a_time_that_no_runtime_understands_is_invalid_usage() -> None:
    for option in ("--since", "--until"):
        done = ank("logs", "web", option, "yesterday")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(
            f"error: invalid value 'yesterday' for '{option} <TIMESTAMP>': expected a time such as 2026-03-01T08:00:00Z"
        )


def test_a_workload_that_has_not_started_is_reported() -> None:
    state = two_workloads()
    web = state.workloadStates.agentStateMap["n1"].wlNameStateMap["web"].idStateMap[ID]
    web.pending, web.additionalInfo = base.PENDING_STARTING_FAILED, "no image"

    def without_logs(message: ToServer) -> list[FromServer] | None:
        if not message.request.HasField("logsRequest"):
            return None
        names = message.request.logsRequest.workloadNames
        return [accepted(message, *names), *(stop(message, name) for name in names)]

    with ScriptedServer(state, without_logs) as server:
        done = ank("logs", "web", "db", url=server.url)
    with ScriptedServer(state, finite) as server:
        with_output = ank("logs", "web", url=server.url)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "hint: workload 'web' has no output because it has not started; it is Pending(StartingFailed): no image\n"
    )
    assert (with_output.stdout, with_output.stderr) == ("one of web\ntwo\n", "")  # of a container that has ended


def test_an_unknown_name_is_an_error_with_a_hint() -> None:
    with ScriptedServer(two_workloads(), finite) as server:
        done = ank("logs", "wep", url=server.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"{ERROR}Failed to output logs: 'Command failed: 'Workload name 'wep' does not exist.''\n"
        "hint: unknown workload 'wep'; did you mean 'web'?\n"
    )


def test_a_workload_whose_agent_is_not_connected_is_reported_instead_of_waiting() -> None:
    """The server accepts the request, but no lines would ever arrive."""
    state = two_workloads()
    states = state.workloadStates.agentStateMap
    states["n2"].wlNameStateMap["db"].idStateMap["2"].agentDisconnected = base.AGENT_DISCONNECTED
    states[""].wlNameStateMap["idle"].idStateMap["3"].notScheduled = base.NOT_SCHEDULED
    with ScriptedServer(state, finite) as server:
        one = ank("logs", "-f", "db", "idle", url=server.url)
        both = ank("logs", "web", "db", url=server.url)
    assert (one.returncode, one.stdout, one.stderr) == (
        1,
        "",
        f"{ERROR}Failed to output logs: 'Command failed: 'workload 'db' gives no output: agent 'n2' is not connected; "
        "workload 'idle' gives no output: it has no agent''\nhint: 'ank get agents' shows the connected agents\n",
    )
    assert (both.returncode, both.stdout) == (0, "one of web\ntwo\n")
    assert both.stderr == "hint: workload 'db' gives no output: agent 'n2' is not connected\n"


def test_a_workload_that_the_server_does_not_accept_is_an_error() -> None:
    def script(message: ToServer) -> list[FromServer] | None:
        return [accepted(message, WEB)] if message.request.HasField("logsRequest") else None

    with ScriptedServer(two_workloads(), script) as server:
        done = ank("logs", "web", "db", url=server.url)
    assert done.returncode == 1
    assert done.stderr == (
        f"{ERROR}Failed to output logs: 'Command failed: 'Failed to get logs: 'ExecutionError(\"Workload 'db' is not "
        "accepted by the server to receive logs from.\")'''\n"
    )


def test_a_lost_stream_is_an_error() -> None:
    def script(message: ToServer) -> list[FromServer] | None:
        if not message.request.HasField("logsRequest"):
            return None
        return [accepted(message, WEB), entries(message, (WEB, "line"))]

    with ScriptedServer(two_workloads(), script) as server:
        process = start("logs", "web", "-f", url=server.url)
        assert process.stdout and process.stdout.readline() == b"line\n"
        server.drop()
        _, stderr = process.communicate(timeout=20)
    assert process.returncode == 1
    assert stderr.decode() == (
        f"{ERROR}Failed to output logs: 'Command failed: 'Failed to get logs: 'ExecutionError(\"Error streaming "
        "workload logs: channel preliminary closed.\")'''\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP])
def test_signals_cancel_the_request_and_exit_with_success(number: signal.Signals) -> None:
    def script(message: ToServer) -> list[FromServer] | None:
        if not message.request.HasField("logsRequest"):
            return None
        return [accepted(message, WEB), entries(message, (WEB, "line"))]

    with ScriptedServer(two_workloads(), script) as server:
        process = start("logs", "web", "-f", url=server.url)
        assert process.stdout and process.stdout.readline() == b"line\n"
        process.send_signal(number)
        rest = process.communicate(timeout=20)
        request_id = server.wait_for(lambda message: message.request.HasField("logsRequest")).request.requestId
        cancel = server.wait_for(lambda message: message.request.HasField("logsCancelRequest")).request
    assert (process.returncode, rest) == (0, (b"", b""))
    assert cancel.requestId == request_id


def test_a_signal_ends_a_command_whose_output_is_not_read() -> None:
    def script(message: ToServer) -> list[FromServer] | None:
        if not message.request.HasField("logsRequest"):
            return None
        return [accepted(message, WEB), entries(message, (WEB, "x" * 1_000_000))]

    with ScriptedServer(two_workloads(), script) as server:
        process = start("logs", "web", "-f", url=server.url)
        assert process.stdout and process.stdout.read(1) == b"x"  # the rest fills the pipe
        process.send_signal(signal.SIGINT)
        server.wait_for(lambda message: message.request.HasField("logsCancelRequest"))
        assert process.wait(20) == 0
        process.communicate()


def test_a_closed_output_cancels_the_request_too() -> None:
    def script(message: ToServer) -> list[FromServer] | None:
        if not message.request.HasField("logsRequest"):
            return None
        return [accepted(message, WEB), entries(message, (WEB, "line"))]

    with ScriptedServer(two_workloads(), script) as server:
        process = start("logs", "web", "-f", url=server.url)
        assert process.stdout and process.stdout.readline() == b"line\n" and process.stderr
        process.stdout.close()
        server.push(entries(server.wait_for(lambda message: message.request.HasField("logsRequest")), (WEB, "more")))
        server.wait_for(lambda message: message.request.HasField("logsCancelRequest"))
        assert process.wait(20) == 141
        assert process.stderr.read() == b""
        process.stderr.close()
