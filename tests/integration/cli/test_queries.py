"""`ank get ...` as a process against a scripted server: every byte of its output in a pipe."""

import json
import socket
import time

import pytest

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import FromServer
from tests.integration.cli.ank import ERROR, ID, ank, environment, example_state, start
from tests.integration.cli.scripted_server import ScriptedServer, response, states

STATE_YAML = f"""\
desiredState:
  apiVersion: v1
  workloads:
    web:
      agent: n1
      restartPolicy: NEVER
      runtime: podman
      runtimeConfig: 'image: {{{{img}}}}'
      configs:
        img: image
  configs:
    image: alpine:3
workloadStates:
  n1:
    web:
      {ID}:
        additionalInfo: ''
        state: Running
        subState: Ok
agents:
  n1:
    status:
      cpuUsage: 7
      freeMemory: 2048
effectiveState:
  apiVersion: v1
  workloads:
    web:
      agent: n1
      restartPolicy: NEVER
      runtime: podman
      runtimeConfig: 'image: alpine:3'
"""


def test_get_state_prints_yaml_and_an_empty_line() -> None:
    with ScriptedServer(example_state()) as server:
        done = ank("get", "state", url=server.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, STATE_YAML + "\n", "")
    assert list(server.requests[0].completeStateRequest.fieldMask) == []


def test_get_state_prints_pretty_json_without_escapes() -> None:
    state = example_state()
    state.desiredState.configs.configs["image"].String = "grün"
    with ScriptedServer(state) as server:
        done = ank("get", "state", "-o", "json", "desiredState.configs", url=server.url)
    wanted = '{\n  "desiredState": {\n    "apiVersion": "v1",\n    "configs": {\n      "image": "grün"\n    }\n  }\n}\n'
    assert (done.returncode, done.stdout) == (0, wanted)


def test_get_state_sends_the_masks_unchanged() -> None:
    with ScriptedServer(example_state()) as server:
        ank("get", "state", "agents", "workloadStates.*.web", url=server.url)
    assert list(server.requests[0].completeStateRequest.fieldMask) == ["agents", "workloadStates.*.web"]


def test_a_mask_without_match_causes_a_hint_beside_the_documented_output() -> None:
    with ScriptedServer(example_state()) as server:
        done = ank("get", "state", "desiredState.workloads.wbe.agent", url=server.url)
    assert (done.returncode, done.stdout) == (0, "desiredState:\n  apiVersion: v1\n\n")
    assert done.stderr == (
        "hint: nothing matches 'desiredState.workloads.wbe.agent'; did you mean 'desiredState.workloads.web.agent'?\n"
    )


def test_tables_are_padded_and_have_trailing_blanks() -> None:
    with ScriptedServer(example_state()) as server:
        tables = [ank("get", what, url=server.url).stdout for what in ("workloads", "agents", "configs")]
    assert tables == [
        "WORKLOAD NAME   AGENT   RUNTIME   EXECUTION STATE   ADDITIONAL INFO\n"
        "web             n1      podman    Running(Ok)                      \n",
        "NAME   WORKLOADS   CPU USAGE   FREE MEMORY\nn1     1           7%          2048B      \n",
        "CONFIG\nimage \n",
    ]


@pytest.mark.parametrize("what", ["workload", "agent", "config"])
def test_singular_names_are_accepted_and_an_empty_table_has_a_header(what: str) -> None:
    headers = {
        "workload": "WORKLOAD NAME   AGENT   RUNTIME   EXECUTION STATE   ADDITIONAL INFO\n",
        "agent": "NAME   WORKLOADS   CPU USAGE   FREE MEMORY\n",
        "config": "CONFIG\n",
    }
    with ScriptedServer() as server:
        done = ank("get", what, url=server.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, headers[what], "")


def test_queries_request_only_what_they_show() -> None:
    masks = {}
    for what in ("workloads", "agents", "configs"):
        with ScriptedServer(example_state()) as server:
            ank("get", what, url=server.url)
        masks[what] = list(server.requests[0].completeStateRequest.fieldMask)
        assert not any(message.HasField("goodbye") for message in server.received)
    assert masks == {
        "workloads": [
            "workloadStates",
            *(f"desiredState.workloads.*.{field}" for field in ("agent", "runtime", "placement")),
            "effectiveState.workloads.*.runtime",
        ],
        "agents": ["agents", "workloadStates"],
        "configs": ["desiredState.configs"],
    }


