"""Monitors rollouts with the facts of the server, and answers requests about them.

Input: atomic changes that were committed, names of workloads whose states have changed, the time, and requests. Output:
rollouts to restore, responses, and entries for the store. Owns the rollouts and the subscriptions for them.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from ankaios.common.execution_state import ExecutionState
from ankaios.common.execution_state_conversion import execution_state_to_pb
from ankaios.common.messages import Respond
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.proto_conversion import instance_name_to_pb
from ankaios.common.workload import InstanceName
from ankaios.server.core.owned_requests import OwnedRequests
from ankaios.server.core.replies import refuse, refuse_too_many
from ankaios.server.core.requester import Requester, UpdateOrigin
from ankaios.server.core.rollouts import (
    COMPLETED,
    DEFAULT_SETTLE_MS,
    DEFAULT_TIMEOUT_MS,
    MOST_RUNNING,
    RESTORE_INCOMPLETE,
    RESTORED,
    RESTORING,
    SETTLING,
    STATES_OF_READY,
    WAITING,
    Rollout,
    RolloutFacts,
    Rollouts,
    WorkloadView,
    advance,
    is_ready,
    limited_ms,
)
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.state_update import CommittedUpdate
from ankaios.server.core.update_rejected import RolloutConflict, UpdateRejected
from ankaios.storage.state_store import EntryChange, EntryKey, JsonValue

_PHASES = {
    WAITING: base.ROLLOUT_WAITING,
    SETTLING: base.ROLLOUT_SETTLING,
    RESTORING: base.ROLLOUT_RESTORING,
    COMPLETED: base.ROLLOUT_COMPLETED,
    RESTORED: base.ROLLOUT_RESTORED,
    RESTORE_INCOMPLETE: base.ROLLOUT_RESTORE_INCOMPLETE,
}


class RolloutMonitor:
    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._rollouts = Rollouts()
        self._facts = RolloutFacts(self._view, lambda name: state.workload_states.get(name) is not None)
        self._followers: OwnedRequests[tuple[str, ...]] = OwnedRequests()

    def _view(self, name: str) -> WorkloadView | None:
        workload = self._state.effective.get(name)
        if workload is None:
            return None
        return WorkloadView(
            instance=workload.instance_name,
            state=self._state.workload_states.get(workload.instance_name),
            has_health_checks=bool(workload.form.get("health")),
            is_restarted=workload.form.get("restartPolicy", "NEVER") != "NEVER",
        )

    def restore(self, stored: Mapping[str, JsonValue]) -> list[str]:
        """Continue with stored rollouts; returns texts about those that cannot be used."""
        return self._rollouts.restore(stored)

    # --- changes ---

    def check(self, keys: Collection[EntryKey], atomic: base.AtomicOptions | None) -> None:
        """Reject a change of entries that a running rollout has changed."""
        if (found := self._rollouts.conflict(keys)) is not None:
            rollout, key = found
            raise RolloutConflict(rollout.name, key.kind, key.name)
        if atomic is not None and len(self._rollouts.running()) >= MOST_RUNNING:
            raise UpdateRejected(f"{MOST_RUNNING} rollouts are running, wait until one has ended")

    def ready_before(self, names: Iterable[str]) -> frozenset[str]:
        """Before the change: the workloads that are ready, which the previous state has to reach again."""
        return frozenset(name for name in names if (view := self._view(name)) is not None and is_ready(view))

    def begin(
        self,
        origin: UpdateOrigin,
        entries: Iterable[EntryChange],
        committed: CommittedUpdate,
        ready_before: frozenset[str],
        hooked: Mapping[str, JsonValue],
    ) -> str:
        """After the commit of an atomic change; returns the name of the rollout."""
        assert origin.atomic is not None
        now = self._state.now_ms
        atomic = origin.atomic
        timeout = limited_ms(atomic.timeoutMs) if atomic.HasField("timeoutMs") else DEFAULT_TIMEOUT_MS
        settle = limited_ms(atomic.settleMs) if atomic.HasField("settleMs") else DEFAULT_SETTLE_MS
        rollout = Rollout(
            name=self._rollouts.next_name(),
            requester=origin.requester_text,
            started_ms=now,
            timeout_ms=timeout,
            settle_ms=settle,
            deadline_ms=now + timeout,
            entries=tuple(entries),
            workloads=(),
            ready_before=ready_before,
            hooked=hooked,
            phase_since_ms=now,
        )
        self._put(_monitoring(rollout, committed))
        return rollout.name

    def restoring(self, name: str, committed: CommittedUpdate) -> None:
        """The previous state is desired again; only workloads that were ready before have to be ready again."""
        rollout = self._rollouts.get(name)
        assert rollout is not None
        monitored = _monitoring(rollout, committed)
        workloads = tuple(it for it in monitored.workloads if it in rollout.ready_before)
        self._put(replace(monitored, workloads=workloads, restore_is_due=False))

    def not_restored(self, name: str, why: str) -> None:
        """The previous state cannot be desired again."""
        rollout = self._rollouts.get(name)
        assert rollout is not None
        reason = f"{rollout.reason}; the previous state cannot be restored: {why}"
        now = self._state.now_ms
        self._put(replace(rollout, phase=RESTORE_INCOMPLETE, phase_since_ms=now, reason=reason, restore_is_due=False))

    def seen(self, states: Iterable[tuple[InstanceName, ExecutionState]]) -> None:
        """An agent has reported states: an instance that keeps its name counts once its predecessor has stopped."""
        stopped = {name.workload for name, state in states if state.state not in STATES_OF_READY}
        for rollout in self._rollouts.running():
            if rollout.unseen & stopped:
                self._put(replace(rollout, unseen=rollout.unseen - stopped))

    def advance(self, names: Collection[str] | None = None) -> list[Respond]:
        """After states of these workloads (None: or the time) have changed. Returns responses for followers."""
        changed: set[str] = set()
        for rollout in self._rollouts.running():
            if names is not None and not rollout.names().intersection(names):
                continue
            after = advance(rollout, self._facts, self._state.now_ms)
            if after != rollout:
                self._put(after)
            if after != rollout or names is not None:
                changed.add(rollout.name)
        return self._news(changed)

    def next_to_restore(self) -> Rollout | None:
        """A failed rollout whose previous state is not desired yet."""
        return next((it for it in self._rollouts.running() if it.restore_is_due), None)

    def _put(self, rollout: Rollout) -> None:
        self._state.entries.note_all(self._rollouts.put(rollout))

    # --- requests ---

    def request(self, request_id: str, wanted: base.RolloutsRequest, owner: Requester) -> Respond:
        names = tuple(wanted.names)
        for name in names:
            if self._rollouts.get(name) is None:
                return refuse(request_id, f"unknown rollout '{name}'")
        if wanted.follow and any(it.is_running for it in self._rollouts.select(names)):
            if not self._followers.has_room(owner):
                return refuse_too_many(request_id, "subscriptions for rollouts")
            self._followers.put(request_id, owner, names)
        return self._response(request_id, names)

    def cancel(self, request_id: str) -> None:
        self._followers.remove(request_id)

    def cancel_of_peer(self, peer: str) -> None:
        self._followers.remove_of_peer(peer)

    def _news(self, changed: Collection[str]) -> list[Respond]:
        responses = []
        for request_id, names in self._followers.items() if changed else ():
            if names and not set(names).intersection(changed):
                continue
            responses.append(self._response(request_id, names))
            if not any(it.is_running for it in self._rollouts.select(names)):
                self.cancel(request_id)
        return responses

    def _response(self, request_id: str, names: Collection[str]) -> Respond:
        infos = [self._info(rollout) for rollout in self._rollouts.select(names)]
        return Respond(base.Response(requestId=request_id, rolloutsResponse=base.RolloutsResponse(rollouts=infos)))

    def _info(self, rollout: Rollout) -> base.RolloutInfo:
        return base.RolloutInfo(
            name=rollout.name,
            phase=_PHASES[rollout.phase],
            requester=rollout.requester,
            startedMs=rollout.started_ms,
            deadlineMs=rollout.deadline_ms,
            settleMs=rollout.settle_ms,
            phaseSinceMs=rollout.phase_since_ms,
            workloads=list(self._workloads_of(rollout)),
            reason=rollout.reason,
        )

    def _workloads_of(self, rollout: Rollout) -> Iterable[base.RolloutWorkload]:
        for name in rollout.workloads:
            if (view := self._view(name)) is not None:
                state = execution_state_to_pb(view.state) if view.state is not None else None
                ready = is_ready(view) and name not in rollout.unseen
                instance = instance_name_to_pb(view.instance)
                yield base.RolloutWorkload(instanceName=instance, executionState=state, isReady=ready)
        for instance_name in rollout.deleted:
            known = self._state.workload_states.get(instance_name)
            state = None if known is None else execution_state_to_pb(known)
            instance = instance_name_to_pb(instance_name)
            yield base.RolloutWorkload(instanceName=instance, executionState=state, isReady=known is None)


def _monitoring(rollout: Rollout, committed: CommittedUpdate) -> Rollout:
    """The rollout with the workloads of this update to monitor."""
    added = {workload.instance_name.workload: workload.instance_name for workload in committed.added}
    deleted = [it.instance_name for it in committed.deleted]
    return replace(
        rollout,
        workloads=tuple(sorted(added)),
        deleted=tuple(name for name in deleted if name.workload not in added),
        unseen=frozenset(name.workload for name in deleted if added.get(name.workload) == name),
    )
