"""A real Prometheus scrapes a real server and agent and is queried.

Needs: prometheus, promtool.
"""

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, free_port
from tools.reference.metrics_page import agent_metrics, server_metrics

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
MANIFEST = """
apiVersion: v1
workloads:
  web:
    agent: n1
    runtime: native
    runtimeConfig: |
      command: ["/bin/busybox", "sleep", "1000"]
    health:
      exec:
        command: ["/bin/busybox", "true"]
        interval: 500ms
  job:
    agent: n1
    runtime: native
    runtimeConfig: |
      command: ["/bin/busybox", "sh", "-c", "exit 3"]
"""
needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")


class Prometheus:
    """Scrapes every second; owns the process."""

    def __init__(self, folder: Path, **targets: int) -> None:
        self.port = free_port()
        jobs = [
            {"job_name": f"ankaios-{name}", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
            for name, port in targets.items()
        ]
        rules = [str(PACKAGING / "prometheus/ankaios-alerts.yml")]
        config = {"global": {"scrape_interval": "500ms"}, "rule_files": rules, "scrape_configs": jobs}
        (folder / "prometheus.yml").write_text(json.dumps(config))
        with (folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn",
                ],
                stdout=log, stderr=log,
            )  # fmt: skip

    def query(self, expression: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                found: list[dict[str, Any]] = json.load(response)["data"]["result"]
                return found
        except OSError:  # it is still starting
            return []

    def value(self, expression: str) -> float | None:
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


@needs_prometheus
def test_prometheus_reads_all_metrics_of_server_and_agent(cluster: Cluster) -> None:
    ports = {"server": free_port(), "agent": free_port()}
    storage = f"sqlite:{cluster.folder}/state.db"
    cluster.start_server(MANIFEST, "--metrics", f"127.0.0.1:{ports['server']}", "--storage", storage)
    cluster.start_agent("n1", "--metrics", f"127.0.0.1:{ports['agent']}", runtimes=["native"])
    cluster.wait_for("web", "Running(Ok)")
    cluster.wait_for("job", "Failed(ExecFailed)")
    cluster.ank("apply", str(cluster.write("broken.yaml", "apiVersion: v1\nworkloads: {a b: {}}")), check=False)
    prometheus = Prometheus(cluster.folder, **ports)
    try:
        expected = {
            'up{job="ankaios-server"}': 1,
            'ankaios_server_workloads{agent="n1", state="Running"}': 1,
            'ankaios_server_workloads{state="Failed"}': 1,
            "ankaios_server_agents": 1,
            "ankaios_agent_server_connected": 1,
            'ankaios_agent_workload_exits_total{code="3"}': 1,
            "ankaios_agent_update_to_running_seconds_count": 1,
            "ankaios_agent_exit_to_report_seconds_count": 1,
            'ankaios_agent_runtime_calls_total{runtime="native", call="create", result="ok"}': 2,
            'ankaios_server_connections{peer="agent"}': 1,
            'ankaios_server_store_info{store="sqlite"}': 1,
            'ankaios_server_store_revision{store="sqlite"}': 1,
            'ankaios_server_store_usable{store="sqlite"}': 1,
            'ankaios_server_store_damaged{store="sqlite"}': 0,
            "ankaios_server_is_leader": 1,
            "ankaios_server_leader_term": 0,
        }
        for expression, value in expected.items():
            cluster.wait_until(
                f"{expression} is {value}",
                lambda expression=expression, value=value: prometheus.value(expression) == value,
                more=lambda expression=expression: f"it is {prometheus.value(expression)}",
            )
        for expression, least in {
            'ankaios_server_received_bytes_total{peer="agent"}': 100,
            'ankaios_server_store_size_bytes{store="sqlite"}': 1000,
            'ankaios_server_commits_total{store="sqlite", result="ok"}': 1,
            'ankaios_server_commit_duration_seconds_count{store="sqlite"}': 1,
            'ankaios_agent_health_checks_total{check="exec", result="ok"}': 1,
        }.items():
            cluster.wait_until(
                f"{expression} is at least {least}",
                lambda expression=expression, least=least: (prometheus.value(expression) or 0) >= least,
                more=lambda expression=expression: f"it is {prometheus.value(expression)}",
            )
        names = {found["metric"]["__name__"] for found in prometheus.query('{job=~"ankaios.*"}')}
    finally:
        prometheus.close()
    labelled = {metric.name for metric in (*server_metrics(), *agent_metrics()) if metric.labels}
    for metric in (*server_metrics(), *agent_metrics()):
        sample = {"counter": f"{metric.name}_total", "histogram": f"{metric.name}_bucket"}.get(metric.kind, metric.name)
        assert sample in names or metric.name in labelled, f"{sample} is not scraped"


@needs_prometheus
def test_alert_rules_and_configuration_are_valid() -> None:
    for kind, name in (("rules", "ankaios-alerts.yml"), ("config", "prometheus.yml")):
        done = subprocess.run(
            ["promtool", "check", kind, str(PACKAGING / "prometheus" / name)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
def test_alerts_fire_for_a_damaged_store_a_lost_leader_and_failed_workloads(tmp_path: Path) -> None:
    values = {
        'ankaios_server_store_damaged{store="sqlite"}': ("1x10", "AnkaiosStoreDamaged"),
        'ankaios_server_store_usable{store="sqlite"}': ("0x10", "AnkaiosStoreNotUsable"),
        "ankaios_server_is_leader": ("0x10", "AnkaiosNoLeader"),
        'ankaios_server_workloads{agent="n1", state="Failed"}': ("1x10", "AnkaiosWorkloadsFailed"),
        'ankaios_agent_workload_health{instance="n1", status="unhealthy"}': ("1x10", "AnkaiosWorkloadsUnhealthy"),
    }
    series = [{"series": name, "values": text} for name, (text, _) in values.items()]
    firing = [
        {"expr": f'ALERTS{{alertname="{name}", alertstate="firing"}}', "eval_time": "5m"} for _, name in values.values()
    ]
    counted = [
        {**one, "expr": f"count({one['expr']})", "exp_samples": [{"labels": "{}", "value": 1}]} for one in firing
    ]
    rules = str(PACKAGING / "prometheus/ankaios-alerts.yml")
    cases = [{"interval": "30s", "input_series": series, "promql_expr_test": counted}]
    (tmp_path / "test.yml").write_text(
        json.dumps({"rule_files": [rules], "evaluation_interval": "30s", "tests": cases})
    )
    done = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "test.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_dashboard_use_only_metrics_that_exist() -> None:
    known = {
        name
        for metric in (*server_metrics(), *agent_metrics())
        for name in (metric.name, f"{metric.name}_total", f"{metric.name}_bucket", f"{metric.name}_count")
    }
    text = (PACKAGING / "prometheus/ankaios-alerts.yml").read_text() + (PACKAGING / "grafana/ankaios.json").read_text()
    used = set(re.findall(r"\bankaios_(?:server|agent)_\w+", text))
    assert used
    assert used - known == set()


def test_log_lines_are_json_objects_with_stable_fields(cluster: Cluster) -> None:
    cluster.start_server(None, "--log-format", "json")
    cluster.start_agent("n1", "--log-format", "json", runtimes=["native"])
    for name in ("server", "n1"):
        lines = (cluster.folder / f"{name}.log").read_text().splitlines()
        assert lines
        for line in lines:
            assert set(json.loads(line)) == {"time", "level", "module", "message"}
