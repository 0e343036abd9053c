"""The execution states of all workloads, by agent, workload and instance id. This map is their only owner.

They are stored in plain form: `{agent: {workload: {id: {additionalInfo, state, subState, ...}}}}`. The map of the
instances of a workload is replaced, never changed, and maps that become empty are removed. `before_change` is called
with the path of each change, and `on_decided` with each state that was not reported by an agent. While a client
requests it, a state also holds the `usage` of the instance, which changes each second without an event.

[impl->swdd~state-map-for-workload-execution-states~2]
"""

from collections.abc import Callable, Iterable, Iterator

from ankaios.common.execution_state import (
    AGENT_DISCONNECTED,
    NOT_SCHEDULED,
    PENDING_INITIAL,
    REMOVED,
    ExecutionState,
    HealthState,
)
from ankaios.common.state_manipulation import Form, Path
from ankaios.common.workload import InstanceName

REMOVED_WORD = "Removed"
_SHARED: dict[tuple[str, str], Form] = {}


def execution_state_to_form(state: ExecutionState) -> Form:
    """Return the plain form. States without further information are shared, because there are only a few."""
    if state.additional_info or state.health or state.restarts:
        return _detailed_form(state)
    key = (state.state, state.sub_state)
    if key not in _SHARED:
        _SHARED[key] = {"additionalInfo": "", "state": state.state, "subState": state.sub_state}
    return _SHARED[key]


def _detailed_form(state: ExecutionState) -> Form:
    form: Form = {"additionalInfo": state.additional_info, "state": state.state, "subState": state.sub_state}
    if state.health is not None:
        form["health"] = {"status": state.health.status, "text": state.health.text}
    if state.restarts:
        form["restarts"] = state.restarts
    return form


def _state_of(form: Form) -> ExecutionState:
    health = HealthState(**form["health"]) if "health" in form else None
    return ExecutionState(form["state"], form["subState"], form["additionalInfo"], health, form.get("restarts", 0))


class WorkloadStatesMap:
    """All modules may read `form`, but only this class changes it."""

    def __init__(
        self, before_change: Callable[[Path], None], on_decided: Callable[[InstanceName, ExecutionState], None]
    ) -> None:
        self.form: dict[str, dict[str, dict[str, Form]]] = {}
        self._agents: dict[str, tuple[str, ...]] = {}  # by workload: the agents that have states of it
        self._before_change = before_change
        self._on_decided = on_decided

    def get(self, name: InstanceName) -> ExecutionState | None:
        form = self.form.get(name.agent, {}).get(name.workload, {}).get(name.id)
        return None if form is None else _state_of(form)

    def of_workload(self, workload: str) -> list[tuple[InstanceName, ExecutionState]]:
        """Return the instances of the workload on all agents."""
        return [
            (InstanceName(workload, instance_id, agent), _state_of(form))
            for agent in self._agents.get(workload, ())
            for instance_id, form in self.form[agent][workload].items()
        ]

    def of_agent(self, agent: str) -> list[tuple[InstanceName, ExecutionState]]:
        return list(self._walk(agent))

    def all_except(self, agent: str) -> list[tuple[InstanceName, ExecutionState]]:
        return [entry for other in self.form if other != agent for entry in self._walk(other)]

    def _walk(self, agent: str) -> Iterator[tuple[InstanceName, ExecutionState]]:
        for workload, ids in self.form.get(agent, {}).items():
            for instance_id, form in ids.items():
                yield InstanceName(workload, instance_id, agent), _state_of(form)

    def process(self, states: Iterable[tuple[InstanceName, ExecutionState]]) -> None:
        """Store reported states; a removed workload has no state."""
        for name, state in states:
            if state.state == REMOVED_WORD:
                self._remove(name)
            else:
                self._put(name, state)

    def put(self, name: InstanceName, state: ExecutionState) -> None:
        """Set a state that the owner of the map decides."""
        self._put(name, state)
        self._on_decided(name, state)

    def _put(self, name: InstanceName, state: ExecutionState) -> None:
        self._before_change((name.agent, name.workload, name.id))
        workloads = self.form.setdefault(name.agent, {})
        if name.workload not in workloads:
            self._agents[name.workload] = (*self._agents.get(name.workload, ()), name.agent)
        ids = workloads.get(name.workload, {})
        form = execution_state_to_form(state)
        usage = ids.get(name.id, {}).get("usage")
        workloads[name.workload] = {**ids, name.id: form if usage is None else {**form, "usage": usage}}

    def set_usage(self, name: InstanceName, usage: Form | None) -> None:
        """Store or remove the usage of an instance. An instance without a state has no usage."""
        ids = self.form.get(name.agent, {}).get(name.workload, {})
        if (form := ids.get(name.id)) is None:
            return
        if usage is not None or "usage" in form:
            rest = {key: value for key, value in form.items() if key != "usage"}
            changed = rest if usage is None else {**rest, "usage": usage}
            self.form[name.agent][name.workload] = {**ids, name.id: changed}

    def remove(self, name: InstanceName) -> None:
        """Remove an instance that the owner of the map considers deleted."""
        self._remove(name)
        self._on_decided(name, REMOVED)

    def _remove(self, name: InstanceName) -> None:
        ids = self.form.get(name.agent, {}).get(name.workload, {})
        if name.id not in ids:
            return
        self._before_change((name.agent, name.workload, name.id))
        if others := {other: form for other, form in ids.items() if other != name.id}:
            self.form[name.agent][name.workload] = others
        else:
            del self.form[name.agent][name.workload]
            self._forget_agent(name)
        if not self.form[name.agent]:
            del self.form[name.agent]

    def _forget_agent(self, name: InstanceName) -> None:
        agents = tuple(agent for agent in self._agents[name.workload] if agent != name.agent)
        if agents:
            self._agents[name.workload] = agents
        else:
            del self._agents[name.workload]

    def add_initial(self, names: Iterable[InstanceName]) -> None:
        """Add the initial state of new instances. Instances that already have a state keep it.

        [impl->swdd~server-sets-state-of-new-workloads-to-pending~1]
        """
        for name in names:
            if name.id not in self.form.get(name.agent, {}).get(name.workload, {}):
                self.put(name, PENDING_INITIAL if name.agent else NOT_SCHEDULED)

    def mark_disconnected(self, agent: str) -> list[InstanceName]:
        """Set the states of all workloads of the agent to disconnected."""
        names = [name for name, _ in self._walk(agent)]
        for name in names:
            self.put(name, AGENT_DISCONNECTED)
        return names
