"""Requests that change the desired state, one after the other: check, show to mutating hooks, commit or plan.

Input: requests, outcomes of hooks, and states or time that decide about rollouts. Output: effects. Owns the updates
that wait and the one that hooks process. Failed rollouts are restored between updates.
"""

import logging
from collections import deque
from collections.abc import Collection

from ankaios.common.messages import Respond
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.server.core.change_committer import ChangeCommitter, CommittedChange
from ankaios.server.core.desired_state_draft import DesiredChange, change_by_request
from ankaios.server.core.device_coordinator import DeviceCoordinator
from ankaios.server.core.history_requests import change_by_rollback, change_to_values, check_unchanged
from ankaios.server.core.long_messages import request_size
from ankaios.server.core.replies import Effect, NextChange, RunHooks, plan_response, refuse, update_success
from ankaios.server.core.requester import UpdateOrigin, requested_update
from ankaios.server.core.rights import RequesterRights
from ankaios.server.core.rollout_monitor import RolloutMonitor
from ankaios.server.core.rollouts import Rollout
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.state_update import PreparedUpdate, changes_from_message, prepare_update, update_message
from ankaios.server.core.stored_entries import changed_keys
from ankaios.server.core.stored_state import with_previous
from ankaios.server.core.update_rejected import UpdateRejected
from ankaios.server.core.waiting_reasons import ClusterFacts
from ankaios.server.core.workload_plan import WorkloadChanges, plan_workloads

_log = logging.getLogger(__name__)

MAX_WAITING_UPDATES = 1000


