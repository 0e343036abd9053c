"""Which workloads must have ended before another one may be deleted. The only owner of these conditions."""

from collections.abc import Mapping

from ankaios.common.workload import DeleteCondition

RUNNING = "ADD_COND_RUNNING"


class DeleteGraph:
    """Conditions by the name of the workload to be deleted; only what expects a running one must end first."""

    def __init__(self) -> None:
        self._conditions: dict[str, dict[str, DeleteCondition]] = {}
        self._needs: dict[str, set[str]] = {}

    def insert(self, workload: str, dependencies: Mapping[str, str]) -> None:
        """Succeeded and failed dependencies have done their work already.

        [impl->swdd~server-state-stores-delete-condition~1]
        """
        for needed, condition in dependencies.items():
            if condition == RUNNING:
                conditions = self._conditions.setdefault(needed, {})
                conditions[workload] = DeleteCondition.DEL_COND_NOT_PENDING_NOR_RUNNING
                self._needs.setdefault(workload, set()).add(needed)

    def conditions(self, workload: str) -> Mapping[str, DeleteCondition]:
        """[impl->swdd~server-state-adds-delete-conditions-to-deleted-workload~1]"""
        return self._conditions.get(workload, {})

    def forget(self, workload: str, successor: Mapping[str, str]) -> None:
        """The workload is gone and nothing waits for its end any more.

        `successor` are the dependencies of what is to run now under the same name: these stay.
        [impl->swdd~server-removes-obsolete-delete-graph-entires~1]
        """
        for dependent in self._conditions.pop(workload, {}):
            self._drop(self._needs, dependent, workload)
        kept = {needed for needed, condition in successor.items() if condition == RUNNING}
        for needed in self._needs.get(workload, set()) - kept:
            self._drop(self._needs, workload, needed)
            self._drop_condition(needed, workload)

    def _drop_condition(self, needed: str, workload: str) -> None:
        conditions = self._conditions[needed]
        del conditions[workload]
        if not conditions:
            del self._conditions[needed]

    @staticmethod
    def _drop(graph: dict[str, set[str]], name: str, other: str) -> None:
        graph[name].discard(other)
        if not graph[name]:
            del graph[name]
