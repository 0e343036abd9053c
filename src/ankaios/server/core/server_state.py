"""The facts of the server: the desired state, the workloads of each agent, their states, and the connected agents.

They form one tree in plain form, which field masks select from, so that only requested parts are converted. The tree is
changed in place, entry by entry, and only by the methods of this module. Entries are replaced and never changed, so
other modules may keep references to them. Derived from the tree: the rendered workloads, and which workloads use a
config or an agent.

[impl->swdd~server-state-in-memory~1]
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ankaios.common.execution_state import ExecutionState
from ankaios.common.model.state import COMPLETE_STATE, EMPTY_STATE, STATE
from ankaios.common.state_manipulation import MISSING, Form, Path
from ankaios.common.state_records import FROM_SERVER, StateRecord, StateRecords
from ankaios.common.workload import InstanceName
from ankaios.server.core.agent_map import AgentMap
from ankaios.server.core.agent_sessions import AgentSessions
from ankaios.server.core.change_recorder import ChangeRecorder
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.delete_graph import DeleteGraph
from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.server.core.recent_rejections import RecentRejections
from ankaios.server.core.replicas import owner_of, runs_on_every_agent
from ankaios.server.core.stored_entries import EntryCollector
from ankaios.server.core.workload_states_map import WorkloadStatesMap


class Index:
    """Names by something they have in common."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def __getitem__(self, key: str) -> Collection[str]:
        return self._names.get(key, ())

    def move(self, name: str, old: Iterable[str], new: Iterable[str]) -> None:
        for key in old:
            names = self._names[key]
            names.discard(name)
            if not names:
                del self._names[key]
        for key in new:
            self._names.setdefault(key, set()).add(name)


class ServerState:
    """`tree` is read by other modules and changed only here. `now` is the time of the message that is handled, in
    seconds since 1970. `entries` collects what has to be stored because of the message.
    """

    def __init__(self) -> None:
        self.records = StateRecords()
        self.entries = EntryCollector()
        self.sessions = AgentSessions()
        self.rejections = RecentRejections()
        self.now = 0.0
        self.workload_states = WorkloadStatesMap(
            lambda path: self.recorder.touch(("workloadStates", *path)), self._record_decided
        )
        self.agents = AgentMap(lambda path: self.recorder.touch(("agents", *path)))
        self.tree: Form = {
            "desiredState": {**EMPTY_STATE, "workloads": {}},
            "workloadStates": self.workload_states.form,
            "agents": self.agents.form,
            "effectiveState": {**EMPTY_STATE, "workloads": {}},
        }
        self.recorder = ChangeRecorder(self.tree)
        self.delete_graph = DeleteGraph()
        # As rendered, before mutating hooks: what the next update is compared with. Contains replicated workloads and
        # their instances.
        self.rendered: dict[str, RenderedWorkload] = {}
        self.on_every_agent: dict[str, RenderedWorkload] = {}
        # As sent to agents.
        self.effective: dict[str, RenderedWorkload] = {}
        self._users_of_config = Index()
        self._on_agent = Index()
        self._instances = Index()

    def _record_decided(self, name: InstanceName, state: ExecutionState) -> None:
        self.records.add(StateRecord(name, self.now_ms, state, FROM_SERVER))

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return int(self.now * 1000)

    @property
    def desired(self) -> Form:
        desired: Form = self.tree["desiredState"]
        return desired

    def config(self, key: str) -> Any:
        return self.desired.get("configs", {}).get(key, MISSING)

    def users_of_config(self, key: str) -> Collection[str]:
        """The workloads that use the configuration item."""
        return self._users_of_config[key]

    def workloads_of_agent(self, agent: str) -> list[RenderedWorkload]:
        """The workloads that are to run there, by the (rendered) field `agent`.

        [impl->swdd~agent-from-agent-field~1]
        """
        return [self.effective[name] for name in sorted(self._on_agent[agent])] if agent else []

    def workload_count(self, agent: str) -> int:
        return len(self._on_agent[agent])

    def instances_of(self, workload: str) -> list[str]:
        """The names of the instances of a replicated workload."""
        return sorted(self._instances[workload])

    def is_desired(self, name: InstanceName) -> bool:
        workload = self.effective.get(name.workload)
        return workload is not None and workload.instance_name == name

    # --- changing -----------------------------------------------------------------------------------------------------

    def put_desired(self, change: DesiredChange) -> None:
        """[impl->swdd~server-state-updates-state-on-unmodified-workloads~1]"""
        self._put_api_version(change.api_version)
        for name, form in change.workloads.items():
            old = self.desired["workloads"].get(name, {})
            self._users_of_config.move(name, _references(old), _references(form or {}))
        for section, entries in change.sections().items():
            for name, entry in entries.items():
                self._put(("desiredState", section, name), entry)

    def _put_api_version(self, version: str) -> None:
        for state in ("desiredState", "effectiveState"):
            if self.tree[state]["apiVersion"] != version:
                self._put((state, "apiVersion"), version)

    def put_rendered(self, workloads: Mapping[str, RenderedWorkload | None]) -> None:
        for name, workload in workloads.items():
            old = self.rendered.pop(name, None)
            self._instances.move(name, _owners(old), _owners(workload))
            self.on_every_agent.pop(name, None)
            if workload is not None:
                self.rendered[name] = workload
                if runs_on_every_agent(workload.form):
                    self.on_every_agent[name] = workload

    def put_effective(self, workloads: Mapping[str, RenderedWorkload | None]) -> None:
        for name, workload in workloads.items():
            old = self.effective.pop(name, None)
            self._on_agent.move(name, _agents(old), _agents(workload))
            if workload is not None:
                self.effective[name] = workload
            self._put(("effectiveState", "workloads", name), None if workload is None else workload.form)

    def forget_removed(self, name: InstanceName) -> None:
        """An agent reported that the instance does not exist any more; a new instance of the workload may exist."""
        successor = self.effective.get(name.workload)
        self.delete_graph.forget(name.workload, successor.form.get("dependencies", {}) if successor else {})

    def put_states(self, states: Mapping[InstanceName, ExecutionState]) -> None:
        """Set states that the server decides; others are reported by agents."""
        for name, state in states.items():
            if self.workload_states.get(name) != state:
                self.workload_states.put(name, state)

    def replace_device_instance(self, name: str, form: Form | None) -> None:
        """Device instances are decided by the device coordinator; they are part of the tree for requests and events."""
        self._put(("deviceInstances", name), form)

    def _put(self, path: Path, entry: Any) -> None:
        """Set an entry, or drop it if it is None; an optional map exists only while it has entries."""
        self.recorder.touch(path)
        above = self.tree
        for part in path[:-2]:
            above = above[part]
        entries = above.setdefault(path[-2], {})
        if entry is not None:
            entries[path[-1]] = entry
            return
        entries.pop(path[-1], None)
        if not entries and path[-2] in _OPTIONAL_MAPS:
            del above[path[-2]]


_OPTIONAL_MAPS = {*COMPLETE_STATE.empty_parts(), *STATE.empty_parts()}


def _references(workload: Form) -> set[str]:
    return set(workload.get("configs", {}).values())


def _owners(workload: RenderedWorkload | None) -> tuple[str, ...]:
    owner = "" if workload is None else owner_of(workload.form)
    return (owner,) if owner else ()


def _agents(workload: RenderedWorkload | None) -> tuple[str, ...]:
    return () if workload is None else (workload.instance_name.agent,)
