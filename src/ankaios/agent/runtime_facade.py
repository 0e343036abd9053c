"""Starts the tasks of workloads, and deletes existing workloads that are not needed.

Input: operations of the manager. Output: workload objects, and the existing workloads of runtimes. The module owns the
workloads that have a task, one for each name, and the deletions of unneeded workloads that are running or will be
retried.
"""

import asyncio
import logging

from ankaios.agent.core.runtime_manager import Found
from ankaios.agent.core.workload_events import Command, Create, Resume
from ankaios.agent.core.workload_lifecycle import LAST_SLOWER_TRY, retry_limit
from ankaios.agent.workload_object import WorkloadObject
from ankaios.agent.workload_task import SharedServices
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.execution_state import (
    REMOVED,
    RUNNING_OK,
    STOPPING_DELETE_FAILED,
    STOPPING_REQUESTED_AT_RUNTIME,
    ExecutionState,
)
from ankaios.common.supervision import internal_error
from ankaios.common.workload import InstanceName, WorkloadSpec

log = logging.getLogger(__name__)


class RuntimeFacade:
    """[impl->swdd~agent-uses-specified-runtime~1]"""

    def __init__(self, agent: str, services: SharedServices) -> None:
        self._agent = agent
        self._services = services
        self._deletions: dict[tuple[InstanceName, str], asyncio.Task[None]] = {}
        self._pausing: dict[tuple[InstanceName, str], asyncio.Task[None]] = {}  # deletions that failed
        self.workloads: dict[str, WorkloadObject] = {}

    def instances(self) -> set[InstanceName]:
        """Return all instances that may have containers, including those that are being deleted."""
        owned = (name for workload in self.workloads.values() for name in workload.instances)
        return {*owned, *(name for name, _ in [*self._deletions, *self._pausing])}

    async def existing_workloads(self, runtime: str) -> list[Found]:
        """Raises `Unavailable` if the runtime cannot list its workloads.

        [impl->swdd~agent-facade-forwards-list-reusable-workloads-call~1]
        """
        if self._services.connectors.is_unused(runtime):
            return []
        existing = await self._services.connectors[runtime].existing_workloads(self._agent)
        return [Found(runtime, item.instance_name, item.state, item.id) for item in existing]

    def create(self, spec: WorkloadSpec, reuse: str | None = None) -> WorkloadObject:
        """[impl->swdd~agent-create-workload~1]"""
        return self._begin(spec, Create(reuse))

    def resume(self, spec: WorkloadSpec, runtime_id: str | None) -> WorkloadObject:
        """[impl->swdd~agent-resume-workload~1]"""
        return self._begin(spec, Resume(runtime_id))

    def replace(self, old: Found) -> WorkloadObject:
        """Take over the old workload; the following update deletes it before the new one is created.

        [impl->swdd~agent-replace-workload~1]
        """
        return self._begin(old.as_spec(), Resume(old.id))

    def start_beside(self, spec: WorkloadSpec) -> None:
        """Start a new instance while the present one continues to run; `ready` deletes the old one.

        If the present instance is not ready yet, it is deleted, and its predecessor continues to run. An update back to
        the running instance only deletes the new one.
        """
        present = self.workloads[spec.name]
        running, present.predecessor = present.predecessor or present, None
        if running is not present:
            present.delete()
        if running.target == spec:
            self.workloads[spec.name] = running
            self._services.report(spec.instance_name, running.last_state or RUNNING_OK)
            return
        self._begin(spec, Create()).predecessor = running

    def ready(self, name: InstanceName, state: ExecutionState) -> None:
        """Delete the predecessor of a workload if this reported state shows that the workload is ready."""
        workload = self.workloads.get(name.workload)
        if workload is not None and workload.predecessor is not None and workload.is_ready(name, state):
            workload.end_predecessor()

    def delete_found(self, found: Found) -> None:
        """Delete a workload that has no workload object. Retry until it is deleted or needed again.

        [impl->swdd~agent-delete-old-workload~1]
        """
        key = (found.instance_name, found.runtime)
        self._cancel_retry(key)
        if key not in self._deletions:
            name = f"the deletion of the unneeded '{key[0]}'"
            self._deletions[key] = self._services.tasks.run_once(name, lambda: self._delete_until_gone(found))

    def _cancel_retry(self, key: tuple[InstanceName, str]) -> None:
        if (task := self._pausing.pop(key, None)) is not None:
            task.cancel()

    def _begin(self, spec: WorkloadSpec, first: Command) -> WorkloadObject:
        """[impl->swdd~agent-stores-running-workload~1]"""
        self._cancel_retry((spec.instance_name, spec.runtime))
        workload = WorkloadObject(spec, first, self._services)
        self.workloads[spec.name] = workload
        self._services.tasks.run_once(f"workload '{spec.name}'", lambda: self._run(spec.name, workload))
        return workload

    async def _run(self, name: str, workload: WorkloadObject) -> None:
        """Wait until a running deletion of the same workload has removed its container and folder, then run.

        [impl->swdd~podman-adapter-removes-podman-workload~2]
        """
        if before := [task for (other, _), task in self._deletions.items() if other.workload == name]:
            await asyncio.wait(before)
        try:
            await workload.run()
        finally:
            if self.workloads.get(name) is workload:
                del self.workloads[name]

    async def _delete_until_gone(self, found: Found) -> None:
        """Retry the deletion. Other operations do not wait during the pauses, and a new workload cancels it."""
        key, attempt = (found.instance_name, found.runtime), 1
        while not await self._delete(found, first=attempt == 1):
            self._pausing[key] = self._deletions.pop(key)
            await asyncio.sleep(self._services.chance() * retry_limit(min(attempt, LAST_SLOWER_TRY)))
            self._deletions[key] = self._pausing.pop(key)
            attempt += 1
        del self._deletions[key]

    async def _delete(self, found: Found, *, first: bool) -> bool:
        """Return whether the workload is deleted."""
        name = found.instance_name
        # The same instance may run in another runtime; then state and folder belong to that one.
        work = self.workloads.get(name.workload)
        report = _nothing if work and work.owns(name) else self._services.report
        if first:
            report(name, STOPPING_REQUESTED_AT_RUNTIME)
        try:
            await self._delete_container(found)
            if report is not _nothing:
                self._services.folder.remove(name)
                await self._services.devices.release(name)
        except (Rejected, Unavailable) as error:
            log.warning("cannot delete unneeded '%s', retrying: %s", name, error)
            why = str(error)
        except Exception as error:
            why = internal_error(f"the deletion of the unneeded '{name}'", error, "retrying")
        else:
            report(name, REMOVED)
            return True
        report(name, STOPPING_DELETE_FAILED.because(why))
        return False

    async def _delete_container(self, found: Found) -> None:
        connector = self._services.connectors[found.runtime]
        runtime_id = found.id or await connector.workload_id(found.instance_name)
        if runtime_id is not None:
            await connector.delete_workload(runtime_id)


def _nothing(name: InstanceName, state: ExecutionState) -> None:
    del name, state
