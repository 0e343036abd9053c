"""Compares the workloads that the server assigned with those that exist, and plans the operations.

Input: the lists of ServerHello and UpdateWorkload, and the existing workloads of each runtime. Output: a plan. The
module owns the workloads that wait until their runtime has listed its existing workloads. Runtimes are listed
independently, so a runtime that hangs or fails delays only its own workloads.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from msgspec import Struct, field

from ankaios.agent.core.operations import CreateOperation, DeleteOperation, Operation, UpdateOperation
from ankaios.agent.core.restart_policy import is_finished
from ankaios.common.execution_state import RUNNING_OK, SUCCEEDED_OK, ExecutionState
from ankaios.common.workload import DeletedWorkload, InstanceName, WorkloadSpec


class Found(Struct, frozen=True):
    """A workload that exists in a runtime; without an id it cannot be restarted."""

    runtime: str
    instance_name: InstanceName
    state: ExecutionState
    id: str | None = None

    def as_spec(self) -> WorkloadSpec:
        """Return a specification with the known parts; restart policy and files are unknown."""
        return WorkloadSpec(self.instance_name, self.runtime, runtime_config="")


class Managed(Protocol):
    """The attributes of a workload with a task that planning needs.

    `target` is the specification that the task establishes, None after a delete. The task `owns` an instance if it may
    have a container of it.
    """

    @property
    def target(self) -> WorkloadSpec | None: ...
    @property
    def current(self) -> InstanceName: ...
    def owns(self, name: InstanceName, runtime: str | None = None) -> bool: ...


class ResumeOperation(Struct, frozen=True):
    spec: WorkloadSpec
    id: str | None


class Plan(Struct):
    """`keep`: continue unchanged and report again; `drop`: stop waiting; `unneeded`: delete immediately.

    `replace`: take over, so that a task can delete it before the new one is created by an update in `operations`.
    """

    keep: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    removed: list[InstanceName] = field(default_factory=list)
    unneeded: list[Found] = field(default_factory=list)
    resume: list[ResumeOperation] = field(default_factory=list)
    replace: list[Found] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


class RuntimeManager:
    """[impl->swdd~agent-supports-multiple-runtime-connectors~1]"""

    def __init__(self, runtimes: Collection[str]) -> None:
        self._runtimes = runtimes
        self.keeps_unlisted = False  # the server has lost a part of its state
        self._kept: dict[str, Found] = {}  # what exists and has no task, because the server does not list it
        self._held: dict[str, dict[str, WorkloadSpec]] = {}  # runtime that is not listed yet -> its waiting workloads

    def unlisted(self) -> list[str]:
        """Return the runtimes whose existing workloads are not listed yet."""
        return list(self._held)

    def awaited(self) -> list[str]:
        """Return the unlisted runtimes that workloads wait for."""
        return [runtime for runtime, held in self._held.items() if held]

    def held(self, runtime: str) -> Collection[WorkloadSpec]:
        return self._held.get(runtime, {}).values()

    def server_hello(
        self,
        added: Iterable[WorkloadSpec],
        managed: Mapping[str, Managed],
        waiting: Mapping[str, Operation],
        *,
        keep_unlisted: bool = False,
    ) -> Plan:
        """Plan for the complete list of workloads. `keep_unlisted`: the server has lost a part of its state.

        Workloads with a task are planned immediately, the others when their runtime is listed. An unchanged workload
        continues; only its state is reported again, because the server has lost it.
        [impl->swdd~agent-initial-list-existing-workloads~1]
        [impl->swdd~agent-existing-workloads-finds-list~1]
        """
        plan = Plan()
        wanted = {spec.name: spec for spec in added}
        self._held = {runtime: {} for runtime in self._runtimes}
        self.keeps_unlisted = keep_unlisted
        self._kept = {}
        plan.drop = [name for name in waiting if name not in wanted and not keep_unlisted]
        for name, work in managed.items():
            if name not in wanted and not keep_unlisted:
                plan.operations.append(DeleteOperation(DeletedWorkload(work.current)))
        for name, spec in wanted.items():
            if name in managed or name in waiting:
                self._again(spec, managed.get(name), waiting.get(name), plan)
            else:
                self._hold_or_create(spec, plan)
        return plan

    @staticmethod
    def _again(spec: WorkloadSpec, work: Managed | None, entry: Operation | None, plan: Plan) -> None:
        if work is None or (entry and work.target is None):
            unchanged = isinstance(entry, CreateOperation) and entry.spec == spec
            plan.operations.append(entry if entry and unchanged else CreateOperation(spec))
        elif work.target == spec:
            plan.keep.append(spec.name)
        else:
            plan.operations.append(UpdateOperation(spec, DeletedWorkload(work.current)))

    def _hold_or_create(self, spec: WorkloadSpec, plan: Plan) -> None:
        """A workload with an unknown runtime is created without waiting; its task reports that it cannot start.

        [impl->swdd~agent-skips-unknown-runtime~1]
        """
        if spec.runtime in self._held:
            self._held[spec.runtime][spec.name] = spec
        else:
            plan.operations.append(CreateOperation(spec))

    def listed(
        self,
        runtime: str,
        found: Iterable[Found],
        managed: Mapping[str, Managed],
        waiting: Mapping[str, Operation],
    ) -> Plan:
        """Plan for the existing workloads of a runtime: match by instance name first, then by workload name.

        [impl->swdd~agent-existing-workloads-starts-new-if-not-found~1]
        """
        plan = Plan()
        held = dict(self._held.get(runtime, {}))  # a copy: after an error, the runtime is listed again
        unmanaged = [item for item in found if not (_is_managed(item, managed) or _is_awaited(item, waiting))]
        unmanaged.sort(key=lambda item: _is_exact(item, held), reverse=True)
        for item in unmanaged:
            spec = held.pop(item.instance_name.workload, None)
            if spec is None and self.keeps_unlisted:
                self._kept[item.instance_name.workload] = item
                continue
            if spec is None:
                # [impl->swdd~agent-existing-workloads-delete-unneeded~1]
                plan.unneeded.append(item)
            else:
                _match(item, spec, plan)
        plan.operations.extend(CreateOperation(spec) for spec in held.values())
        self._held.pop(runtime, None)
        return plan

    def update_workload(
        self,
        added: Iterable[WorkloadSpec],
        deleted: Iterable[DeletedWorkload],
        managed: Mapping[str, Managed],
        waiting: Collection[str],
    ) -> Plan:
        """Plan for the difference to the last list. Deletions are first, to free resources.

        [impl->swdd~agent-handle-deleted-before-added-workloads~1]
        """
        plan = Plan()
        new = {spec.name: spec for spec in added}
        for item in {item.instance_name.workload: item for item in deleted}.values():
            spec = new.pop(item.instance_name.workload, None)
            if self._release(item, spec, plan):
                continue
            # [impl->swdd~agent-updates-deleted-and-added-workloads~1]
            # [impl->swdd~agent-deletes-workload~1]
            plan.operations.append(DeleteOperation(item) if spec is None else UpdateOperation(spec, item))
        for spec in new.values():
            self._add(spec, managed.get(spec.name), spec.name in waiting, plan)
        return plan

    def _release(self, item: DeletedWorkload, spec: WorkloadSpec | None, plan: Plan) -> bool:
        """Drop a workload that waits for its runtime. An existing instance is deleted when the runtime is listed."""
        for held in self._held.values():
            if old := held.pop(item.instance_name.workload, None):
                if spec is None or spec.instance_name != old.instance_name:
                    plan.removed.append(old.instance_name)
                if spec is not None:
                    self._hold_or_create(spec, plan)
                return True
        return False

    def _add(self, spec: WorkloadSpec, work: Managed | None, waits: bool, plan: Plan) -> None:
        if self.keeps_unlisted and work is not None and work.target == spec:
            plan.keep.append(spec.name)  # it was lost and is applied again
        elif work is None and (item := self._kept.pop(spec.name, None)) is not None:
            _match(item, spec, plan)
        elif work is not None and work.target is not None:
            # [impl->swdd~agent-update-on-add-known-workload~1]
            plan.operations.append(UpdateOperation(spec, DeletedWorkload(work.current)))
        elif work is not None or waits:
            plan.operations.append(CreateOperation(spec))  # after a running delete, or instead of a waiting operation
        else:
            # [impl->swdd~agent-added-creates-workload~1]
            self._hold_or_create(spec, plan)


def _is_managed(item: Found, managed: Mapping[str, Managed]) -> bool:
    work = managed.get(item.instance_name.workload)
    return work is not None and work.owns(item.instance_name, item.runtime)


def _is_awaited(item: Found, waiting: Mapping[str, Operation]) -> bool:
    """Return whether the workload has ended and waits for a restart until its dependencies are fulfilled."""
    entry = waiting.get(item.instance_name.workload)
    return isinstance(entry, CreateOperation) and entry.reuse is not None and entry.reuse == item.id


def _is_exact(item: Found, held: Mapping[str, WorkloadSpec]) -> bool:
    spec = held.get(item.instance_name.workload)
    return spec is not None and spec.instance_name == item.instance_name


def _match(item: Found, spec: WorkloadSpec, plan: Plan) -> None:
    """Resume a workload that runs unchanged or is finished, restart one that succeeded, replace all others.

    [impl->swdd~agent-existing-workloads-resume-existing~1]
    [impl->swdd~agent-existing-workloads-replace-updated~1]
    """
    same = item.instance_name == spec.instance_name
    if same and (item.state.is_same(RUNNING_OK) or is_finished(spec.restart_policy, item.state)):
        plan.resume.append(ResumeOperation(spec, item.id))
    elif same and item.state.is_same(SUCCEEDED_OK) and item.id is not None:
        plan.operations.append(CreateOperation(spec, item.id))
    else:
        plan.replace.append(item)
        plan.operations.append(UpdateOperation(spec, DeletedWorkload(item.instance_name)))
