"""Which workloads must have ended before another one may be deleted. The only owner of these conditions.

A condition belongs to the dependent workload: it exists from the moment the dependent is added until its last instance
that needed the other workload is removed. An update or a restart of the needed workload does not touch it.
"""

from collections.abc import Mapping

from ankaios.common.workload import DeleteCondition

NEEDED_WHILE_RUNNING = ("ADD_COND_RUNNING", "ADD_COND_HEALTHY")


class DeleteGraph:
    """Dependents by the name of the workload they need; only those that must run lead to a condition."""

    def __init__(self) -> None:
        self._dependents: dict[str, set[str]] = {}
        self._needs: dict[str, set[str]] = {}

    def insert(self, workload: str, dependencies: Mapping[str, str]) -> None:
        """Succeeded and failed dependencies have done their work already.

        [impl->swdd~server-state-stores-delete-condition~1]
        """
        for needed in _running(dependencies):
            self._dependents.setdefault(needed, set()).add(workload)
            self._needs.setdefault(workload, set()).add(needed)

    def conditions(self, workload: str) -> Mapping[str, DeleteCondition]:
        """[impl->swdd~server-state-adds-delete-conditions-to-deleted-workload~1]"""
        dependents = sorted(self._dependents.get(workload, ()))
        return dict.fromkeys(dependents, DeleteCondition.DEL_COND_NOT_PENDING_NOR_RUNNING)

    def forget(self, workload: str, successor: Mapping[str, str]) -> None:
        """An instance of the workload was removed, so nothing has to wait for its end.

        `successor` are the dependencies of the workload that runs next under the same name: their conditions stay.
        [impl->swdd~server-removes-obsolete-delete-graph-entires~1]
        """
        for needed in self._needs.get(workload, set()) - _running(successor):
            _drop(self._needs, workload, needed)
            _drop(self._dependents, needed, workload)


def _running(dependencies: Mapping[str, str]) -> set[str]:
    return {needed for needed, condition in dependencies.items() if condition in NEEDED_WHILE_RUNNING}


def _drop(graph: dict[str, set[str]], name: str, other: str) -> None:
    graph[name].discard(other)
    if not graph[name]:
        del graph[name]