def test_filters_are_by_name_agent_and_full_state_in_any_case() -> None:
    with ScriptedServer(example_state()) as server:
        match = ank("get", "workloads", "--agent", "n1", "-s", "running(ok)", "web", url=server.url)
        other = ank("get", "workloads", "--state", "running", url=server.url)
        elsewhere = ank("get", "workloads", "--agent", "rear", url=server.url)
        unknown = ank("get", "workloads", "wbe", url=server.url)
    assert (match.stdout.count("\n"), match.stderr) == (2, "")
    assert other.stdout.count("\n") == 1
    assert other.stderr == "hint: no workload is in state 'running'; did you mean 'Running(Ok)'?\n"
    assert elsewhere.stderr == "hint: no workload is on agent 'rear'\n"
    assert unknown.stdout.count("\n") == 1
    assert unknown.stderr == "hint: unknown workload 'wbe'; did you mean 'web'?\n"


def test_no_answer_in_time_is_reported_with_the_time() -> None:
    with ScriptedServer() as server:
        server.answers_states = False
        done = ank("--response-timeout", "200", "get", "workloads", url=server.url)
        state = ank("--response-timeout", "200", "get", "state", url=server.url)
    wanted = "Failed to get workloads: 'Command failed: 'Command timed out after '200ms'''"
    assert done.returncode == state.returncode == 1
    assert done.stderr.splitlines()[0] == ERROR + wanted
    assert state.stderr.splitlines()[0] == ERROR + "Could not retrieve state."
    assert done.stdout == state.stdout == ""


def test_an_error_as_answer_to_a_query_counts_as_no_answer() -> None:
    with ScriptedServer(script=lambda m: [response(m, error=base.Error(message="no"))]) as server:
        done = ank("--response-timeout", "200", "get", "agents", url=server.url)
    assert "Failed to get agents: 'Command failed: 'Command timed out after '200ms'''\n" in done.stderr
    assert done.stderr.endswith("hint: the server answered 'no'\n")


def test_a_lost_stream_is_reported_as_such() -> None:
    with ScriptedServer() as server:
        server.answers_states = False
        process = start("get", "configs", url=server.url)
        server.wait_for(lambda message: message.HasField("request"))
        server.drop()
        _, stderr = process.communicate(timeout=20)
    wanted = f"{ERROR}Failed to get configs: 'Command failed: 'Channel preliminary closed.''\n"
    assert (process.returncode, stderr.decode()) == (1, wanted)


def read_table(process_output: object, lines: int) -> list[str]:
    assert hasattr(process_output, "readline")
    return [process_output.readline().decode() for _ in range(lines)]


def test_watch_prints_after_every_message_and_requests_unknown_instances() -> None:
    state = example_state()
    with ScriptedServer(state) as server:
        process = start("get", "workloads", "--watch", url=server.url)
        first = read_table(process.stdout, 3)
        server.push(
            states(("web", ID, "n1", {"failed": base.FAILED_EXEC_FAILED, "additionalInfo": "code 1\nsee log "}))
        )
        second = read_table(process.stdout, 3)
        state.workloadStates.agentStateMap["n1"].wlNameStateMap["db"].idStateMap["1"].succeeded = base.SUCCEEDED_OK
        server.push(states(("db", "1", "n1", {"succeeded": base.SUCCEEDED_OK})))
        third = read_table(process.stdout, 4)
        server.push(states(("web", ID, "n1", {"removed": base.REMOVED})))
        fourth = read_table(process.stdout, 3)
        process.kill()
        process.communicate()
    assert first[1:] == ["web             n1      podman    Running(Ok)                      \n", "\n"]
    assert second[1] == "web             n1      podman    Failed(ExecFailed)   code 1, see log\n"
    assert [line.split()[0] for line in third[1:3]] == ["db", "web"]
    assert fourth[1].startswith("db  ") and fourth[2] == "\n"


def test_watch_ends_with_an_error_when_the_connection_is_lost() -> None:
    with ScriptedServer(example_state()) as server:
        process = start("get", "workloads", "-w", url=server.url)
        read_table(process.stdout, 3)
        server.drop()
        _, stderr = process.communicate(timeout=20)
    wanted = f"{ERROR}Failed to watch workloads: 'Command failed: 'Connection to server interrupted''\n"
    assert (process.returncode, stderr.decode()) == (1, wanted)


