"""Prepares an update of the desired state: decides everything and changes nothing. `ChangeCommitter` commits it.

Between the two, mutating hooks may change the update. The cost depends on the change: only workloads whose definition
or configs changed are rendered, checked and compared.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from ankaios.common.errors import Rejected
from ankaios.common.model.state import WORKLOAD
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_from_pb, instance_name_to_pb
from ankaios.common.state_manipulation import MISSING, Form
from ankaios.common.workload import DeletedWorkload, InstanceName
from ankaios.server.core.brokers import config_references
from ankaios.server.core.config_renderer import ConfigOf, RenderedWorkload, render_workload
from ankaios.server.core.conventions import (
    check_api_version,
    check_config_item,
    check_config_references,
    check_device_configuration_name,
    check_device_configurations,
    check_rendered_workload,
)
from ankaios.server.core.cycle_check import find_cycle
from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.server.core.replicas import AgentTags, changed_instances, is_replicated, owner_of, replica_instances
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.state_view import filled_workload
from ankaios.server.core.update_rejected import (
    BrokenConvention,
    DependencyCycle,
    InvalidName,
    InvalidState,
    TemplateFailed,
    TooManyEntries,
)
from ankaios.server.core.update_strategy import check_update_strategy
from ankaios.server.core.workload_plan import WorkloadChanges

# With more, one update takes more than ten seconds, and the server needs more memory than its unit allows.
MAX_WORKLOADS = 50_000


class PreparedUpdate(Struct, frozen=True):
    """Everything that an accepted update will change. Valid until another update is committed."""

    desired: DesiredChange
    rendered: Mapping[str, RenderedWorkload | None]
    changes: WorkloadChanges


class CommittedUpdate(Struct, frozen=True):
    """`unstarted` are deleted instances that no agent has to delete; `sent` are the parts that agents receive."""

    added: list[RenderedWorkload]
    deleted: list[DeletedWorkload]
    unstarted: list[InstanceName]
    sent_added: list[RenderedWorkload]
    sent_deleted: list[DeletedWorkload]


# --- prepare ----------------------------------------------------------------------------------------------------------


def prepare_update(state: ServerState, change: DesiredChange, agents: AgentTags | None = None) -> PreparedUpdate:
    """Decide what the change does, or why it is rejected. `agents` are those that instances can run on."""
    _check_count(state, change)
    _check_before_rendering(state, change)
    rendered = _render_affected(state, change)
    try:
        known = agents or {}
        tags = {**known, **change.agent_tags} if change.agent_tags else known
        rendered = {**_instances(state, change, rendered, tags), **rendered}
        _check_config_users(state, change)
    except Rejected as fault:
        raise InvalidState(str(fault)) from fault
    prepared = PreparedUpdate(change, rendered, compare_rendered(state, rendered))
    _check_cycles(state, prepared)
    return prepared


def _check_count(state: ServerState, change: DesiredChange) -> None:
    """A state that has too many workloads already, from a store, can still be changed and reduced."""
    stored = state.desired["workloads"]
    new = sum(form is not None and name not in stored for name, form in change.workloads.items())
    removed = sum(form is None and name in stored for name, form in change.workloads.items())
    if new > removed and (count := len(stored) + new - removed) > MAX_WORKLOADS:
        raise TooManyEntries(count, "workloads", MAX_WORKLOADS, "divide them among several servers")


def _check_before_rendering(state: ServerState, change: DesiredChange) -> None:
    try:
        check_api_version(change.api_version)
        for key, item in change.configs.items():
            if item is not None:
                check_config_item(key, item)
        for workload in change.workloads.values():
            if workload is not None:
                check_config_references(workload.get("configs", {}))
        for name, configuration in change.device_configurations.items():
            if configuration is not None:
                check_device_configuration_name(name)
        check_device_configurations(state.desired, change.device_configurations)
    except Rejected as fault:
        raise BrokenConvention(str(fault)) from fault


def _render_affected(state: ServerState, change: DesiredChange) -> dict[str, RenderedWorkload | None]:
    """Workloads that render to something else than before.

    [impl->swdd~server-state-triggers-configuration-rendering-of-workloads~1]
    [impl->swdd~server-state-compares-rendered-workloads~1]
    """
    stored = state.desired["workloads"]
    config_of = partial(_config, state, change)
    configurations = {**state.desired.get("deviceConfigurations", {}), **change.device_configurations}
    rendered: dict[str, RenderedWorkload | None] = {}
    for name in sorted(_affected(state, change)):
        form = change.workloads[name] if name in change.workloads else stored[name]
        workload = None if form is None else _render(name, form, config_of)
        before = state.rendered.get(name)
        if workload is None or before is None or workload.form != before.form:
            if workload is not None:
                _check_rendered(workload)
                check_update_strategy(workload, configurations)
            rendered[name] = workload
    return rendered


def _render(name: str, form: Form, config_of: ConfigOf) -> RenderedWorkload:
    try:
        return render_workload(name, form, config_of)
    except Rejected as fault:
        raise TemplateFailed(str(fault)) from fault


def _check_rendered(workload: RenderedWorkload) -> None:
    try:
        check_rendered_workload(workload)
    except Rejected as fault:
        raise InvalidName(str(fault)) from fault


def _config(state: ServerState, change: DesiredChange, key: str) -> Any:
    """The configuration item after the change, or MISSING."""
    if key not in change.configs:
        return state.config(key)
    item = change.configs[key]
    return MISSING if item is None else item


def _check_config_users(state: ServerState, change: DesiredChange) -> None:
    """Configuration items that device configurations refer to must exist, as those of workloads must."""
    if not change.device_configurations and not change.configs:
        return
    for name, form in {**state.desired.get("deviceConfigurations", {}), **change.device_configurations}.items():
        for user, key in config_references(form or {}):
            is_concerned = name in change.device_configurations or key in change.configs
            if is_concerned and _config(state, change, key) is MISSING:
                raise Rejected(
                    f"{user} of device configuration '{name}' references config key '{key}' that does not exist"
                )


def _instances(
    state: ServerState, change: DesiredChange, rendered: Mapping[str, RenderedWorkload | None], agents: AgentTags
) -> dict[str, RenderedWorkload | None]:
    """The instances of replicated workloads that change. Their names must not be those of other workloads."""
    _check_dependencies(state, change, rendered)
    changed = changed_instances(rendered, agents, state.instances_of, state.rendered, ())
    for name in change.workloads:
        if (other := state.rendered.get(name)) is not None and changed.get(name, other) is not None:
            _check_name(name, other)
    for name, instance in changed.items():
        if instance is not None and change.workloads.get(name, state.desired["workloads"].get(name)) is not None:
            _check_name(name, instance)
    return changed


def _check_name(name: str, instance: RenderedWorkload) -> None:
    if owner := owner_of(instance.form):
        raise Rejected(f"workload '{name}' has the name of an instance of workload '{owner}', choose another one")


def _check_dependencies(
    state: ServerState, change: DesiredChange, rendered: Mapping[str, RenderedWorkload | None]
) -> None:
    """A dependency on a replicated workload would never be fulfilled, because only its instances have states."""
    new = {name for name, workload in rendered.items() if workload is not None and is_replicated(workload.form)}
    new -= {name for name in new if name in state.rendered and is_replicated(state.rendered[name].form)}
    dependents = {**state.desired["workloads"], **change.workloads} if new else change.workloads
    for name, form in dependents.items():
        for dependency in (form or {}).get("dependencies", ()):
            other = rendered[dependency] if dependency in rendered else state.rendered.get(dependency)
            if other is not None and is_replicated(other.form):
                raise Rejected(
                    f"workload '{name}' depends on '{dependency}', which has several instances; name one of them, such "
                    f"as '{next(iter(replica_instances(other, {'<agent>': {}})), dependency)}'"
                )


def _affected(state: ServerState, change: DesiredChange) -> set[str]:
    return set(change.workloads).union(*(state.users_of_config(key) for key in change.configs))


def compare_rendered(state: ServerState, rendered: Mapping[str, RenderedWorkload | None]) -> WorkloadChanges:
    """Agents have the effective workload, so that one is deleted. Of a replicated workload the instances are deleted.

    [impl->swdd~server-detects-new-workload~1]
    [impl->swdd~server-detects-deleted-workload~1]
    [impl->swdd~server-detects-changed-workload~1]
    """
    return WorkloadChanges(
        added={name: it for name, it in rendered.items() if it is not None and not is_replicated(it.form)},
        deleted={name: state.effective[name].instance_name for name in rendered if name in state.effective},
    )


def _check_cycles(state: ServerState, prepared: PreparedUpdate) -> None:
    """A new cycle goes through a workload whose dependencies are new, so the search may begin there.

    Only if there is one, all added workloads are examined in order, so that the same one is always reported.
    """
    changes, stored = prepared.desired.workloads, state.desired["workloads"]

    def dependencies_of(name: str) -> Mapping[str, str] | None:
        form: Form | None = changes[name] if name in changes else stored.get(name)
        return None if form is None else form.get("dependencies", {})

    added = [name for name in prepared.changes.added if dependencies_of(name)]
    suspects = [name for name in added if stored.get(name, {}).get("dependencies") != dependencies_of(name)]
    if suspects and find_cycle(suspects, dependencies_of):
        name = find_cycle(added, dependencies_of)
        raise DependencyCycle(f"workload dependency '{name}' is part of a cycle.")


# --- mutating hooks ---------------------------------------------------------------------------------------------------


def update_message(changes: WorkloadChanges) -> grpc.UpdateWorkload:
    """The input of mutating hooks."""
    return grpc.UpdateWorkload(
        addedWorkloads=map(added_message, changes.added.values()),
        deletedWorkloads=[
            grpc.DeletedWorkload(instanceName=instance_name_to_pb(name)) for name in changes.deleted.values()
        ],
    )


def added_message(workload: RenderedWorkload) -> grpc.AddedWorkload:
    return grpc.AddedWorkload(
        instanceName=instance_name_to_pb(workload.instance_name), workload=filled_workload(workload.form)
    )


def changes_from_message(message: grpc.UpdateWorkload) -> WorkloadChanges:
    """The output of mutating hooks, used without further checks."""
    try:
        return WorkloadChanges(
            added={added.instanceName.workloadName: _hooked_workload(added) for added in message.addedWorkloads},
            deleted={
                deleted.instanceName.workloadName: instance_name_from_pb(deleted.instanceName)
                for deleted in message.deletedWorkloads
            },
        )
    except Rejected as fault:
        raise InvalidState(str(fault)) from fault


def _hooked_workload(added: grpc.AddedWorkload) -> RenderedWorkload:
    if not added.instanceName.workloadName:
        raise Rejected("an added workload lacks its instance name")
    given = WORKLOAD.to_form(added.workload)
    form = WORKLOAD.read_at(given, added.instanceName.workloadName)
    # The id was made from this text, so the text stays as the hook wrote it.
    form["runtimeConfig"] = given["runtimeConfig"]
    return RenderedWorkload(instance_name_from_pb(added.instanceName), form)
