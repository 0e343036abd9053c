"""`ank plan` and `ank apply --dry-run` as processes: output, exit codes, and servers without support for plans."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer
from tests.integration.cli.ank import ERROR, ID, ank
from tests.integration.cli.scripted_server import Script, ScriptedServer, response

MANIFEST = """\
apiVersion: v1
workloads:
  web:
    runtime: podman
    agent: n1
    runtimeConfig: |
      image: web:2
"""
TEXT = """\
Step 1
+ db  create on agent 'n1' with podman
    waits for agent 'n1', which is not connected
Step 2
~ web  update on agent 'n1', the new instance starts first
    runtimeConfig:
      - image: web:1
      + image: web:2
        env: []
    restartPolicy: NEVER -> ALWAYS
    tags.old: - x
- gone  delete, on agent 'n2'
~ port  config
    value: 80 -> 8080

Plan: 1 to create, 1 to update, 1 to delete, 1 other entry to change. Nothing was changed.
"""


def instance(name: str, agent: str) -> base.WorkloadInstanceName:
    return base.WorkloadInstanceName(workloadName=name, agentName=agent, id=ID)


def field(path: str, before: str | None = None, after: str | None = None) -> base.FieldChange:
    return base.FieldChange(path=path, before=before, after=after)


PLAN = base.PlanResponse(
    accepted=True,
    revision=7,
    workloads=[
        base.PlannedWorkload(
            name="db",
            action=base.PLANNED_CREATE,
            after=instance("db", "n1"),
            fields=[field("runtime", after="podman")],
            waitsFor=["agent 'n1', which is not connected"],
            step=1,
        ),
        base.PlannedWorkload(
            name="web",
            action=base.PLANNED_UPDATE,
            before=instance("web", "n1"),
            after=instance("web", "n1"),
            fields=[
                field("runtimeConfig", "image: web:1\nenv: []\n", "image: web:2\nenv: []\n"),
                field("restartPolicy", "NEVER", "ALWAYS"),
                field("tags.old", "x"),
            ],
            step=2,
            startsNewFirst=True,
        ),
        base.PlannedWorkload(name="gone", action=base.PLANNED_DELETE, before=instance("gone", "n2"), step=2),
    ],
    entries=[
        base.PlannedEntry(kind="config", name="port", action=base.PLANNED_UPDATE, fields=[field("", "80", "8080")])
    ],
)


def answering(plan: base.PlanResponse) -> Script:
    def answers(message: ToServer) -> Iterable[FromServer] | None:
        return [response(message, planResponse=plan)] if message.request.HasField("planRequest") else None

    return answers


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    path = tmp_path / "web.yaml"
    path.write_text(MANIFEST)
    return str(path)


@pytest.mark.parametrize("words", [["plan"], ["apply", "--dry-run"]])
def test_a_plan_is_printed_in_steps(words: list[str], manifest: str) -> None:
    with ScriptedServer(script=answering(PLAN)) as server:
        done = ank(*words, manifest, url=server.url)
    assert (done.stdout, done.stderr, done.returncode) == (TEXT, "", 0)
    assert [request.WhichOneof("RequestContent") for request in server.requests] == ["planRequest"]
    (request,) = server.requests
    assert list(request.planRequest.update.updateMask) == ["desiredState.workloads.web"]


def test_the_exit_code_shows_whether_something_would_change(manifest: str) -> None:
    with ScriptedServer(script=answering(PLAN)) as server:
        assert ank("plan", "--exit-code", manifest, url=server.url).returncode == 3
    with ScriptedServer(script=answering(base.PlanResponse(accepted=True))) as server:
        done = ank("plan", "--exit-code", manifest, url=server.url)
    assert (done.stdout, done.returncode) == ("No changes. The cluster is as the manifests describe.\n", 0)


def test_json_contains_the_whole_plan(manifest: str) -> None:
    with ScriptedServer(script=answering(PLAN)) as server:
        plan = json.loads(ank("plan", "-o", "json", manifest, url=server.url).stdout)
    assert (plan["accepted"], plan["revision"]) == (True, 7)
    assert [(it["name"], it["action"], it["step"]) for it in plan["workloads"]] == [
        ("db", "create", 1),
        ("web", "update", 2),
        ("gone", "delete", 2),
    ]
    assert plan["workloads"][2]["before"] == f"gone.{ID}.n2"
    assert plan["workloads"][2]["after"] is None
    assert plan["workloads"][1]["fields"][2] == {"path": "tags.old", "before": "x", "after": None}


def test_a_rejected_plan_names_the_rule_and_exits_with_1(manifest: str) -> None:
    rejected = base.PlanResponse(rejection="workload dependency 'web' is part of a cycle.", rejectedBy="cycle")
    with ScriptedServer(script=answering(rejected)) as server:
        done = ank("plan", manifest, url=server.url)
        as_json = ank("plan", "-o", "json", manifest, url=server.url)
    text = "Plan rejected by rule 'cycle': workload dependency 'web' is part of a cycle.\nhint: nothing was changed\n"
    assert (done.stdout, done.stderr, done.returncode) == ("", ERROR + text, 1)
    assert (json.loads(as_json.stdout)["rejectedBy"], as_json.returncode) == ("cycle", 1)


UNSUPPORTED = "the server supports no plans; servers of Eclipse Ankaios do not have them"


def test_a_server_that_ignores_the_request_is_reported_after_the_time_limit(manifest: str) -> None:
    with ScriptedServer() as server:
        done = ank("--response-timeout", "300", "plan", manifest, url=server.url)
    assert done.stderr == f"{ERROR}Command failed: '{UNSUPPORTED} (no response within 300ms)'\n"
    assert done.returncode == 1


def test_a_server_that_ends_the_connection_is_reported(manifest: str) -> None:
    def dropping(message: ToServer) -> Iterable[FromServer] | None:
        if message.request.HasField("planRequest"):
            server.drop()
        return None

    with ScriptedServer(script=dropping) as server:
        done = ank("plan", manifest, url=server.url)
    assert (done.stderr, done.returncode) == (f"{ERROR}Command failed: '{UNSUPPORTED}'\n", 1)


def test_an_error_response_is_printed(manifest: str) -> None:
    def failing(message: ToServer) -> Iterable[FromServer] | None:
        return [response(message, error=base.Error(message="unknown request"))]

    with ScriptedServer(script=failing) as server:
        done = ank("plan", manifest, url=server.url)
    text = "Command failed: 'the server rejected the request for plans: unknown request'\n"
    assert (done.stderr, done.returncode) == (ERROR + text, 1)
