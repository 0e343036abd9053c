"""Plans, causes and atomic changes with real processes: two agents, native workloads, hooks, and a killed server.

Needs: nothing but the repository.
"""

import json
import signal
from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster

SLEEP = '["/bin/sleep", "1000"]'
DIES = '["/bin/sh", "-c", "echo no config >&2; sleep 1; exit 3"]'


def manifest(web: str = SLEEP, db: str = SLEEP, **web_fields: object) -> str:
    fields = "".join(f"    {name}: {json.dumps(value)}\n" for name, value in web_fields.items())
    return (
        "apiVersion: v1\nworkloads:\n"
        f"  web:\n    agent: a\n    runtime: native\n{fields}    runtimeConfig: 'command: {web}'\n"
        f"  db:\n    agent: b\n    runtime: native\n    runtimeConfig: 'command: {db}'\n"
    )


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def start(cluster: Cluster, *server_arguments: str) -> None:
    cluster.start_server(None, *server_arguments)
    for name in ("a", "b"):
        cluster.start_agent(name, runtimes=["native"])
    cluster.apply(manifest())


def ids(cluster: Cluster) -> dict[str, str]:
    states = cluster.state("workloadStates").get("workloadStates", {})
    return {name: next(iter(by_id)) for workloads in states.values() for name, by_id in workloads.items()}


def apply_atomically(cluster: Cluster, text: str, *more: str) -> tuple[int, str]:
    path = cluster.write("change.yaml", text)
    done = cluster.ank("apply", "--atomic", *more, str(path), check=False)
    return done.returncode, done.stderr


def test_a_workload_that_fails_after_it_was_ready_causes_a_rollback_with_the_reason(
    cluster: Cluster,
) -> None:
    start(cluster)
    before = ids(cluster)
    code, error = apply_atomically(cluster, manifest(web=DIES), "--settle", "10s")
    assert code == 1
    assert "the previous state is restored" in error
    assert "workload 'web' on agent 'a' is Failed(ExecFailed): Exit code: '3'" in error
    assert ids(cluster) == before
    assert {state for state, _ in cluster.states().values()} == {"Running(Ok)"}
    assert "restored" in cluster.ank("rollout", "status").stdout
    assert "no config" in cluster.ank("get", "events", "--since", "5m", "web").stdout


def test_a_change_that_is_ready_is_final(cluster: Cluster) -> None:
    start(cluster)
    path = cluster.write("change.yaml", manifest(web='["/bin/sleep", "2000"]'))
    done = cluster.ank("apply", "--atomic", "--settle", "1s", str(path))
    assert "rollout-1 is completed" in done.stdout
    done = cluster.ank("apply", "--atomic", "--if-revision", "1", "-", stdin=manifest(), check=False)
    assert done.returncode == 1
    assert "workload 'web' was changed after revision 1" in done.stderr


def test_a_change_for_an_agent_that_is_not_connected_is_undone_after_the_time_limit(cluster: Cluster) -> None:
    start(cluster)
    before = cluster.state("desiredState")
    cluster.kill_agent("a")
    cluster.wait_for("web", "AgentDisconnected")
    code, error = apply_atomically(cluster, manifest(web=DIES), "--timeout", "2s")
    assert code == 1
    assert "workload 'web' on agent 'a'" in error
    assert cluster.state("desiredState") == before
    assert "has no agent: 'a' is not connected, since" in cluster.ank("why", "web").stdout


def test_records_are_kept_after_restarts_of_agent_and_server(cluster: Cluster) -> None:
    storage = f"sqlite:{cluster.folder}/state.db"
    start(cluster, "--storage", storage)
    cluster.apply(manifest(web=DIES))
    cluster.wait_for("web", "Failed(ExecFailed)")
    cluster.wait_until("output is recorded", lambda: "no config" in cluster.ank("why", "web").stdout)
    cluster.kill_agent("a")
    cluster.kill_server(signal.SIGTERM)
    cluster.start_server(None, "--storage", storage)
    assert "last output: no config" in cluster.ank("get", "events", "--since", "5m", "web").stdout
    cluster.start_agent("a", runtimes=["native"])
    timeline = cluster.ank("describe", "workload", "web").stdout
    assert "Timeline:" in timeline
    assert "last output: no config" in timeline


