"""The server computes only what changes. Here it is compared with a model that computes everything again each time.

The model has no drafts, indexes, recorders and selections: it copies the whole state, applies masks to the
copy, parses, renders and checks all of it, and compares whole states to find out what agents and subscribers receive.
"""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.errors import Rejected
from ankaios.common.execution_state import REMOVED, RUNNING_OK, SUCCEEDED_OK, ExecutionState
from ankaios.common.model.state import COMPLETE_STATE, STATE
from ankaios.common.state_events import altered_paths
from ankaios.common.state_manipulation import MISSING, AlteredPaths, Path, differences, format_path, get_value
from ankaios.common.workload import InstanceName
from ankaios.server.core.config_renderer import render_workload
from ankaios.server.core.conventions import check_rendered_workload
from ankaios.server.core.replies import Effect
from tests.support.examples import examples
from tests.unit.server.core.test_event_handler import naive_altered
from tests.unit.server.scenario import Form, Scenario, effects_as_lines, events_of, responses, success_of

SUBSCRIPTIONS: dict[str, list[str]] = {
    "everything": [],
    "agents": ["desiredState.workloads.*.agent", "agents"],
    "states": ["workloadStates.*.*.*.state", "workloadStates.n1"],
    "one": ["desiredState.workloads.a", "effectiveState.workloads.a.*", "desiredState.configs.k"],
    "deep": ["desiredState.workloads.*.tags.*", "desiredState.configs.*.x", "workloadStates.*.*"],
}


class Refused(Exception):
    pass


def _filled(state: Form) -> Form:
    """All collections present, as update masks see them."""
    full = copy.deepcopy(state)
    full.setdefault("workloads", {})
    full.setdefault("configs", {})
    full.setdefault("deviceConfigurations", {})
    for workload in full["workloads"].values():
        for name in ("dependencies", "tags", "configs"):
            workload.setdefault(name, {})
        workload.setdefault("files", [])
        workload.setdefault("controlInterfaceAccess", {})
    return full


def _set(tree: Form, path: Path, value: Any) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise Refused
    tree[path[-1]] = copy.deepcopy(value)


def _remove(tree: Form, path: Path) -> None:
    for part in path[:-1]:
        if not isinstance(tree, dict) or part not in tree:
            raise Refused
        tree = tree[part]
    if not isinstance(tree, dict):
        raise Refused
    tree.pop(path[-1], None)


def _has_cycle(workloads: dict[str, Form]) -> bool:
    remaining = {
        name: {other for other in form.get("dependencies", {}) if other in workloads}
        for name, form in workloads.items()
    }
    while free := [name for name, needed in remaining.items() if not needed & set(remaining)]:
        for name in free:
            del remaining[name]
    return bool(remaining)


