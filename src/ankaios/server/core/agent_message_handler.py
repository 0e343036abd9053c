"""Connections and reports of agents: hello and greeting, states of workloads, load, devices, and the end.

Input: messages of agents, the ends of their connections, and the passing of seconds. Output: effects. Owns which agents
are not greeted because they would delete workloads.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from ankaios.common.errors import Rejected
from ankaios.common.execution_state import AGENT_DISCONNECTED, REMOVED, ExecutionState
from ankaios.common.messages import ToAgent
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_from_pb, workload_state_from_pb
from ankaios.common.state_records import StateRecord
from ankaios.common.workload import InstanceName
from ankaios.server.core.change_committer import ChangeCommitter
from ankaios.server.core.device_coordinator import DeviceCoordinator
from ankaios.server.core.event_handler import EventHandler
from ankaios.server.core.log_request_handler import LogRequestHandler
from ankaios.server.core.record_requests import RecordRequestHandler
from ankaios.server.core.replies import Effect, broadcast_states, states_for_agent
from ankaios.server.core.rollout_monitor import RolloutMonitor
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.stale_states import StaleStates
from ankaios.server.core.state_interests import StateInterests
from ankaios.server.core.state_update import added_message
from ankaios.server.core.update_request_handler import UpdateRequestHandler
from ankaios.server.core.usage_collector import UsageCollector

_log = logging.getLogger(__name__)


class AgentMessageHandler:
    """`term` and `keeps_unlisted` are part of each greeting."""

    def __init__(
        self,
        state: ServerState,
        devices: DeviceCoordinator,
        committer: ChangeCommitter,
        updates: UpdateRequestHandler,
        events: EventHandler,
        records: RecordRequestHandler,
        rollouts: RolloutMonitor,
        logs: LogRequestHandler,
        usage: UsageCollector,
        *,
        term: int,
        keeps_unlisted: bool,
    ) -> None:
        self._state = state
        self._devices = devices
        self._committer = committer
        self._updates = updates
        self._events = events
        self._records = records
        self._rollouts = rollouts
        self._logs = logs
        self._usage = usage
        self._term = term
        self._keeps_unlisted = keeps_unlisted
        self._deleting_agents: set[str] = set()  # agents that would delete unlisted workloads
        self._stale = StaleStates(state.workload_states, state.effective)
        self.interests = StateInterests(state.workload_states)

    def hello(self, agent: str, hello: grpc.AgentHello) -> list[Effect]:
        """[impl->swdd~server-informs-a-newly-connected-agent-workload-states~1]
        [impl->swdd~server-sends-all-workloads-on-start~2]
        [impl->swdd~server-stores-newly-connected-agent~2]
        [impl->swdd~server-sends-event-for-newly-connected-agent~1]
        """
        question = self._devices.question(agent, hello)
        if self._stale.connect(agent, lists_workloads=hello.devices) and not question:
            question = [ToAgent(agent, grpc.FromServer(tellWorkloads=grpc.TellWorkloads()))]
        if hello.records:
            wanted = grpc.AgentRecordsRequest(sinceMs=self._state.records.newest_of_agent(agent))
            question = [*question, ToAgent(agent, grpc.FromServer(recordsRequest=wanted))]
        if hello.dependencyStatesOnly:
            self.interests.connect(agent)
        effects = [*question, *states_for_agent(agent, self.interests.initial_states(agent))]
        self._events.watch()
        self._use_overridden_tags(agent, hello)
        self._note_deleting_agent(agent, hello)
        self._state.agents.add(agent, hello.tags.tags)
        messages = self._devices.hello(agent, hello)
        workloads = (workload.instance_name for workload in self._state.workloads_of_agent(agent))
        self._state.sessions.connect(agent, workloads, hello.runtimes)
        effects += self._events.take_events()
        own = self._committer.commit_own()  # decides what runs on the agent, which its greeting contains
        usage = self._usage.agent_connected(agent, hello)
        return [*effects, *self.greetings(), *messages, *own, *usage]

    def _note_deleting_agent(self, agent: str, hello: grpc.AgentHello) -> None:
        """An agent of Eclipse Ankaios deletes what its greeting does not contain, so it is not greeted after a loss."""
        self._deleting_agents.discard(agent)
        if self._keeps_unlisted and not hello.keepsUnlisted:
            self._deleting_agents.add(agent)
            _log.error(
                "Agent '%s' gets no commands, because it would delete workloads that are not in the state. "
                "Complete the state, then start the server with --accept-loss.",
                agent,
            )

    def _use_overridden_tags(self, agent: str, hello: grpc.AgentHello) -> None:
        tags, entries = self._committer.tags.hello(agent, dict(hello.tags.tags))
        self._state.entries.note_all(entries)
        hello.tags.CopyFrom(base.Tags(tags=tags))

    def greetings(self) -> list[Effect]:
        """Greet the agents whose workloads are decided."""
        effects: list[Effect] = []
        for agent in filter(self._devices.may_greet, self._state.sessions.ungreeted()):
            if agent in self._deleting_agents:
                continue
            workloads = map(added_message, self._devices.greet(agent))
            greeting = grpc.ServerHello(addedWorkloads=workloads, term=self._term, keepUnlisted=self._keeps_unlisted)
            effects.append(ToAgent(agent, grpc.FromServer(serverHello=greeting)))
            effects += self._logs.agent_greeted(agent)
        return effects

    def gone(self, agent: str) -> list[Effect]:
        """[impl->swdd~server-removes-disconnected-agents-from-state~2]
        [impl->swdd~server-set-workload-state-on-disconnect~1]
        [impl->swdd~server-distribute-workload-state-on-disconnect~1]
        [impl->swdd~server-sends-events-for-disconnected-agent~1]
        """
        self.interests.disconnect(agent)
        self._stale.disconnect(agent)
        self._events.watch()
        self._state.sessions.disconnect(agent, self._state.now_ms)
        self._committer.tags.gone(agent)
        self._state.agents.remove(agent)
        names = self._state.workload_states.mark_disconnected(agent)
        effects = self._events.take_events()
        self._events.remove_of_peer(agent)
        self._records.cancel_of_peer(agent)
        self._rollouts.cancel_of_peer(agent)
        effects += broadcast_states((name, AGENT_DISCONNECTED) for name in names)
        effects += self._logs.agent_gone(agent)
        effects += self._usage.agent_gone(agent)
        effects += self.device_event(lambda: self._devices.gone(agent))
        return effects + self._updates.advance_rollouts({name.workload for name in names})

    def workload_states(self, agent: str, messages: Iterable[base.WorkloadState]) -> list[Effect]:
        """[impl->swdd~server-stores-workload-state~1]
        [impl->swdd~server-forwards-workload-state~1]
        [impl->swdd~server-sends-event-for-updated-workload-states~1]
        [impl->swdd~server-sends-event-for-removed-workload-states~1]
        """
        reported = list(_valid_states(agent, messages))
        for name, state, time_ms in reported:
            self._state.records.add(StateRecord(name, time_ms or self._state.now_ms, state))
        states = [(name, state) for name, state, _ in reported]
        self._events.watch()
        self._state.workload_states.process(states)
        self._devices.states_seen(states)
        effects = self._events.take_events()
        for name, state in states:
            if state.is_same(REMOVED):
                self._forget_workload(name)
        self._rollouts.seen(states)
        effects += broadcast_states(states)
        if self._devices.has_due:
            effects += self._committer.commit_own()
        return effects + self._updates.advance_rollouts({name.workload for name, _ in states})

    def known_workloads(self, agent: str, known: grpc.KnownWorkloads) -> list[Effect]:
        stale = self._stale.listed(agent, set(map(instance_name_from_pb, known.instanceNames)))
        return self.device_event(lambda: self._devices.known_workloads(agent, known)) + self._remove_states(stale)

    def second_passed(self) -> list[Effect]:
        stale = self._remove_states(self._stale.second_passed())
        return [*self.device_event(self._devices.tick), *self._usage.tick(), *stale]

    def _remove_states(self, names: Sequence[InstanceName]) -> list[Effect]:
        """Remove the states of instances that do not exist on any agent."""
        if not names:
            return []
        states = [(name, REMOVED) for name in names]
        self._events.watch()
        self._state.workload_states.process(states)
        effects = self._events.take_events()
        for name in names:
            self._forget_workload(name)
        return effects + broadcast_states(states)

    def _forget_workload(self, name: InstanceName) -> None:
        """[impl->swdd~server-cleans-up-state~1]
        [impl->swdd~server-removes-subscription-for-deleted-subscriber-workload~1]
        """
        self._state.forget_removed(name)
        self._events.remove_of_workload(name.agent, name.workload)

    def load_status(self, agent: str, status: grpc.AgentLoadStatus) -> list[Effect]:
        """[impl->swdd~server-receives-resource-availability~2]
        [impl->swdd~server-sends-event-for-updated-agent-resource-availability~1]
        """
        self._events.watch()
        self._state.agents.set_load(agent, status.cpu_usage.cpu_usage, status.free_memory.free_memory)
        return self._events.take_events()

    def device_event(self, happened: Callable[[], list[ToAgent]]) -> list[Effect]:
        self._events.watch()
        messages = happened()
        return [*self._events.take_events(), *messages, *self._committer.commit_own(), *self.greetings()]


def _valid_states(
    agent: str, messages: Iterable[base.WorkloadState]
) -> Iterable[tuple[InstanceName, ExecutionState, int]]:
    """States with their times. States of workloads of other agents and states without a value are dropped."""
    for message in messages:
        try:
            name, state = workload_state_from_pb(message)
        except Rejected as fault:
            _log.warning("Dropped a workload state of agent '%s': %s.", agent, fault)
            continue
        if name.agent == agent:
            yield name, state, max(0, message.timeMs)
        else:
            _log.warning("Dropped the state of '%s' that came from agent '%s'.", name, agent)
