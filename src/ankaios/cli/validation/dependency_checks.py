"""Checks dependencies between workloads: unknown workloads and cycles."""

from collections.abc import Iterator, Mapping

from ankaios.cli.validation.findings import WARNING, Form, Problem
from ankaios.cli.validation.manifest_set import ManifestSet
from ankaios.server.core.cycle_check import find_cycle

Dependencies = dict[str, Mapping[str, str]]


def check_dependencies(form: Form, manifests: ManifestSet) -> Iterator[Problem]:
    """An unknown workload is only a warning: the server may have it already."""
    for name in form.get("dependencies", {}):
        if manifests.lacks("workloads", name):
            text = f"depends on '{name}', which is in none of these files"
            yield Problem(("dependencies", name), text + manifests.suggestion("workloads", name), WARNING)


def check_cycles(manifests: ManifestSet) -> Iterator[tuple[str, Problem]]:
    """Each cycle once, with one of its workloads and the dependency to remove."""
    remaining: Dependencies = {name: entry.form.get("dependencies", {}) for name, entry in manifests.workloads.items()}
    while name := find_cycle(remaining, remaining.get):
        cycle = _shortest_cycle(name, remaining)
        text = f"workload dependency '{name}' is part of a cycle: {' -> '.join((*cycle, name))}."
        yield name, Problem(("dependencies", cycle[1] if len(cycle) > 1 else name), text)
        for member in cycle:
            del remaining[member]


def _shortest_cycle(start: str, dependencies: Dependencies) -> list[str]:
    """The shortest path from a workload back to itself, by breadth-first search."""
    reached_from = dict.fromkeys(dependencies[start], start)
    queue = list(reached_from)
    for name in queue:
        if name == start:
            break
        for other in dependencies.get(name, ()):
            if other not in reached_from:
                reached_from[other] = name
                queue.append(other)
    path = [start]
    while (previous := reached_from[path[0]]) != start:
        path.insert(0, previous)
    return [start, *path[:-1]]
