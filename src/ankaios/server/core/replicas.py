"""Instances of workloads that run more than once: `replicas` of them, or one on each agent.

Input: rendered workloads of the desired state, and the agents with their tags. Output: the workloads that have to run.
They are part of the effective state only, and each has its own state. An instance does not depend on the number of its
siblings, so changing that number does not restart any of them.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from hashlib import blake2b

from ankaios.common.errors import Rejected
from ankaios.common.names import MAX_NAME_LENGTH, MAX_REPLICAS
from ankaios.common.state_manipulation import Form
from ankaios.server.core.config_renderer import RenderedWorkload

AgentTags = Mapping[str, Mapping[str, str]]
_OF_THE_GROUP = ("replicas", "everyAgent", "replicaOf")


def is_replicated(form: Form) -> bool:
    placement = form.get("placement", {})
    return "replicas" in placement or runs_on_every_agent(form)


def runs_on_every_agent(form: Form) -> bool:
    return bool(form.get("placement", {}).get("everyAgent"))


def owner_of(form: Form) -> str:
    """The workload of which this is an instance; empty for other workloads."""
    owner: str = form.get("placement", {}).get("replicaOf", "")
    return owner


def check_replicas(name: str, form: Form) -> None:
    """Reject a placement of the desired state that contradicts itself."""
    placement = form.get("placement", {})
    if "replicaOf" in placement:
        raise Rejected(f"cannot use the placement of '{name}': replicaOf is set by the server")
    if not is_replicated(form):
        return
    if form["agent"]:
        raise Rejected(f"cannot use the placement of '{name}': with several instances the server chooses the agents")
    if "replicas" in placement and runs_on_every_agent(form):
        raise Rejected(f"cannot use the placement of '{name}': either replicas or everyAgent is possible")
    if placement.get("replicas", 0) > MAX_REPLICAS:
        raise Rejected(f"cannot use the placement of '{name}': at most {MAX_REPLICAS} replicas are possible")


def replica_instances(workload: RenderedWorkload, agents: AgentTags) -> dict[str, RenderedWorkload]:
    """The instances that have to run, by name."""
    form, name = workload.form, workload.instance_name.workload
    if not is_replicated(form):
        return {}
    placement = form["placement"]
    kept = {key: value for key, value in placement.items() if key not in _OF_THE_GROUP} | {"replicaOf": name}
    if not runs_on_every_agent(form):
        suffixes = {str(number): "" for number in range(placement["replicas"])}
    else:
        tags = placement.get("tags", {})
        suffixes = {agent: agent for agent, has in sorted(agents.items()) if tags.items() <= has.items()}
    names = {derived_name(name, suffix): agent for suffix, agent in suffixes.items()}
    return {
        instance: RenderedWorkload.of(instance, {**form, "agent": agent, "placement": kept})
        for instance, agent in names.items()
    }


def changed_instances(
    workloads: Mapping[str, RenderedWorkload | None],
    agents: AgentTags,
    existing: Callable[[str], Iterable[str]],
    rendered: Mapping[str, RenderedWorkload],
    taken: Container[str],
) -> dict[str, RenderedWorkload | None]:
    """The instances of these workloads that have to be added, replaced or removed (None).

    `existing` returns the names of the present instances of a workload, `rendered` has what they are now. An instance
    whose name is `taken` by a workload of the desired state is left out.
    """
    changed: dict[str, RenderedWorkload | None] = {}
    for name, workload in workloads.items():
        wanted = replica_instances(workload, agents) if workload is not None else {}
        wanted = {instance: it for instance, it in wanted.items() if instance not in taken}
        for instance in (*wanted, *existing(name)):
            now, before = wanted.get(instance), rendered.get(instance)
            if now is None or before is None or now.form != before.form:
                changed[instance] = now
    return changed


def changed_instances_on(
    agents: Mapping[str, Mapping[str, str] | None],
    workloads: Mapping[str, RenderedWorkload],
    rendered: Mapping[str, RenderedWorkload],
    taken: Container[str],
) -> dict[str, RenderedWorkload | None]:
    """The same for workloads that run on every agent, if only these agents have changed (None: the agent is lost)."""
    present = {agent: tags for agent, tags in agents.items() if tags is not None}
    changed: dict[str, RenderedWorkload | None] = {}
    for name, workload in workloads.items():
        names = sorted(derived_name(name, agent) for agent in agents)
        existing = [it for it in names if it in rendered and owner_of(rendered[it].form) == name]
        changed |= changed_instances({name: workload}, present, {name: existing}.__getitem__, rendered, taken)
    return changed


def derived_name(base_name: str, suffix: str = "") -> str:
    """A name that is too long is shortened and made unique by a hash."""
    name = f"{base_name}-{suffix}" if suffix else base_name
    if len(name) <= MAX_NAME_LENGTH:
        return name
    digest = blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{name[: MAX_NAME_LENGTH - len(digest) - 1]}-{digest}"