class Model:
    """Computes everything again for every message."""

    def __init__(self) -> None:
        self.desired: Form = {"apiVersion": "v1", "workloads": {}}
        self.effective: dict[str, Form] = {}
        self.states: dict[InstanceName, Form] = {}
        self.agents: dict[str, Form] = {}

    def tree(self) -> Form:
        states: Form = {}
        for name, state in self.states.items():
            states.setdefault(name.agent, {}).setdefault(name.workload, {})[name.id] = state
        return copy.deepcopy(
            {
                "desiredState": self.desired,
                "workloadStates": states,
                "agents": self.agents,
                "effectiveState": {"apiVersion": self.desired["apiVersion"], "workloads": self.effective},
            }
        )

    def update(self, new: Form, masks: list[str]) -> tuple[list[str], list[str]]:
        desired, agents = self._new_desired(new, masks)
        configs = desired.get("configs", {})
        try:
            rendered = {
                name: render_workload(name, form, lambda key: configs.get(key, MISSING))
                for name, form in desired["workloads"].items()
            }
            for workload in rendered.values():
                check_rendered_workload(workload)
        except Rejected as fault:
            raise Refused from fault
        if _has_cycle(desired["workloads"]):
            raise Refused
        old, new_forms = self.effective, {name: workload.form for name, workload in rendered.items()}
        added = [name for name, form in new_forms.items() if old.get(name) != form]
        deleted = [name for name, form in old.items() if new_forms.get(name) != form]
        gone = {InstanceName.of(name, old[name]["agent"], old[name]["runtimeConfig"]) for name in deleted}
        come = {rendered[name].instance_name for name in added}
        self._change_states(come, gone - come)
        self.desired, self.effective = desired, new_forms
        for name, agent in agents.items():
            if name in self.agents:
                kept = {key: value for key, value in self.agents[name].items() if key != "tags"}
                self.agents[name] = kept | ({"tags": agent["tags"]} if agent.get("tags") else {})
        return sorted(map(str, come)), sorted(map(str, gone))

    def _new_desired(self, new: Form, masks: list[str]) -> tuple[Form, Form]:
        tree = {"desiredState": _filled(self.desired), "agents": {}}
        if not masks:
            if "workloads" not in new.get("desiredState", {}):
                raise Refused
            tree = {"desiredState": new["desiredState"], "agents": new.get("agents", {})}
            if any("tags" not in agent for agent in tree["agents"].values()):
                raise Refused
        for mask in masks:
            path = tuple(mask.split("."))
            value = get_value(new, path)
            if value is not MISSING:
                _set(tree, path, value)
            else:
                _remove(tree, path)
            tree = {
                "desiredState": _filled(tree.get("desiredState", {"apiVersion": "v1"})),
                "agents": tree.get("agents", {}),
            }
        try:
            return STATE.read(tree["desiredState"]), tree["agents"]
        except Rejected as fault:
            raise Refused from fault

    def _change_states(self, come: set[InstanceName], gone: set[InstanceName]) -> None:
        for name in gone:
            never_started = name.agent not in self.agents and self.states.get(name, {}).get("subState") == "Initial"
            if not name.agent or never_started:
                self.states.pop(name, None)
        for name in come:
            pair = ("Pending", "Initial") if name.agent else ("NotScheduled", "NotScheduled")
            self.states.setdefault(name, {"additionalInfo": "", "state": pair[0], "subState": pair[1]})

    def hello(self, agent: str, tags: dict[str, str]) -> None:
        self.agents[agent] = {"tags": tags} if tags else {}

    def gone(self, agent: str) -> None:
        self.agents.pop(agent, None)
        for name in self.states:
            if name.agent == agent:
                lost = "AgentDisconnected"
                self.states[name] = {"additionalInfo": "", "state": lost, "subState": lost}

    def load(self, agent: str, cpu: int) -> None:
        if agent in self.agents:
            self.agents[agent] = {**self.agents[agent], "status": {"cpuUsage": cpu, "freeMemory": 1}}

    def report(self, name: InstanceName, state: ExecutionState) -> None:
        if state.is_same(REMOVED):
            self.states.pop(name, None)
        else:
            self.states[name] = {
                "additionalInfo": state.additional_info,
                "state": state.state,
                "subState": state.sub_state,
            }


# --- random scenarios ------------------------------------------------------------------------------------------------

names = st.sampled_from("abc")
config_keys = st.sampled_from("kl")
config_items = st.one_of(
    st.sampled_from(["n1", "n2", ""]),
    st.lists(st.just("i"), max_size=2),
    st.fixed_dictionaries({}, optional={"x": st.sampled_from("yz"), "z": st.just({})}),
)
workloads = st.fixed_dictionaries(
    {},
    optional={
        "agent": st.sampled_from(["n1", "n2", "", "{{v}}"]),
        "runtime": st.just("podman"),
        "runtimeConfig": st.sampled_from(["one", " two\n", "{{v}}"]),
        "restartPolicy": st.sampled_from(["NEVER", "ALWAYS"]),
        "tags": st.dictionaries(st.sampled_from("tu"), st.sampled_from("12"), max_size=2),
        "dependencies": st.dictionaries(names, st.just("ADD_COND_RUNNING"), max_size=1),
        "configs": st.dictionaries(st.just("v"), config_keys, max_size=1),
        "files": st.lists(st.just({"mountPoint": "/m", "data": "{{v}}"}), max_size=1),
    },
)
whole_workloads = st.builds(
    lambda part, rest: {"agent": "n1", "runtime": "podman", "runtimeConfig": "one"} | part | rest,
    workloads,
    st.just({}),
)
desired_states = st.fixed_dictionaries(
    {"apiVersion": st.just("v1")},
    optional={
        "workloads": st.dictionaries(names, st.one_of(whole_workloads, whole_workloads, workloads), max_size=3),
        "configs": st.dictionaries(config_keys, config_items, max_size=2),
    },
)
new_states = st.fixed_dictionaries(
    {},
    optional={
        "desiredState": desired_states,
        "agents": st.dictionaries(
            st.sampled_from(["n1", "n2"]),
            st.fixed_dictionaries({"tags": st.dictionaries(st.just("g"), st.sampled_from("12"), min_size=1)}),
            max_size=2,
        ),
    },
)
masks = st.one_of(
    st.builds(lambda name: f"desiredState.workloads.{name}", names),
    st.builds(
        lambda name, field: f"desiredState.workloads.{name}.{field}",
        names,
        st.sampled_from(
            ["agent", "tags", "tags.t", "configs", "dependencies", "runtimeConfig", "restartPolicy", "files"]
        ),
    ),
    st.builds(lambda key: f"desiredState.configs.{key}", config_keys),
    st.sampled_from(
        ["desiredState", "desiredState.workloads", "desiredState.configs", "desiredState.configs.k.x", "nowhere",
         "nowhere.deep", "agents", "agents.n1", "agents.n1.tags", "agents.n1.tags.g"]
    ),
)  # fmt: skip
updates = st.tuples(st.just("update"), new_states, st.lists(masks, max_size=3))
steps = st.one_of(
    updates,
    updates,
    updates,
    st.tuples(st.just("hello"), st.sampled_from(["n1", "n2"]), st.dictionaries(st.just("g"), st.just("0"))),
    st.tuples(st.just("gone"), st.sampled_from(["n1", "n2"])),
    st.tuples(st.just("load"), st.sampled_from(["n1", "n2"]), st.integers(0, 2)),
    st.tuples(st.just("report"), st.integers(0, 5), st.sampled_from([RUNNING_OK, SUCCEEDED_OK.because("x"), REMOVED])),
)


