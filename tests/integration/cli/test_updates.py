"""`apply`, `run`, `set state` and `delete` as processes: requests, progress, waiting, and error messages."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from ankaios.cli.views.workload_rows import ROW_FIELDS
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer
from tests.integration.cli.ank import ERROR, ank, example_state, start
from tests.integration.cli.scripted_server import ScriptedServer, response, states

HEADING = (
    "Successfully applied the manifest(s).\n"
    "Waiting for workload(s) to reach desired states (press Ctrl+C to interrupt).\n"
    "\n"
)
MANIFEST = """\
apiVersion: v1
workloads:
  db:
    runtime: podman
    agent: n1
    tags:
      owner: me
    runtimeConfig: |
      image: alpine:3
configs:
  level: info
"""
DB_ID = "1" * 64


class Cluster:
    """The scripted server accepts every update, with these lists."""

    def __init__(self, added: Iterable[str] = (), deleted: Iterable[str] = (), then: Iterable[FromServer] = ()) -> None:
        self.state = example_state()
        self.success = base.UpdateStateSuccess(addedWorkloads=added, deletedWorkloads=deleted)
        self.then = list(then)

    def __call__(self, message: ToServer) -> list[FromServer] | None:
        if not message.request.HasField("updateStateRequest"):
            return None
        if self.success.addedWorkloads:
            db = self.state.desiredState.workloads.workloads["db"]
            db.agent, db.runtime = "n1", "podman"
            db_states = self.state.workloadStates.agentStateMap["n1"].wlNameStateMap["db"].idStateMap
            db_states[DB_ID].CopyFrom(base.ExecutionState(additionalInfo="", pending=base.PENDING_INITIAL))
        return [response(message, UpdateStateSuccess=self.success), *self.then]


def served(cluster: Cluster) -> ScriptedServer:
    return ScriptedServer(cluster.state, cluster)


def rejecting(message: ToServer) -> list[FromServer] | None:
    if not message.request.HasField("updateStateRequest"):
        return None
    return [response(message, error=base.Error(message='Update rejected: "x"'))]


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    (tmp_path / "db.yaml").write_text(MANIFEST)
    return str(tmp_path / "db.yaml")


def update_of(server: ScriptedServer) -> base.UpdateStateRequest:
    return next(r.updateStateRequest for r in server.requests if r.HasField("updateStateRequest"))


def test_apply_shows_progress_until_the_new_workload_runs(manifest: str) -> None:
    running = states(("db", DB_ID, "n1", {"running": base.RUNNING_OK}))
    with served(Cluster(added=[f"db.{DB_ID}.n1"])) as server:
        process = start("apply", manifest, url=server.url)
        assert process.stdout
        first = b"".join(process.stdout.readline() for _ in range(6)).decode()
        second = b"".join(process.stdout.readline() for _ in range(3)).decode()
        server.push(running)
        rest, stderr = process.communicate(timeout=20)
        server.wait_for(lambda message: message.HasField("goodbye"))
    assert first == HEADING + (
        "WORKLOAD NAME   AGENT   RUNTIME     EXECUTION STATE    ADDITIONAL INFO\n"
        "db              n1      podman    | Pending(Initial)                  \n"
        "\n"
    )
    tables = rest.decode().split("\n\n")
    assert tables[-2:] == [
        "WORKLOAD NAME   AGENT   RUNTIME     EXECUTION STATE   ADDITIONAL INFO\n"
        "db              n1      podman      Running(Ok)                      ",
        "",
    ]
    assert second.splitlines()[1] == "db              n1      podman    / Pending(Initial)                  "
    assert (process.returncode, stderr) == (0, b"")


def test_apply_sends_the_manifest_with_one_mask_for_each_entry(manifest: str) -> None:
    with served(Cluster()) as server:
        done = ank("apply", manifest, url=server.url)
    update = update_of(server)
    assert list(update.updateMask) == ["desiredState.configs.level", "desiredState.workloads.db"]
    workload = update.newState.desiredState.workloads.workloads["db"]
    assert update.newState.desiredState.apiVersion == "v1"
    assert (workload.agent, workload.runtime, dict(workload.tags.tags)) == ("n1", "podman", {"owner": "me"})
    assert workload.runtimeConfig == "image: alpine:3\n"
    assert update.newState.desiredState.configs.configs["level"].String == "info"
    assert (done.returncode, done.stdout) == (0, "Apply successful. No workloads updated.\n")


def test_apply_requests_only_the_affected_workloads(manifest: str) -> None:
    done_already = states(("db", DB_ID, "n1", {"running": base.RUNNING_OK}))
    with served(Cluster(added=[f"db.{DB_ID}.n1"], then=[done_already])) as server:
        ank("apply", manifest, url=server.url)
    requested = [list(r.completeStateRequest.fieldMask) for r in server.requests if r.HasField("completeStateRequest")]
    of_db = ["workloadStates.*.db", *(f"desiredState.workloads.db.{field}" for field in ROW_FIELDS)]
    assert requested == [of_db, [*of_db, "agents.n1"]]


def test_the_update_is_sent_before_the_previous_state_is_received(manifest: str) -> None:
    """This server answers only after it has the update, in the order of the requests."""
    cluster = Cluster(added=[f"db.{DB_ID}.n1"])
    held: list[ToServer] = []

    def script(message: ToServer) -> list[FromServer] | None:
        update = cluster(message)
        if update is None and not held:
            held.append(message)
            return []
        if update is None:
            return None
        before = base.CompleteStateResponse(completeState=example_state())
        running = states(("db", DB_ID, "n1", {"running": base.RUNNING_OK}))
        return [response(held[0], completeStateResponse=before), *update, running]

    with ScriptedServer(cluster.state, script) as server:
        done = ank("apply", manifest, url=server.url)
    requested = [request.WhichOneof("RequestContent") for request in server.requests]
    assert (done.returncode, done.stderr) == (0, "")
    assert requested == ["completeStateRequest", "updateStateRequest", "completeStateRequest"]


def test_states_received_before_the_answer_are_used(manifest: str) -> None:
    cluster = Cluster(added=[f"db.{DB_ID}.n1"])

    def script(message: ToServer) -> list[FromServer] | None:
        answer = cluster(message)
        early = states(("db", DB_ID, "n1", {"failed": base.FAILED_LOST, "additionalInfo": "gone"}))
        return [early, *answer] if answer else None

    with ScriptedServer(cluster.state, script) as server:
        done = ank("apply", manifest, url=server.url)
    assert done.returncode == 0
    assert done.stdout.endswith("db              n1      podman      Failed(Lost)      gone           \n\n")


def test_apply_does_not_wait_for_an_agent_that_is_not_connected(manifest: str) -> None:
    cluster = Cluster(added=[f"db.{DB_ID}.n1"])
    cluster.state.agents.Clear()
    with served(cluster) as server:
        done = ank("apply", manifest, url=server.url)
    assert done.stdout == HEADING + (
        "WORKLOAD NAME   AGENT   RUNTIME     EXECUTION STATE    ADDITIONAL INFO\n"
        "db              n1      podman      Pending(Initial)                  \n"
        "\n"
    )


def test_apply_waits_for_an_agent_that_connects_within_a_second(manifest: str) -> None:
    """The third request finds it; then its workload runs."""
    cluster = Cluster(added=[f"db.{DB_ID}.n1"])
    agents = base.AgentMap()
    agents.CopyFrom(cluster.state.agents)
    cluster.state.agents.Clear()
    requested: list[ToServer] = []

    def script(message: ToServer) -> list[FromServer] | None:
        if message.request.completeStateRequest.fieldMask == ["agents.n1"]:
            requested.append(message)
            if len(requested) == 3:
                cluster.state.agents.CopyFrom(agents)
                running = states(("db", DB_ID, "n1", {"running": base.RUNNING_OK}))
                full = base.CompleteStateResponse(completeState=cluster.state)
                return [response(message, completeStateResponse=full), running]
        return cluster(message)

    with ScriptedServer(cluster.state, script) as server:
        done = ank("apply", manifest, url=server.url)
    assert len(requested) == 3
    assert "Running(Ok)" in done.stdout
    assert "not connected" not in done.stderr


def test_the_first_table_shows_the_states_with_which_workloads_begin(manifest: str) -> None:
    """This agent is so fast that the workload already runs at the first request of `ank`."""
    cluster = Cluster(added=[f"db.{DB_ID}.n1"], then=[states(("db", DB_ID, "n1", {"running": base.RUNNING_OK}))])

    def script(message: ToServer) -> list[FromServer] | None:
        answer = cluster(message)
        if answer is not None:
            known = cluster.state.workloadStates.agentStateMap["n1"].wlNameStateMap["db"].idStateMap[DB_ID]
            known.CopyFrom(base.ExecutionState(running=base.RUNNING_OK))
        return answer

    with ScriptedServer(cluster.state, script) as server:
        done = ank("apply", manifest, url=server.url)
    first, *_, last = done.stdout.removeprefix(HEADING).strip().split("\n\n")
    assert "| Pending(Initial)" in first
    assert "  Running(Ok)" in last


def test_no_wait_prints_nothing_and_sends_no_other_request(manifest: str) -> None:
    with served(Cluster(added=[f"db.{DB_ID}.n1"])) as server:
        done = ank("--no-wait", "apply", manifest, url=server.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [r.WhichOneof("RequestContent") for r in server.requests] == ["updateStateRequest"]


def test_apply_with_quiet_waits_without_output(manifest: str) -> None:
    running = states(("db", DB_ID, "n1", {"running": base.RUNNING_OK}))
    with served(Cluster(added=[f"db.{DB_ID}.n1"], then=[running])) as server:
        done = ank("-q", "apply", manifest, url=server.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_rejected_update_is_reported_with_the_prefix_of_each_command(manifest: str, tmp_path: Path) -> None:
    state = tmp_path / "state.yaml"
    state.write_text("desiredState: {apiVersion: v1}")
    reason = "SetState failed with: 'Update rejected: \"x\"'"
    commands = {
        ("apply", manifest): f"Command failed: '{reason}'",
        ("set", "state", "desiredState", str(state)): f"Failed to set state: 'Command failed: '{reason}''",
        ("delete", "workload", "db"): f"Failed to delete workloads: 'Command failed: '{reason}''",
        ("delete", "config", "x"): (
            "Failed to delete configs: 'Command failed: 'Failed to delete configs: "
            "ExecutionError(\"SetState failed with: 'Update rejected: \\\"x\\\"'\")''"
        ),
        ("run", "workload", "db", "--runtime", "r", "--config", "c", "--agent", "a"): (
            f"Failed to run workloads: 'Command failed: '{reason}''"
        ),
    }
    with ScriptedServer(example_state(), rejecting) as server:
        results = {words: ank(*words, url=server.url) for words in commands}
    assert {words: done.stderr for words, done in results.items()} == {w: f"{ERROR}{t}\n" for w, t in commands.items()}
    assert {done.returncode for done in results.values()} == {1}
    assert {done.stdout for done in results.values()} == {""}


def test_a_stream_lost_while_an_update_is_awaited_is_reported_as_such(manifest: str) -> None:
    with ScriptedServer(example_state()) as server:
        process = start("apply", manifest, url=server.url)
        server.wait_for(lambda message: message.request.HasField("updateStateRequest"))
        server.drop()
        _, stderr = process.communicate(timeout=20)
    assert (process.returncode, stderr.decode()) == (1, f"{ERROR}Command failed: 'Connection to server interrupted'\n")


def test_run_sends_only_the_workload(manifest: str) -> None:
    with served(Cluster()) as server:
        done = ank(
            *("run", "workload", "db", "--runtime", "podman", "--config", "image: a", "--agent", "n1"),
            *("--tags", "k=v", "--tags", "x=a=b"),
            url=server.url,
        )
    wanted = base.CompleteState()
    workload = wanted.desiredState.workloads.workloads["db"]
    workload.agent, workload.runtime, workload.runtimeConfig = "n1", "podman", "image: a"
    workload.tags.tags.update({"k": "v", "x": "a=b"})
    assert update_of(server) == base.UpdateStateRequest(newState=wanted, updateMask=["desiredState.workloads.db"])
    assert update_of(server).newState.desiredState.apiVersion == ""
    assert (done.returncode, done.stdout) == (0, "Apply successful. No workloads updated.\n")


def test_deleting_waits_until_the_workload_is_removed() -> None:
    web = next(iter(example_state().workloadStates.agentStateMap["n1"].wlNameStateMap["web"].idStateMap))
    removed = states(("web", web, "n1", {"removed": base.REMOVED}))
    with served(Cluster(deleted=[f"web.{web}.n1"], then=[removed])) as server:
        done = ank("delete", "workloads", "web", url=server.url)
    assert update_of(server) == base.UpdateStateRequest(
        newState=base.CompleteState(), updateMask=["desiredState.workloads.web"]
    )
    assert update_of(server).HasField("newState")
    assert done.stdout.startswith(HEADING)
    assert done.stdout.endswith("web             n1      podman      Removed                          \n\n")


def test_deleting_an_unknown_workload_is_no_error_and_prints_a_hint() -> None:
    with served(Cluster()) as server:
        done = ank("delete", "workload", "wbe", url=server.url)
    assert (done.returncode, done.stdout) == (0, "Apply successful. No workloads updated.\n")
    assert done.stderr == "hint: unknown workload 'wbe'; did you mean 'web'?\n"


def test_deleting_configs_requests_and_prints_nothing() -> None:
    with served(Cluster()) as server:
        done = ank("delete", "configs", "a", "b", url=server.url)
    assert [r.WhichOneof("RequestContent") for r in server.requests] == ["updateStateRequest"]
    assert list(update_of(server).updateMask) == ["desiredState.configs.a", "desiredState.configs.b"]
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_set_state_accepts_masks_and_a_file_or_standard_input(tmp_path: Path) -> None:
    text = "desiredState:\n  apiVersion: v1\n  configs:\n    a: b\n"
    file = tmp_path / "state.yaml"
    file.write_text(text)
    updates = []
    for last, stdin in ((str(file), ""), ("-", text)):
        with served(Cluster()) as server:
            done = ank(
                "set", "state", "desiredState.configs.a", "desiredState.configs.c", last, url=server.url, stdin=stdin
            )
        assert done.returncode == 0
        updates.append(update_of(server))
    assert updates[0] == updates[1]
    assert list(updates[0].updateMask) == ["desiredState.configs.a", "desiredState.configs.c"]
    assert updates[0].newState.desiredState.configs.configs["a"].String == "b"


def test_set_state_reports_what_is_wrong_with_its_file(tmp_path: Path) -> None:
    missing = ank("set", "state", "m", str(tmp_path / "x"))
    assert missing.stderr == (
        f"{ERROR}Failed to set state: 'Command failed: 'Could not read the state object file '{tmp_path / 'x'}'.\n"
        "Error: 'No such file or directory (os error 2)'''\n"
        "hint: check the name\n"
    )
    for text in ("a: [", "[]", "", "desiredState: {}", "desiredState: {apiVersion: v1, workloads: {a: {tags: 5}}}"):
        done = ank("set", "state", "m", "-", stdin=text)
        assert done.returncode == 1
        assert done.stderr.startswith(f"{ERROR}Failed to set state: 'Could not serialize YAML object: '"), text
        assert done.stderr.endswith("''\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "desiredState: {apiVersion: v1, workloads: {a: {tags: {b: 1}, agent: n1}}}",
            'desiredState.workloads.a.tags.b: 1 is not of type "string"',
        ),
        ("agents: 5", "standard input: not in the form of 'ank get state': "),
        ("deviceInstances: {a: 5}", "standard input: not in the form of 'ank get state': "),
    ],
)
def test_set_state_reports_the_path_of_a_wrong_value(text: str, expected: str) -> None:
    done = ank("set", "state", "m", "-", stdin=text)
    assert done.stderr.startswith(f"{ERROR}Failed to set state: 'Could not serialize YAML object: '{expected}")
    assert done.returncode == 1


def test_an_invalid_manifest_is_reported_with_the_command_that_shows_the_lines(tmp_path: Path) -> None:
    file = tmp_path / "my web.yaml"
    file.write_text("apiVersion: v1\nworkloads: {web: {}}\n")
    for words in (["apply"], ["up"]):
        done = ank(*words, str(file))
        assert done.stderr.endswith(f"hint: to see where: ank validate '{file}'\n")
    assert "hint" not in ank("apply", "-", stdin="apiVersion: v9").stderr


def test_apply_with_d_deletes_the_named_objects_and_needs_no_agent(tmp_path: Path) -> None:
    text = "apiVersion: v1\nworkloads: {b: {runtime: r, runtimeConfig: c}}\nconfigs: {a: x}\n"
    with served(Cluster()) as server:
        done = ank("apply", "-d", "-", url=server.url, stdin=text)
    assert done.returncode == 0
    assert update_of(server) == base.UpdateStateRequest(
        newState=base.CompleteState(), updateMask=["desiredState.configs.a", "desiredState.workloads.b"]
    )


def test_apply_merges_manifests_and_overwrites_the_agent(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"apiVersion: v1\nworkloads: {{{name}: {{runtime: r, runtimeConfig: c}}}}\n")
    with served(Cluster()) as server:
        ank("apply", str(tmp_path / "b"), str(tmp_path / "a"), "--agent", "", url=server.url)
    update = update_of(server)
    assert list(update.updateMask) == ["desiredState.workloads.a", "desiredState.workloads.b"]
    workloads = update.newState.desiredState.workloads.workloads
    assert [(workloads[name].HasField("agent"), workloads[name].agent) for name in "ab"] == [(True, "")] * 2


def test_a_deprecated_manifest_causes_a_warning_and_keeps_its_tags() -> None:
    text = "apiVersion: v0.1\nworkloads: {a: {agent: n, runtime: r, runtimeConfig: c, tags: [{key: k, value: v}]}}\n"
    warning = (
        "Warning: The manifest API version 'v0.1' is deprecated and support will be removed in future releases. "
        "Please update to the latest API version 'v1'.\n"
    )
    with served(Cluster()) as server:
        done = ank("apply", "-", url=server.url, stdin=text)
        quiet = ank("-q", "apply", "-", url=server.url, stdin=text)
    assert done.stdout == warning + "Apply successful. No workloads updated.\n"
    assert quiet.stdout == ""
    assert update_of(server).newState.desiredState.apiVersion == "v1"
    assert dict(update_of(server).newState.desiredState.workloads.workloads["a"].tags.tags) == {"k": "v"}


@pytest.mark.parametrize("text", ["apiVersion: v1", "apiVersion: v1\nworkloads:\nconfigs: {}\n"])
def test_nothing_to_update_needs_no_server(text: str) -> None:
    done = ank("apply", "-", stdin=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Nothing to update.\n", "")
    assert ank("-q", "apply", "-", stdin=text).stdout == ""
    assert ank("apply", "-d").stdout == "Nothing to update.\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("apiVersion: v3", 'Manifest schema validation failed:\n\'/apiVersion\': "v3" does not match "^v1$"'),
        ("workloads: {}", "Manifest schema validation failed:\n'': \"apiVersion\" is a required property"),
        (
            "apiVersion: v1\nworkloads: {a: {runtime: r, runtimeConfig: c}}",
            "No agent name specified -> use '--agent' option to specify!",
        ),
        (
            "apiVersion: v1\nworkloads: {a: {agent: n, runtime: r, runtimeConfig: c, tags: {a.b: c}}}",
            "Invalid mapping key 'a.b': Expected to have characters in [a-zA-Z0-9_-].",
        ),
    ],
)
def test_an_invalid_manifest_is_reported_before_the_server_is_contacted(text: str, expected: str) -> None:
    done = ank("apply", "-", stdin=text)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{ERROR}Command failed: '{expected}'\n")


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    missing = ank("apply", str(tmp_path / "none.yaml"))
    expected = f"{ERROR}Command failed: 'File '{tmp_path / 'none.yaml'}' not found!'\n"
    assert missing.stderr == expected + "hint: check the name\n"
    (tmp_path / "bad.yaml").write_text("a: [")
    assert ank("apply", str(tmp_path / "bad.yaml")).stderr.startswith(
        f"{ERROR}Command failed: 'Invalid manifest data provided: "
    )
    (tmp_path / "one.yaml").write_text("apiVersion: v1\nconfigs: {a: b}")
    twice = ank("apply", str(tmp_path / "one.yaml"), str(tmp_path / "one.yaml"))
    assert twice.stderr == f"{ERROR}Command failed: 'Multiple workloads with the same name 'a' found!'\n"
    late = ank("apply", str(tmp_path / "one.yaml"), "-")
    assert late.stderr.startswith(f"{ERROR}Command failed: 'File '-' not found!'\n")
