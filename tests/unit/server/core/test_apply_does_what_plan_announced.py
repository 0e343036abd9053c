"""For generated states and changes, applying does exactly what the plan announced."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.execution_state import FAILED_EXEC_FAILED, PENDING_STARTING, RUNNING_OK, SUCCEEDED_OK
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.workload import InstanceName
from ankaios.server.core.field_changes import field_changes
from ankaios.server.core.replies import HooksFinished, RunHooks
from tests.support.examples import examples
from tests.unit.server.scenario import Form, Scenario, responses

NAMES = ["a", "b", "c", "d"]
AGENTS = ["n1", "n2", "gone", ""]

forms = st.fixed_dictionaries(
    {
        "agent": st.sampled_from(AGENTS),
        "runtime": st.sampled_from(["podman", "native"]),
        "runtimeConfig": st.sampled_from(["image: x:1", "image: x:2", "v: {{k}}"]),
    },
    optional={
        "dependencies": st.dictionaries(
            st.sampled_from([*NAMES, "missing"]),
            st.sampled_from(["ADD_COND_RUNNING", "ADD_COND_SUCCEEDED"]),
            max_size=2,
        ),
        "configs": st.just({"k": "key"}),
        "tags": st.dictionaries(st.sampled_from(["t", "u"]), st.sampled_from(["1", "2"])),
        "restartPolicy": st.sampled_from(["NEVER", "ALWAYS"]),
        "placement": st.just({"tags": {}}),
    },
)
states = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from(["v1", "v1", "v1", "v0.1", "v9"]),
        "workloads": st.dictionaries(st.sampled_from(NAMES), forms),
    },
    optional={"configs": st.dictionaries(st.sampled_from(["key", "other"]), st.sampled_from(["1", "2"]))},
)
masks = st.lists(
    st.sampled_from(
        [
            *(f"desiredState.workloads.{name}" for name in NAMES),
            "desiredState.workloads.a.tags.t",
            "desiredState.workloads.b.agent",
            "desiredState.configs.key",
            "desiredState.workloads",
            "agents.n1.tags",
            "desiredState",
        ]
    ),
    max_size=3,
)
reported = st.dictionaries(
    st.sampled_from(NAMES),
    st.sampled_from([RUNNING_OK, SUCCEEDED_OK, FAILED_EXEC_FAILED, PENDING_STARTING]),
)
hook_behaviours = st.sampled_from(["none", "keep", "tag", "drop"])


def finish_hooks(scenario: Scenario, effects: list[Any], behaviour: str) -> list[base.Response]:
    for effect in effects:
        if isinstance(effect, RunHooks):
            for added in effect.update.addedWorkloads if behaviour == "tag" else ():
                added.workload.tags.tags["hook"] = "1"
            if behaviour == "drop":
                del effect.update.addedWorkloads[:1]
            effects = scenario.server.handle(HooksFinished(None if behaviour == "keep" else effect.update))
    return responses(effects)


def effective(scenario: Scenario) -> Form:
    state = scenario.get("effectiveState.workloads").get("effectiveState", {})
    workloads: Form = state.get("workloads", {})
    return workloads


@examples(60)
@given(before=states, after=states, chosen=masks, states_seen=reported, behaviour=hook_behaviours)
def test_apply_does_exactly_what_the_plan_announced(
    before: Form, after: Form, chosen: list[str], states_seen: dict[str, Any], behaviour: str
) -> None:
    scenario = Scenario(has_hooks=behaviour != "none")
    for agent in ("n1", "n2"):
        scenario.hello(agent)
    finish_hooks(scenario, scenario.update({"desiredState": before}), behaviour)
    for name, form in effective(scenario).items():
        instance = InstanceName.of(name, form["agent"], form["runtimeConfig"])
        if name in states_seen and form["agent"] in ("n1", "n2"):
            scenario.report(form["agent"], {instance: states_seen[name]})
    update = base.UpdateStateRequest(
        newState=COMPLETE_STATE.from_form({"desiredState": after, "agents": {"n1": {"tags": {"t": "1"}}}}),
        updateMask=chosen,
    )
    tree, old = scenario.get(), effective(scenario)

    effects = scenario.ask("p", planRequest=base.PlanRequest(update=update))
    (planned,) = finish_hooks(scenario, effects, behaviour)
    plan = planned.planResponse
    assert scenario.get() == tree, "a plan changes nothing"

    applied = finish_hooks(scenario, scenario.ask("u", updateStateRequest=update), behaviour)[-1]
    if not plan.accepted:
        assert applied.error.message == plan.rejection
        assert scenario.get() == tree
        return
    success = applied.UpdateStateSuccess
    assert sorted(success.addedWorkloads) == sorted(_text(it.after) for it in plan.workloads if it.HasField("after"))
    assert sorted(success.deletedWorkloads) == sorted(
        _text(it.before) for it in plan.workloads if it.HasField("before")
    )
    new = effective(scenario)
    announced = {it.name: it for it in plan.workloads}
    for name in old.keys() | new.keys():
        if name not in announced:
            assert old.get(name) == new.get(name)
        elif announced[name].action != base.PLANNED_DELETE:
            assert list(announced[name].fields) == field_changes(old.get(name), new[name])
        else:
            assert name not in new
    configs_before, configs_after = (_configs(state) for state in (tree, scenario.get()))
    for key in configs_before.keys() | configs_after.keys():
        was_announced = any(it.kind == "config" and it.name == key for it in plan.entries)
        assert was_announced == (configs_before.get(key) != configs_after.get(key))


def _text(name: base.WorkloadInstanceName) -> str:
    return f"{name.workloadName}.{name.id}.{name.agentName}"


def _configs(state: Form) -> Form:
    configs: Form = state["desiredState"].get("configs", {})
    return configs
