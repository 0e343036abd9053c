"""Decides about workload changes before they are committed: agents, states, and what agents are sent.

Input: the changes, and facts about agents, devices and present placements. Output: `PlannedChanges`. Nothing is changed
by planning, so a preview and a commit can use the same function.
"""

from collections.abc import Callable, Container, Iterable, Mapping

from msgspec import Struct, field

from ankaios.common.execution_state import PENDING_INITIAL, ExecutionState
from ankaios.common.workload import InstanceName
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.placement import DeviceSupply, PlacementDecision, PlacementRequest, Placements, plan_placements


class WorkloadChanges(Struct, frozen=True):
    """What agents have to add and delete, by workload name; a changed workload is in both."""

    added: Mapping[str, RenderedWorkload] = field(default_factory=dict)
    deleted: Mapping[str, InstanceName] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.deleted)


class PlannedChanges(Struct, frozen=True):
    """Workload changes with all decisions about them.

    `placements` are the placements that change, None for removed ones. `states` are states other than the initial one;
    those of waiting workloads contain the reason. `unsent` are added workloads that are not sent to their agents now,
    `never_sent` are deleted ones that their agents never received. `rendered` are instances of replicated workloads
    that changed because of agents, not because of an update.
    """

    changes: WorkloadChanges
    placements: Mapping[str, PlacementDecision | None] = field(default_factory=dict)
    states: Mapping[InstanceName, ExecutionState] = field(default_factory=dict)
    unsent: frozenset[InstanceName] = frozenset()
    never_sent: frozenset[InstanceName] = frozenset()
    rendered: Mapping[str, RenderedWorkload | None] = field(default_factory=dict)


class PlanningFacts(Struct, frozen=True):
    """What a plan depends on.

    `fixed` returns the placement of an instance that leaves nothing to choose. `lacks_devices`: the agent is connected
    and offers no devices.
    """

    placements: Placements
    supply: DeviceSupply
    fixed: Callable[[InstanceName, PlacementRequest], PlacementDecision | None]
    lacks_devices: Callable[[str], bool]
    is_ungreeted: Callable[[str], bool]
    is_unsent: Callable[[InstanceName], bool]


def plan_workloads(
    changes: WorkloadChanges,
    facts: PlanningFacts,
    waiting: Mapping[str, RenderedWorkload] | None = None,
    stranded: Container[str] = (),
) -> PlannedChanges:
    """`waiting` are workloads without an agent; those that can be placed now become part of the changes.

    Those of them that are `stranded` have an agent that cannot serve them any more; they stay if no other one can.
    """
    waiting = waiting or {}
    open_choice = {name: it for name, it in changes.added.items() if "placement" in it.form and not it.form["agent"]}
    candidates = {**waiting, **open_choice}
    placements = plan_placements(
        {name: PlacementRequest.from_form(it.form) for name, it in candidates.items()},
        (changes.deleted.keys() | changes.added.keys()) - open_choice.keys(),
        facts.placements,
        facts.supply,
        lambda name, request: facts.fixed(InstanceName.of(name, "", candidates[name].form["runtimeConfig"]), request),
        stranded,
    )
    placed: dict[str, RenderedWorkload] = {}
    states: dict[InstanceName, ExecutionState] = {}
    for name, workload in candidates.items():
        placement = placements.get(name) or facts.placements.get(name)
        assert placement is not None, "every candidate has a placement"
        if name in stranded and name not in placements:
            continue
        if name in open_choice or placement.agent != workload.instance_name.agent:
            placed[name] = workload = RenderedWorkload.of(name, {**workload.form, "agent": placement.agent})
        states[workload.instance_name] = placement.state
    moved = {name: waiting[name].instance_name for name in placed if name in waiting}
    planned = WorkloadChanges({**changes.added, **placed}, {**changes.deleted, **moved})
    return PlannedChanges(
        changes=planned,
        placements=placements,
        states={**_states_of_resent(planned, facts), **states, **states_of_withheld(planned.added.values(), facts)},
        unsent=frozenset(it.instance_name for it in planned.added.values() if _is_unsent(it, facts)),
        never_sent=frozenset(filter(facts.is_unsent, planned.deleted.values())),
    )


def is_withheld(workload: RenderedWorkload, facts: PlanningFacts) -> bool:
    """An agent without devices would start the workload without them."""
    return bool(workload.form.get("resources")) and facts.lacks_devices(workload.instance_name.agent)


def states_of_withheld(
    workloads: Iterable[RenderedWorkload], facts: PlanningFacts
) -> dict[InstanceName, ExecutionState]:
    names = (workload.instance_name for workload in workloads if is_withheld(workload, facts))
    text = "agent '{}' offers no devices, so the workload is not sent to it"
    return {name: PENDING_INITIAL.because(text.format(name.agent)) for name in names}


def _states_of_resent(planned: WorkloadChanges, facts: PlanningFacts) -> dict[InstanceName, ExecutionState]:
    """An instance that was not sent and is replaced by one of the same name starts with the initial state."""
    deleted = set(planned.deleted.values())
    names = (workload.instance_name for workload in planned.added.values())
    return {name: PENDING_INITIAL for name in names if name in deleted and facts.is_unsent(name)}


def _is_unsent(workload: RenderedWorkload, facts: PlanningFacts) -> bool:
    return is_withheld(workload, facts) or facts.is_ungreeted(workload.instance_name.agent)