def event(request_id: str, added: str) -> FromServer:
    state = base.CompleteState()
    state.desiredState.apiVersion = "v1"
    state.desiredState.workloads.workloads["web"].agent = "n1"
    answer = base.CompleteStateResponse(completeState=state, alteredFields=base.AlteredFields(addedFields=[added]))
    return FromServer(response=base.Response(requestId=request_id, completeStateResponse=answer))


MASK = "desiredState.workloads.*.agent"
ADDED = "desiredState.workloads.web.agent"


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_events_are_printed_immediately_and_a_signal_cancels_the_subscription(form: str) -> None:
    with ScriptedServer() as server:
        process = start("get", "events", "-o", form, MASK, url=server.url)
        request = server.wait_for(lambda message: message.HasField("request")).request
        assert request.completeStateRequest.subscribeForEvents
        assert list(request.completeStateRequest.fieldMask) == [MASK]
        server.push(event(request.requestId, ADDED))
        assert process.stdout
        lines = [process.stdout.readline().decode() for _ in range(10 if form == "yaml" else 1)]
        process.terminate()
        rest, stderr = process.communicate(timeout=20)
        server.wait_for(lambda message: message.HasField("goodbye"))
    assert (process.returncode, rest, stderr) == (0, b"", b"")
    if form == "json":
        printed = json.loads(lines[0])
        timestamp = printed["timestamp"]
        assert lines[0] == (
            f'{{"timestamp":"{timestamp}","addedFields":["{ADDED}"],"completeState":'
            '{"desiredState":{"apiVersion":"v1","workloads":{"web":{"agent":"n1"}}}}}\n'
        )
    else:
        timestamp = lines[1].removeprefix("timestamp: ").strip()
        assert "".join([lines[0], *lines[2:]]) == (
            f"---\naddedFields:\n- {ADDED}\ncompleteState:\n  desiredState:\n    apiVersion: v1\n    workloads:\n"
            "      web:\n        agent: n1\n"
        )
    assert timestamp.startswith(time.strftime("%Y-", time.gmtime())) and timestamp.endswith("+00:00")


def test_events_start_with_the_current_state_on_request() -> None:
    with ScriptedServer(example_state()) as server:
        process = start("get", "events", "-c", "desiredState.configs", url=server.url)
        assert process.stdout
        lines = [process.stdout.readline().decode() for _ in range(7)]
        process.terminate()
        process.communicate(timeout=20)
    assert lines[1].startswith("timestamp: ")
    assert lines[2:] == [
        "completeState:\n",
        "  desiredState:\n",
        "    apiVersion: v1\n",
        "    configs:\n",
        "      image: alpine:3\n",
    ]


def test_a_signal_ends_the_wait_for_a_server_that_does_not_respond() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        process = start("get", "events", url=f"http://127.0.0.1:{mute.getsockname()[1]}")
        accepted, _ = mute.accept()
        with accepted:
            accepted.recv(1)  # it has begun to wait, or is about to
            process.terminate()
            _, stderr = process.communicate(timeout=20)
    assert (process.returncode, stderr) == (0, b"")


def test_events_of_a_lost_connection_end_with_an_error() -> None:
    with ScriptedServer() as server:
        process = start("get", "events", url=server.url)
        server.wait_for(lambda message: message.HasField("request"))
        server.drop()
        _, stderr = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "Failed to get events: 'Command failed: '" in stderr.decode()


def test_a_closed_output_ends_the_command_without_message() -> None:
    with ScriptedServer() as server:
        process = start("get", "events", "-o", "json", url=server.url)
        request = server.wait_for(lambda message: message.HasField("request")).request
        assert process.stdout and process.stderr
        process.stdout.close()
        server.push(event(request.requestId, ADDED))
        assert process.wait(20) == 141
        assert process.stderr.read() == b""
        process.stderr.close()


def test_no_color_switches_the_colour_of_errors_off() -> None:
    done = ank("-k", "-s", "http://127.0.0.1:1", "get", "state", env=environment(NO_COLOR="1"))
    assert done.stderr.startswith("error: Could not connect to Ankaios server on 'http://127.0.0.1:1'.\nhint: ")