def test_why_names_the_root_cause_on_another_node(cluster: Cluster) -> None:
    start(cluster)
    text = manifest(db='["/bin/sh", "-c", "echo broken; exit 4"]', dependencies={"db": "ADD_COND_SUCCEEDED"})
    cluster.ank("--no-wait", "apply", "-", stdin=text)
    cluster.wait_for("db", "Failed(ExecFailed)")
    cluster.wait_for("web", "Pending(WaitingToStart)")
    cluster.wait_until("output is recorded", lambda: "| broken" in cluster.ank("why", "web").stdout)
    first, second, _ = cluster.ank("why", "web").stdout.splitlines()
    assert first.startswith("web (a) waits for dependency 'db' to succeed, which is Failed(ExecFailed)")
    assert second.startswith("└─ db (b) has failed: Exit code: '4'")


def test_apply_makes_the_planned_changes(cluster: Cluster) -> None:
    start(cluster)
    path = cluster.write("change.yaml", manifest(web='["/bin/sleep", "2000"]'))
    plan = json.loads(cluster.ank("plan", "-o", "json", str(path)).stdout)
    assert [(it["name"], it["action"]) for it in plan["workloads"]] == [("web", "update")]
    assert cluster.ank("plan", "--exit-code", str(path), check=False).returncode == 3
    before = ids(cluster)
    assert plan["workloads"][0]["before"] == f"web.{before['web']}.a"
    cluster.ank("apply", str(path))
    assert plan["workloads"][0]["after"] == f"web.{ids(cluster)['web']}.a"
    assert cluster.ank("plan", "--exit-code", str(path)).returncode == 0


def test_a_cycle_is_rejected_in_a_plan(cluster: Cluster) -> None:
    start(cluster)
    text = manifest(dependencies={"web": "ADD_COND_RUNNING"})
    done = cluster.ank("plan", "-", stdin=text, check=False)
    assert done.returncode == 1
    assert "rejected by rule 'cycle': Update rejected: 'workload dependency 'web' is part of a cycle.'" in done.stderr


def test_a_hook_that_rejects_is_named_in_plans_and_causes(cluster: Cluster) -> None:
    hook = cluster.write("guard", "#!/bin/sh\necho 'web is frozen' >&2\nexit 1\n")
    hook.chmod(0o755)
    config = f"version = 'v1'\n[[mutating_hooks]]\nname = 'guard'\npath = '{cluster.folder}'\n"
    cluster.start_server(None, "-x", str(cluster.write("server.conf", config)))
    done = cluster.ank("plan", "-", stdin=manifest(), check=False)
    assert "rejected by rule 'hook'" in done.stderr
    assert "web is frozen" in done.stderr
    cluster.ank("apply", "-", stdin=manifest(), check=False)
    assert "a change was rejected" in cluster.ank("why", "web").stdout


def test_a_new_instance_starts_first_and_a_failed_update_does_not_touch_the_running_one(cluster: Cluster) -> None:
    cluster.start_server()
    cluster.start_agent("a", runtimes=["native"])
    cluster.start_agent("b", runtimes=["native"])
    first = {"startNewFirst": True}
    cluster.apply(manifest(updateStrategy=first))
    cluster.apply(manifest(web='["/bin/sleep", "2000"]', updateStrategy=first))
    cluster.wait_until("the old one is removed", lambda: len(_instances(cluster, "web")) == 1)
    happened = _records(cluster)
    running = [it["id"] for it in happened if it["state"] == "Running(Ok)"]
    old_stops = next(n for n, it in enumerate(happened) if it["state"].startswith("Stopping"))
    new_runs = max(n for n, it in enumerate(happened) if it["state"] == "Running(Ok)")
    assert len(running) == 2
    assert happened[old_stops]["id"] == running[0]
    assert new_runs < old_stops
    code, _ = apply_atomically(cluster, manifest(web='["/bin/false"]', updateStrategy=first))
    assert code == 1
    assert not [it for it in _records(cluster) if it["id"] == running[1] and it["state"].startswith("Stopping")]


def _records(cluster: Cluster) -> list[dict[str, str]]:
    lines = cluster.ank("get", "events", "--since", "5m", "-o", "json", "web").stdout.splitlines()
    return [json.loads(line) for line in lines]


def _instances(cluster: Cluster, name: str) -> list[str]:
    states = cluster.state("workloadStates").get("workloadStates", {})
    return [instance for workloads in states.values() for instance in workloads.get(name, {})]
