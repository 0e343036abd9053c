"""Who waits for whom: workloads that are not there, and workloads that wait for themselves."""

from collections.abc import Iterator, Mapping

from ankaios.cli.validation.cluster import Cluster
from ankaios.cli.validation.findings import WARNING, Complaint, Form
from ankaios.server.core.cycle_check import find_cycle

Dependencies = dict[str, Mapping[str, str]]


def unknown_dependencies(form: Form, cluster: Cluster) -> Iterator[Complaint]:
    """The server may know them already, so they are no error."""
    for name in form.get("dependencies", {}):
        if cluster.lacks("workloads", name):
            text = f"depends on '{name}', which is in none of these files"
            yield Complaint(("dependencies", name), text + cluster.guess("workloads", name), WARNING)


def cycles(cluster: Cluster) -> Iterator[tuple[str, Complaint]]:
    """Each cycle once, with the workload and the dependency at which to break it."""
    left: Dependencies = {name: entry.form.get("dependencies", {}) for name, entry in cluster.workloads.items()}
    while name := find_cycle(left, left.get):
        way = _way_round(name, left)
        text = f"workload dependency '{name}' is part of a cycle: {' -> '.join((*way, name))}."
        yield name, Complaint(("dependencies", way[1] if len(way) > 1 else name), text)
        for one in way:
            del left[one]


def _way_round(start: str, dependencies: Dependencies) -> list[str]:
    """The shortest way from a workload back to it."""
    reached_from = dict.fromkeys(dependencies[start], start)
    ahead = list(reached_from)
    for name in ahead:
        if name == start:
            break
        for other in dependencies.get(name, ()):
            if other not in reached_from:
                reached_from[other] = name
                ahead.append(other)
    way = [start]
    while (before := reached_from[way[0]]) != start:
        way.insert(0, before)
    return [start, *way[:-1]]