def _as_sent(state: Form) -> Form:
    """The state as the server receives it: without empty collections."""
    return COMPLETE_STATE.to_form(COMPLETE_STATE.from_form(state))


def _apply_step(scenario: Scenario, model: Model, step: tuple[Any, ...]) -> list[Effect]:
    match step:
        case ("update", new, given_masks):
            return _apply_update(scenario, model, new, given_masks)
        case ("hello", agent, tags):
            model.hello(agent, tags)
            return scenario.hello(agent, tags)
        case ("gone", agent):
            model.gone(agent)
            return scenario.gone(agent)
        case ("load", agent, cpu):
            model.load(agent, cpu)
            return scenario.load(agent, cpu, 1)
        case ("report", number, state) if model.states:
            name = sorted(model.states)[number % len(model.states)]
            model.report(name, state)
            return scenario.report(name.agent, {name: state})
    return []


def _apply_update(scenario: Scenario, model: Model, new: Form, given_masks: list[str]) -> list[Effect]:
    effects = scenario.update(new, *given_masks)
    sent = _as_sent(new)
    if not given_masks and "agents" in new and "agents" in sent:
        sent["agents"] = new["agents"]
    try:
        expected = model.update(sent, given_masks)
    except Refused:
        assert [response for response in responses(effects) if response.HasField("error")], effects_as_lines(effects)
    else:
        assert success_of(effects) == expected
    return effects


def _expected_events(old: Form, new: Form) -> dict[str, AlteredPaths]:
    found = {}
    for subscriber, mask_texts in SUBSCRIPTIONS.items():
        paths = [tuple(mask.split(".")) for mask in mask_texts]
        altered = naive_altered(paths, old, new) if paths else altered_paths(None, differences(old, new))
        if altered:
            found[subscriber] = altered
    return found


def _texts(paths: dict[Path, None]) -> list[str]:
    return sorted(map(format_path, paths))


def _check_events(effects: list[Effect], old: Form, new: Form) -> None:
    expected = _expected_events(old, new)
    receivers = [
        response.requestId.partition("@")[2]
        for response in responses(effects)
        if response.completeStateResponse.HasField("alteredFields")
    ]
    assert set(receivers) == set(expected)
    for subscriber, (added, updated, removed, state) in zip(receivers, events_of(effects), strict=True):
        altered = expected[subscriber]
        assert (added, updated, removed) == (_texts(altered.added), _texts(altered.updated), _texts(altered.removed))
        for path in (*altered.added, *altered.updated):
            assert get_value(state, path) == get_value(new, path)


@examples(80)
@given(st.lists(steps, min_size=1, max_size=12))
def test_any_scenario_has_the_state_and_events_of_a_computation_from_scratch(
    scenario_steps: list[tuple[Any, ...]],
) -> None:
    scenario, model = Scenario(), Model()
    for request_id, mask_texts in SUBSCRIPTIONS.items():
        scenario.subscribe(*mask_texts, request_id=request_id, connection="cli-conn-2")
    for step in scenario_steps:
        before = model.tree()
        effects = _apply_step(scenario, model, step)
        after = model.tree()
        assert scenario.server.state.tree == after
        _check_events(effects, before, after)
    assert scenario.get() == COMPLETE_STATE.to_form(COMPLETE_STATE.from_form(model.tree()))
    assert set(scenario.server.state.rendered) == set(model.effective)
