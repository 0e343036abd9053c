"""Delays operations until their dependencies and delete conditions are fulfilled.

Input: operations from the planner, and the names of workloads whose state changed. Output: operations that are ready,
and states to report for those that wait. The module owns the waiting operations, one entry for each workload name. Only
entries that depend on a changed workload are evaluated again.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from ankaios.agent.core.operations import (
    CreateOperation,
    DeleteBeforeUpdate,
    DeleteOperation,
    Operation,
    StateReport,
    UpdateOperation,
)
from ankaios.agent.core.parameter_storage import ParameterStorage
from ankaios.common.dependency_conditions import blocks_stop, fulfils
from ankaios.common.execution_state import (
    PENDING_WAITING_TO_START,
    REMOVED,
    RUNNING_OK,
    STOPPING_WAITING_TO_STOP,
    ExecutionState,
)
from ankaios.common.workload import AddCondition, DeleteCondition, InstanceName

Waiting = CreateOperation | UpdateOperation | DeleteOperation


class SchedulingDecision(Struct):
    """`abandoned` are finished containers whose planned restart is cancelled."""

    ready: list[Operation] = field(default_factory=list)
    reports: list[StateReport] = field(default_factory=list)
    abandoned: list[CreateOperation] = field(default_factory=list)


def may_start(dependencies: Mapping[str, AddCondition], states: ParameterStorage) -> bool:
    """Return whether each dependency has an instance, on any agent, in the required state.

    [impl->swdd~workload-add-conditions-for-dependencies~1]
    """
    return all(
        any(fulfils(state, condition.value) for state in states.states_of(name))
        for name, condition in dependencies.items()
    )


def may_stop(conditions: Mapping[str, DeleteCondition], states: ParameterStorage) -> bool:
    """Return whether all instances of all dependents allow the stop; a dependent without known instances does.

    [impl->swdd~workload-delete-conditions-for-dependencies~1]
    """
    return all(
        _allows_stop(state, condition) for name, condition in conditions.items() for state in states.states_of(name)
    )


def _allows_stop(state: ExecutionState, condition: DeleteCondition) -> bool:
    """A dependent that waits for its start must not block the stop: that would be a deadlock."""
    if condition is DeleteCondition.DEL_COND_RUNNING and not state.is_same(PENDING_WAITING_TO_START):
        return state.is_same(RUNNING_OK)
    return not blocks_stop(state)


class DependencyScheduler:
    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._watchers: dict[str, set[str]] = {}  # workload name -> names of entries that depend on it

    @property
    def entries(self) -> Mapping[str, Waiting]:
        return self._waiting

    def schedule(self, operations: Iterable[Operation], states: ParameterStorage) -> SchedulingDecision:
        """Evaluate new operations. They replace waiting operations of the same name."""
        decision = SchedulingDecision()
        for operation in operations:
            if adapted := self._supersede(operation, decision):
                self._evaluate(adapted, states, decision)
        return decision

    def recheck(self, changed: Iterable[str], states: ParameterStorage) -> SchedulingDecision:
        """Evaluate the entries that depend on a changed workload. Those that still wait are not reported again."""
        decision = SchedulingDecision()
        names = {name for workload in changed for name in self._watchers.get(workload, ())}
        for name in sorted(names):
            self._evaluate_again(self._waiting[name], states, decision)
        return decision

    def drop(self, name: str) -> SchedulingDecision:
        """Remove the waiting operation of this name; a workload that was not created is reported as removed."""
        decision = SchedulingDecision()
        match self._remove(name):
            case CreateOperation(_, str()) as entry:
                decision.abandoned.append(entry)
            case CreateOperation(spec) | UpdateOperation(spec):
                decision.reports.append((spec.instance_name, REMOVED))
            case _:
                pass
        return decision

    def _supersede(self, operation: Operation, decision: SchedulingDecision) -> Operation | None:
        """Remove the older entry, and adapt the newer operation to the instance that exists."""
        match operation, self._remove(operation.name):
            case _, CreateOperation() as entry:
                return self._instead_of(entry, operation, decision)
            case UpdateOperation(spec, deleted), UpdateOperation(never, running):
                self._never_started(never.instance_name, spec.instance_name, decision)
                return UpdateOperation(spec, replace(deleted, instance_name=running.instance_name))
            case UpdateOperation(spec, deleted), DeleteOperation(waiting):
                # A workload that is added again while its delete waits: its dependents still need the old instance.
                return UpdateOperation(
                    spec, replace(deleted, dependencies=deleted.dependencies or waiting.dependencies)
                )
            case DeleteOperation(deleted), UpdateOperation(never, running):
                self._never_started(never.instance_name, running.instance_name, decision)
                return DeleteOperation(replace(deleted, instance_name=running.instance_name))
            case _:
                return operation

    @staticmethod
    def _instead_of(entry: CreateOperation, operation: Operation, decision: SchedulingDecision) -> Operation | None:
        """The older create has not started, so nothing has to stop first; only a finished container may exist."""
        if entry.reuse is not None and not (isinstance(operation, CreateOperation) and operation.reuse == entry.reuse):
            decision.abandoned.append(entry)
            if isinstance(operation, DeleteOperation):
                return None
        elif entry.spec.instance_name != operation.instance:
            decision.reports.append((entry.spec.instance_name, REMOVED))
        return CreateOperation(operation.spec) if isinstance(operation, UpdateOperation) else operation

    @staticmethod
    def _never_started(never: InstanceName, alive: InstanceName, decision: SchedulingDecision) -> None:
        if never != alive:
            decision.reports.append((never, REMOVED))

    def _evaluate(self, operation: Operation, states: ParameterStorage, decision: SchedulingDecision) -> None:
        match operation:
            case CreateOperation(spec) if not may_start(spec.dependencies, states):
                self._wait(operation)
                decision.reports.append((spec.instance_name, PENDING_WAITING_TO_START))
            case DeleteOperation(deleted) if not may_stop(deleted.dependencies, states):
                self._wait(operation)
                decision.reports.append((deleted.instance_name, STOPPING_WAITING_TO_STOP))
            case UpdateOperation(spec, deleted) if operation.starts_new_first:
                # The old instance runs until the new one does, so no dependent has to stop.
                if may_start(spec.dependencies, states):
                    decision.ready.append(operation)
                else:
                    self._wait(operation)
                    decision.reports.append((spec.instance_name, PENDING_WAITING_TO_START))
            case UpdateOperation(spec, deleted) if not may_stop(deleted.dependencies, states):
                self._wait(operation)
                decision.reports.append((deleted.instance_name, STOPPING_WAITING_TO_STOP))
            case UpdateOperation(spec, deleted) if not may_start(spec.dependencies, states):
                self._split(operation, decision)
            case _:
                decision.ready.append(operation)

    def _split(self, update: UpdateOperation, decision: SchedulingDecision) -> None:
        """Delete the old instance now, and let the new one wait."""
        self._wait(CreateOperation(update.spec))
        decision.reports.append((update.spec.instance_name, PENDING_WAITING_TO_START))
        decision.ready.append(DeleteBeforeUpdate(update.deleted.instance_name))

    def _evaluate_again(self, entry: Waiting, states: ParameterStorage, decision: SchedulingDecision) -> None:
        again = SchedulingDecision()
        self._remove(entry.name)
        self._evaluate(entry, states, again)
        decision.ready += again.ready
        if self._waiting.get(entry.name) != entry:
            decision.reports += again.reports

    def _wait(self, entry: Waiting) -> None:
        self._waiting[entry.name] = entry
        for name in _depends_on(entry):
            self._watchers.setdefault(name, set()).add(entry.name)

    def _remove(self, name: str) -> Waiting | None:
        entry = self._waiting.pop(name, None)
        for other in _depends_on(entry) if entry else ():
            watchers = self._watchers[other]
            watchers.discard(name)
            if not watchers:
                del self._watchers[other]
        return entry


def _depends_on(entry: Waiting) -> set[str]:
    match entry:
        case CreateOperation(spec):
            return set(spec.dependencies)
        case UpdateOperation(spec, deleted):
            return {*spec.dependencies, *deleted.dependencies}
        case DeleteOperation(deleted):
            return set(deleted.dependencies)
