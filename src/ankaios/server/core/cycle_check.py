"""Finds dependency cycles among workloads. Input: the dependencies of the workloads that may close a cycle.

[impl->swdd~server-state-rejects-state-with-cyclic-dependencies~1]
"""

from collections.abc import Callable, Iterable, Mapping

# The dependencies of a workload, or None if there is no workload of that name.
DependenciesOf = Callable[[str], Mapping[str, str] | None]


def find_cycle(starts: Iterable[str], dependencies_of: DependenciesOf) -> str | None:
    """The name of the workload that closes the first cycle met, or None.

    The search is in depth. Of the dependencies of a workload the alphabetically first one that lies on the way closes
    the cycle; if none does, the last one is followed first.
    [impl->swdd~cycle-detection-stops-on-the-first-cycle~1]
    """
    done: set[str] = set()
    for start in sorted(starts):
        if start not in done and (found := _search(start, dependencies_of, done)):
            return found
    return None


def _search(start: str, dependencies_of: DependenciesOf, done: set[str]) -> str | None:
    """Without recursion: chains may be as long as the cluster is large."""
    on_way: dict[str, list[str]] = {start: sorted(dependencies_of(start) or ())}
    way = [start]
    if start in on_way[start]:
        return start
    while way:
        ahead = on_way[way[-1]]
        if not ahead:
            done.add(way[-1])
            del on_way[way.pop()]
            continue
        name = ahead.pop()
        # A missing workload cannot be part of a cycle; it may be added later.
        # [impl->swdd~cycle-detection-ignores-non-existing-workloads~1]
        if name in done or (next_ones := dependencies_of(name)) is None:
            continue
        names = sorted(next_ones)
        if closing := next((other for other in names if other in on_way or other == name), None):
            return closing
        on_way[name] = names
        way.append(name)
    return None