class UpdateRequestHandler:
    """`has_hooks`: updates are shown to mutating hooks before they are applied."""

    def __init__(
        self,
        state: ServerState,
        committer: ChangeCommitter,
        devices: DeviceCoordinator,
        rollouts: RolloutMonitor,
        rights: RequesterRights,
        facts: ClusterFacts,
        *,
        has_hooks: bool,
    ) -> None:
        self._state = state
        self._committer = committer
        self._devices = devices
        self._rollouts = rollouts
        self._rights = rights
        self._facts = facts
        self._has_hooks = has_hooks
        self._at_hooks: tuple[UpdateOrigin, PreparedUpdate] | None = None
        self._waiting: deque[tuple[base.Request, UpdateOrigin]] = deque()
        self._unanswered: str | None = None  # the request of an update that waited and is handled now
        self._restoring: str | None = None  # the rollout whose previous state is being restored now

    @property
    def waiting_count(self) -> int:
        """Updates that wait until the mutating hooks have seen the ones before."""
        return len(self._waiting) + (self._at_hooks is not None)

    def size_at_hooks(self) -> int:
        """The number of workloads that the update changes which hooks process."""
        changes = self._at_hooks[1].changes if self._at_hooks is not None else WorkloadChanges()
        return len(changes.added) + len(changes.deleted)

    def size_of_next(self) -> int:
        """The number of entries that the next change examines, estimated."""
        if (rollout := self._rollouts.next_to_restore()) is not None:
            return len(rollout.entries)
        return request_size(self._waiting[0][0], self._state) if self._waiting else 0

    def recover(self, why: str) -> list[Effect]:
        """After an internal error: answer the request that was handled, and continue with the next one."""
        unanswered, self._unanswered = self._unanswered, None
        if self._restoring is not None:
            self._rollouts.not_restored(self._restoring, why)
            self._restoring = None
        return [refuse(unanswered, why)] if unanswered is not None else []

    # --- requests -----------------------------------------------------------------------------------------------------

    def request(self, request: base.Request, origin: UpdateOrigin) -> list[Effect]:
        """While hooks process one update, the others wait; all other messages are handled.

        [impl->swdd~server-continues-on-invalid-updated-state~1]
        """
        if self._at_hooks is not None:
            if len(self._waiting) >= MAX_WAITING_UPDATES:
                return [self._reject(origin, UpdateRejected("too many updates are waiting, try again later"))]
            self._waiting.append((request, origin))
            return []
        change: DesiredChange | None = None
        try:
            change = self._requested_change(request)
            self._rights.check_change(origin.requester, change)
            self._rollouts.check(changed_keys(self._state.desired, change), origin.atomic)
            prepared = prepare_update(self._state, change, self._devices.agents())
        except UpdateRejected as fault:
            return [self._reject(origin, fault, change)]
        if self._has_hooks and prepared.changes:
            shown = RunHooks(update_message(prepared.changes))
            self._wait_for_hooks((origin, prepared))
            return [shown]
        return self._commit_or_plan(origin, prepared, prepared.changes)

    def _wait_for_hooks(self, update: tuple[UpdateOrigin, PreparedUpdate] | None) -> None:
        self._at_hooks = update
        self._committer.hooks_are_running = update is not None

    def _requested_change(self, request: base.Request) -> DesiredChange:
        history, desired = self._committer.history, self._state.desired
        if request.HasField("rollbackRequest"):
            return change_by_rollback(history, desired, request.rollbackRequest, self._committer.tags.tags_for)
        update = requested_update(request)
        change = change_by_request(desired, update)
        if update.HasField("ifRevision"):
            check_unchanged(history, update.ifRevision, changed_keys(desired, change))
        return change

    def _reject(self, origin: UpdateOrigin, fault: UpdateRejected, change: DesiredChange | None = None) -> Respond:
        if origin.is_plan:
            from ankaios.server.core.change_plan import describe_rejection

            return plan_response(origin.request_id, describe_rejection(fault))
        self._state.rejections.add(change.workloads if change is not None else (), self._state.now_ms, str(fault))
        _log.info("Refused the update '%s': %.500s", origin.request_id, fault)
        return refuse(origin.request_id, str(fault))

    def hooks_finished(self, outcome: grpc.UpdateWorkload | UpdateRejected | None) -> list[Effect]:
        assert self._at_hooks is not None, "no update was shown to hooks"
        origin, prepared = self._at_hooks
        self._wait_for_hooks(None)
        self._unanswered = origin.request_id
        try:
            if isinstance(outcome, UpdateRejected):
                raise outcome
            changes = prepared.changes if outcome is None else changes_from_message(outcome)
            effects = self._commit_or_plan(origin, prepared, changes)
        except UpdateRejected as fault:
            effects = [self._reject(origin, fault, prepared.desired)]
        effects += self._committer.commit_own()  # changes that became due while hooks processed the update
        self._unanswered = None
        return effects

    # --- commit or plan -----------------------------------------------------------------------------------------------

    def _commit_or_plan(self, origin: UpdateOrigin, prepared: PreparedUpdate, changes: WorkloadChanges) -> list[Effect]:
        return [self._plan(origin, prepared, changes)] if origin.is_plan else self._commit(origin, prepared, changes)

    def _plan(self, origin: UpdateOrigin, prepared: PreparedUpdate, changes: WorkloadChanges) -> Respond:
        """Everything is decided as for a commit, and nothing is changed."""
        # Loaded with the first request for a plan: 0.2 MiB.
        from ankaios.server.core.change_plan import describe_plan, hide_unreadable

        plan = describe_plan(prepared, plan_workloads(changes, self._devices.facts), self._facts)
        plan.revision = self._committer.history.current
        hide_unreadable(plan, self._rights.readable_paths(origin.requester))
        return plan_response(origin.request_id, plan)

    def _commit(self, origin: UpdateOrigin, prepared: PreparedUpdate, changes: WorkloadChanges) -> list[Effect]:
        """[impl->swdd~server-sends-event-for-initial-workload-states~1]"""
        self._state.rejections.accepted(prepared.desired.workloads)
        names = {*changes.added, *changes.deleted} if origin.atomic is not None else set()
        ready = self._rollouts.ready_before(names)
        hooked = self._committer.known_hooked(names) if self._has_hooks else {}
        change = self._committer.commit(origin, prepared, changes)
        rollout = self._rollouts.begin(origin, change.entries, change.update, ready, hooked) if names else None
        revision = self._committer.history.current if origin.wants_revision else None
        success = update_success(origin.request_id, change.update, revision, rollout)
        effects = [*change.effects, success] if changes else [success, *change.effects]
        return [*effects, *self._after(change)]

    def _after(self, change: CommittedChange) -> list[Effect]:
        return [*change.messages, *self._committer.commit_own()]

    # --- the next change ----------------------------------------------------------------------------------------------

    def advance_rollouts(self, names: Collection[str] | None) -> list[Effect]:
        """States of these workloads, or the time, have changed."""
        return [*self._rollouts.advance(names), *self.turn()]

    def turn(self) -> list[Effect]:
        """Each change is handled as a separate message, so that its effects do not depend on the others."""
        has_next = self._waiting or self._rollouts.next_to_restore() is not None
        return [NextChange()] if has_next and self._at_hooks is None else []

    def next_change(self) -> list[Effect]:
        if self._at_hooks is not None:
            return []
        if (rollout := self._rollouts.next_to_restore()) is not None:
            self._restoring = rollout.name
            effects = self._restore_before(rollout)
            self._restoring = None
            return effects
        if not self._waiting:
            return []
        request, origin = self._waiting.popleft()
        self._unanswered = request.requestId
        effects = self.request(request, origin)
        self._unanswered = None
        return effects

    def _restore_before(self, rollout: Rollout) -> list[Effect]:
        """Restore the entries that the rollout has changed, without hooks: agents get the workloads they had before."""
        values = {entry.key: entry.before for entry in rollout.entries}
        try:
            wanted = change_to_values(values, self._state.desired, self._committer.tags.tags_for)
            prepared = prepare_update(self._state, wanted, self._devices.agents())
        except UpdateRejected as fault:
            self._rollouts.not_restored(rollout.name, fault.reason)
            return []
        note = f"restores the state before {rollout.name}: {rollout.reason}"
        _log.warning("%s failed, its change is undone: %s", rollout.name, rollout.reason)
        origin = UpdateOrigin("", "server", note=note)
        change = self._committer.commit(origin, prepared, with_previous(prepared.changes, rollout.hooked))
        self._rollouts.restoring(rollout.name, change.update)
        return [*change.effects, *self._after(change)]
