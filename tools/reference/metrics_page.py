"""The page about metrics: what server and agent declare."""

from collections.abc import Iterable

from ankaios.agent.metrics import AgentMetrics
from ankaios.common.metrics import AnyMetric, metrics_of
from ankaios.middleware.traffic import ServerTraffic
from ankaios.server.metrics import ServerMetrics
from tools.reference.markdown import code, heading, page_of, table


def server_metrics() -> list[AnyMetric]:
    return [*metrics_of(ServerMetrics()), *metrics_of(ServerTraffic(lambda peer: ()))]


def agent_metrics() -> list[AnyMetric]:
    return list(metrics_of(AgentMetrics()))


def page() -> str:
    return page_of(
        "Metrics",
        "the metrics that server and agent declare",
        "`ank-server --metrics HOST:PORT` and `ank-agent --metrics HOST:PORT` serve these metrics at `/metrics` in the "
        "OpenMetrics format. [Metrics and alerts](../tutorials/metrics.md) shows how to use them. Both programs also "
        "serve the usual `process_` and `python_` metrics of their process.",
        heading(2, "`ank-server`", "server"),
        _table(server_metrics()),
        heading(2, "`ank-agent`", "agent"),
        _table(agent_metrics()),
    )


def _table(metrics: Iterable[AnyMetric]) -> str:
    rows = [(code(_name(one)), one.kind, ", ".join(map(code, one.labels)), one.description) for one in metrics]
    return table(("metric", "type", "labels", "meaning"), rows)


def _name(metric: AnyMetric) -> str:
    return f"{metric.name}_total" if metric.kind == "counter" else metric.name
