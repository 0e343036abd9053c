"""Counters, histograms and gauges as plain numbers. Programs always count; no library is loaded for it.

Input: increments and observations. Output: values that `metrics_endpoint` converts to OpenMetrics when it is scraped.
Owns the values. Names and units follow the Prometheus conventions: base units; `_total` of counters is added on output.

    UPDATES = Counter("ankaios_server_updates", "Updates of the desired state.", "result")
    UPDATES.add("accepted")
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence

# The maximum number of label values of a metric. Further values are counted together, as protection against attacks.
MAX_SERIES = 1000
OTHER = "other"
DURATION_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

Labels = tuple[str, ...]


class Metric:
    """`name` without the suffix of counters; `labels` are the names of the labels."""

    kind = ""

    def __init__(self, name: str, description: str, *labels: str) -> None:
        self.name = name
        self.description = description
        self.labels = labels


class Counter(Metric):
    kind = "counter"

    def __init__(self, name: str, description: str, *labels: str) -> None:
        super().__init__(name, description, *labels)
        self.values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, *labels: str, amount: float = 1) -> None:
        key = _bounded(labels, self.values)
        self.values[key] = self.values.get(key, 0) + amount


class Distribution:
    """The number of observations in each range, and their sum."""

    def __init__(self, size: int) -> None:
        self.counts = [0] * size
        self.sum = 0.0


class Histogram(Metric):
    """Durations in seconds; the last range has no upper bound."""

    kind = "histogram"

    def __init__(self, name: str, description: str, *labels: str, bounds: Sequence[float] = DURATION_BOUNDS) -> None:
        super().__init__(name, description, *labels)
        self.bounds = tuple(bounds)
        self.values: dict[Labels, Distribution] = {} if labels else {(): Distribution(len(bounds) + 1)}

    def observe(self, seconds: float, *labels: str) -> None:
        key = _bounded(labels, self.values)
        found = self.values.get(key)
        if found is None:
            found = self.values[key] = Distribution(len(self.bounds) + 1)
        found.counts[bisect_left(self.bounds, seconds)] += 1
        found.sum += seconds


class Gauge(Metric):
    """Computed when it is read, so that no second copy of a value exists."""

    kind = "gauge"

    def __init__(self, name: str, description: str, *labels: str) -> None:
        super().__init__(name, description, *labels)
        self.read: Callable[[], Mapping[Labels, float]] = dict


AnyMetric = Counter | Histogram | Gauge


def metrics_of(owner: object) -> Iterable[AnyMetric]:
    """Return all metrics that are attributes of an object, in the order of their declaration."""
    return (value for value in vars(owner).values() if isinstance(value, AnyMetric))


def _bounded(labels: Labels, known: Mapping[Labels, object]) -> Labels:
    if labels in known or len(known) < MAX_SERIES:
        return labels
    return (OTHER,) * len(labels)
